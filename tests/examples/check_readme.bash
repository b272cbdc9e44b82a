#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_readme.bash ROOT: README.md has the program examples/first_screen.cpp and its output, and the
# refused line of tests/examples/refused.cpp with its sentence, word for word.
set -eu
cd "$1"
readme=$(cat README.md)
has() {
  [ -n "$1" ] || { echo "README.md: $2 is empty"; exit 1; }
  [[ $readme == *"$1"* ]] || { printf 'README.md does not have %s as it is now:\n%s\n' "$2" "$1"; exit 1; }
}
program=$(sed -n '/^#include/,/^\/\/ Output:$/p' examples/first_screen.cpp | sed '/^\/\/ Output:$/d')
has "$program" 'the program examples/first_screen.cpp'
[ "$(grep -c . <<<"$program")" -le 25 ] || { echo "README.md: the program has more than 25 lines"; exit 1; }
has "$(sed -n '/^\/\/ Output:$/,$ { /^\/\/ Output:$/d; s|^//   ||p; }' examples/first_screen.cpp)" 'its output'
has "$(sed -n 's|^\(.*\)  // refused$|\1|p' tests/examples/refused.cpp)" 'the line that is refused'
has "$(sed -n 's|^// expect: *||p' tests/examples/refused.cpp)" 'the sentence of the compiler'
