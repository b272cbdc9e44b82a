#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_files.bash ROOT: every source file names its licence on its first line (a script and a
# rejection on their second), no header is longer than 400 lines, none has marks of unfinished work or a path of
# somebody's machine.
set -u
export LC_ALL=C
cd "$1" || exit 1
failed=0
complain() {
  echo "$1"
  failed=1
}

sources=$(find . \( -name 'build*' -o -name .git \) -prune -o -type f \( -name '*.hpp' -o -name '*.cpp' \
  -o -name '*.cu' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name '*.bash' \
  -o -name '*.yml' -o -name quickstart -o -path './scripts/*' -o -path './.ci/*' \) -print | sort)
[ -n "$sources" ] || complain "no source file was found in $PWD"
while IFS= read -r file; do
  # The second line where the first is the system's, or says what the compiler must print.
  case $(head -n 1 "$file") in
    '#!'* | '// expect: '*) number=2 ;;
    *) number=1 ;;
  esac
  case $(sed -n "${number}p" "$file") in
    '// SPDX-License-Identifier: Apache-2.0' | '# SPDX-License-Identifier: Apache-2.0') ;;
    *) complain "$file: line $number must be the comment SPDX-License-Identifier: Apache-2.0" ;;
  esac
  case $file in
    *.hpp)
      lines=$(wc -l <"$file")
      [ "$lines" -le 400 ] || complain "$file has $lines lines; split it, 400 are allowed"
      grep -q '^#pragma once$' "$file" || complain "$file: write #pragma once"
      ;;
  esac
done <<<"$sources"

# The words are put together here so that this file does not find itself.
marks="TO""DO|FIX""ME|X""XX|HA""CK"
paths="/ho""me/[a-z]|/ro""ot/|/wo""rk/|/Us""ers/"
if found=$(grep -rnIE "\b($marks)\b|(^|[^A-Za-z0-9_.])($paths)" . --exclude-dir=.git \
  --exclude-dir='build*' --exclude=.git --exclude=LICENSE); then
  complain "unfinished work, or a path of one machine:
$found"
fi
exit $failed
