#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_reference.bash ROOT OUTPUT DOXYGEN: makes the reference into OUTPUT; a warning is an error.
set -eu
root=$1 output=$2 doxygen=$3
if [ -z "$doxygen" ] || [[ $doxygen == *-NOTFOUND ]]; then
  echo "skipped: doxygen is not installed"
  exit 77
fi
mkdir -p "$output"
cd "$root"
(cat docs/reference/Doxyfile; echo "OUTPUT_DIRECTORY = $output") | "$doxygen" -
[ -e "$output/html/index.html" ]
