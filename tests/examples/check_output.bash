#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_output.bash SOURCE COMMAND...: the command prints what stands in SOURCE below "// Output:".
set -eu
source=$1
shift
expected=$(sed -n '/^\/\/ Output:$/,$ { /^\/\/ Output:$/d; s|^//   ||p; }' "$source")
[ -n "$expected" ] || { echo "$source: no output stands below '// Output:'"; exit 1; }
printed=$("$@")
if [ "$printed" != "$expected" ]; then
  printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
  exit 1
fi
