#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_headers.bash ROOT WHICH JOBS COMPILER FLAG...: every header whose path matches WHICH compiles
# alone, and twice, without a warning; and all headers in the order from high to low. COMPILER is a
# g++, a clang++ or nvcc.
set -u
export LC_ALL=C
root=$1 which=$2 jobs=$3 compiler=$4
shift 4
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
headers=$(find tenon -name '*.hpp' | sort)
[ -n "$headers" ] || { echo "no header was found in $root/include"; exit 1; }
while IFS= read -r header; do
  name=${header//\//-}
  printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$folder/${name%.hpp}.$extension"
done <<<"$(grep -E "$which" <<<"$headers")"
sort -r <<<"$headers" | sed 's|.*|#include "&"|' >"$folder/reversed.$extension"

find "$folder" -name "*.$extension" -print0 |
  xargs -0 -n 1 -P "$jobs" "${command[@]}" -I. "$@" || { echo "a header does not compile alone"; exit 1; }
echo "$(grep -c -E "$which" <<<"$headers") headers compile alone with $compiler"
