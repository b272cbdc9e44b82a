#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_reject.bash FILE COMPILER both|wrong FLAG...: the file must not compile, and the compiler must
# print the sentence of each of the file's lines `// expect: sentence` in a failed static assertion.
# With -DCONTROL the same file must compile, else a typo alone would pass: `both` tries that too.
set -u
export LC_ALL=C
file=$1 compiler=$2 forms=$3
shift 3
if [ -z "$compiler" ] || [[ $compiler == *-NOTFOUND ]]; then
  echo "skipped: this machine has no such compiler; ./quickstart test installs g++ and clang-19"
  exit 77
fi

expected=$(sed -n 's|^// expect: *||p' "$file")
if [ -z "$expected" ]; then
  echo "$file: no line says what the compiler must print; write // expect: sentence"
  exit 1
fi
if ! grep -q '^#.*CONTROL' "$file"; then
  echo "$file: no section is legal; write one for #ifdef CONTROL, which must compile"
  exit 1
fi

compile() { "$compiler" -std=c++20 -fsyntax-only -fmessage-length=0 "$@" "$file" 2>&1; }
if [ "$forms" = both ] && ! printed=$(compile "$@" -DCONTROL); then
  printf '%s\n' "$printed"
  echo "$file: the legal form (-DCONTROL) must compile and does not"
  exit 1
fi
if printed=$(compile "$@"); then
  echo "$file: it compiles and must not"
  exit 1
fi
asserted=$(grep 'error: static assertion failed' <<<"$printed" || true)
while IFS= read -r sentence; do
  if ! grep -qF -- "$sentence" <<<"$asserted"; then
    printf '%s\n' "$printed" | head -n 60
    echo "$file: no failed static assertion says: $sentence"
    exit 1
  fi
done <<<"$expected"
printf '%s\n' "$asserted"
