#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_tidy.bash ROOT JOBS CLANG_TIDY FLAG...: clang-tidy with .clang-tidy finds nothing in the
# headers, seen through the umbrella and through examples that instantiate their templates, nor in
# these examples. 77: there is no clang-tidy 14; other versions have other checks.
set -u
export LC_ALL=C
root=$1 jobs=$2 tidy=$3
shift 3
if [ -z "$tidy" ] || [[ $tidy == *-NOTFOUND ]]; then
  echo "skipped: clang-tidy is not here (Debian: clang-tidy)"
  exit 77
fi
case $("$tidy" --version) in
  *"version 14."*) ;;
  *) echo "skipped: $tidy is not of version 14"; exit 77 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A source outside the tree takes its settings from --config-file.
cd "$root" || exit 1
echo '#include "tenon/tenon.hpp"' >"$folder/umbrella.cpp"
programs=(examples/own_layer.cpp examples/pretrain_decoder/*.cpp)
flags=(-std=c++20 -Iinclude -Iexamples -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Wno-unknown-pragmas)
printf '%s\0' "$folder/umbrella.cpp" "${programs[@]}" |
  xargs -0 -I '{}' -P "$jobs" "$tidy" --quiet --config-file=.clang-tidy '{}' -- "${flags[@]}" "$@" ||
  { echo "clang-tidy has findings; see above"; exit 1; }
