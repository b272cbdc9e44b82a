#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_checks.bash ROOT COMPILER: the other checks find what they are for. Each fault is put into a
# small tree of its own, and the check must name it.
set -u
export LC_ALL=C
root=$1 compiler=$2
checks=$root/tests/project
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# a_header PATH LINE...: a good header with these lines in it.
a_header() {
  mkdir -p "$folder/tree/include/tenon/$(dirname "$1")"
  { printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n'; printf '%s\n' "${@:2}"; } \
    >"$folder/tree/include/tenon/$1"
}
fresh() {
  rm -rf "$folder/tree"
  a_header base/one.hpp '#include <vector>' 'inline int one() { return 1; }'
  a_header tensor/two.hpp '#include "tenon/base/one.hpp"' 'inline int two() { return 1 + one(); }'
}
passes() {
  if ! "$@" >"$folder/said" 2>&1; then
    echo "a tree without the fault does not pass: $*"
    cat "$folder/said"
    failed=1
  fi
}
# fails WORDS COMMAND...: the command must fail and say the words.
fails() {
  if "${@:2}" >"$folder/said" 2>&1 || ! grep -qF -- "$1" "$folder/said"; then
    echo "'$1' was not found by: ${*:2}"
    cat "$folder/said"
    failed=1
  fi
}

direction=(bash "$checks/check_include_direction.bash" "$folder/tree")
fresh && passes "${direction[@]}"
a_header base/three.hpp '#include "tenon/tensor/two.hpp"'
fails 'tensor (layer 4) is not below base (layer 0)' "${direction[@]}"
fresh && a_header mesh/three.hpp '#include "tenon/memory/four.hpp"'
fails 'memory (layer 1) is not below mesh (layer 1)' "${direction[@]}"
fresh && a_header base/three.hpp '#include "one.hpp"'
fails 'write #include "tenon/folder/name.hpp"' "${direction[@]}"
fresh && a_header tensor/three.hpp '  #  include <mpi.h>'
fails 'MPI belongs in communicate/mpi' "${direction[@]}"
fresh && a_header layer/three.hpp '#include <cuda_runtime.h>'
fails 'CUDA has no place in layer' "${direction[@]}"
fresh && a_header unheard/three.hpp '#include "tenon/base/one.hpp"'
fails 'is no layer' "${direction[@]}"

files=(bash "$checks/check_files.bash" "$folder/tree")
fresh && passes "${files[@]}"
echo 'int main() {}' >"$folder/tree/main.cpp"
fails 'main.cpp: line 1 must be the comment SPDX' "${files[@]}"
fresh && printf '#!/usr/bin/env bash\necho\n' >"$folder/tree/quickstart"
fails 'quickstart: line 2 must be the comment SPDX' "${files[@]}"
fresh && lines=()
for i in {1..400}; do lines+=("// $i"); done
a_header base/long.hpp "${lines[@]}"
fails 'long.hpp has 402 lines' "${files[@]}"
fresh && a_header base/three.hpp "// TO""DO: write it"
fails 'unfinished work' "${files[@]}"
fresh && a_header base/three.hpp "// as in /ho""me/somebody/notes"
fails 'unfinished work' "${files[@]}"

umbrellas=("$root/scripts/write_umbrellas" --check "$folder/tree/include")
fresh && passes "$root/scripts/write_umbrellas" "$folder/tree/include" && passes "${umbrellas[@]}"
a_header base/three.hpp ''
fails 'tenon/base.hpp is not the sorted list' "${umbrellas[@]}"

headers=(bash "$checks/check_headers.bash" "$folder/tree" . 2 "$compiler")
fresh && passes "${headers[@]}"
a_header base/three.hpp 'inline std::size_t three() { return 3; }'
fails 'a header does not compile alone' "${headers[@]}"
fresh && a_header base/three.hpp 'inline int three(long x) { return x; }'
fails 'a header does not compile alone' "${headers[@]}"

single=("$root/scripts/single_header_placement" tenon/tensor/two.hpp "$folder/tree/include")
fresh && a_header tensor/two.hpp '#include "tenon/base/absent.hpp"'
fails 'cannot read tenon/base/absent.hpp' "${single[@]}"

rejection() {  # rejection LINE...: the check of a program that must not compile, on these lines
  printf '%s\n' "$@" >"$folder/reject.cpp"
  bash "$root/cmake/check_reject.bash" "$folder/reject.cpp" "$compiler" both
}
wrong=('#ifdef CONTROL' '#else' 'static_assert(1 > 2, "one: is not two; take two");' '#endif')
passes rejection '// expect: one: is not two; take two' "${wrong[@]}"
fails 'no failed static assertion says' rejection '// expect: two: is not one' "${wrong[@]}"
fails 'no line says what' rejection "${wrong[@]}"
fails 'no section is legal' rejection '// expect: one' 'static_assert(false, "one");'
fails 'it compiles and must not' rejection '// expect: one' '#ifdef CONTROL' '#endif'
fails 'the legal form' rejection '// expect: one: is not two; take two' '#ifndef CONTROL' '#endif' \
  'static_assert(1 > 2, "one: is not two; take two");'
fails 'no failed static assertion says' rejection '// expect: undeclared' '#ifndef CONTROL' \
  'int x = undeclared;' '#endif'
exit $failed
