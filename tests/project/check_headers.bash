#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_headers.bash ROOT JOBS COMPILER FLAG...: every header compiles alone, and twice, without a
# warning. COMPILER is a g++, a clang++ or nvcc.
set -u
export LC_ALL=C
root=$1 jobs=$2 compiler=$3
shift 3
if [ -z "$compiler" ] || [[ $compiler == *-NOTFOUND ]]; then
  echo "skipped: this compiler was not found"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

case $compiler in
  *nvcc*) command=("$compiler" -std=c++20 -x cu -cuda --expt-relaxed-constexpr -o /dev/null) extension=cu ;;
  *) command=("$compiler" -std=c++20 -fsyntax-only) extension=cpp ;;
esac
if [ $extension = cpp ]; then command+=(-Wall -Wextra -Wconversion -Werror); fi

cd "$root/include" || exit 1
count=0
while IFS= read -r header; do
  count=$((count + 1))
  name=${header//\//-}
  printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$folder/${name%.hpp}.$extension"
done <<<"$(find tenon -name '*.hpp' | sort)"
[ $count -gt 0 ] || { echo "no header was found in $root/include"; exit 1; }

find "$folder" -name "*.$extension" -print0 |
  xargs -0 -n 1 -P "$jobs" "${command[@]}" -I. "$@" || { echo "a header does not compile alone"; exit 1; }
echo "$count headers compile alone with $compiler"
