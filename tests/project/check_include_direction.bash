#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_include_direction.bash ROOT: a header includes its own folder or a lower layer, the system's
# headers only where they belong, and in the one spelling "tenon/folder/name.hpp".
set -u
export LC_ALL=C
cd "$1/include/tenon" || exit 1

level_of() {
  case $1 in
    base) echo 0 ;;
    mesh | memory) echo 1 ;;
    placement) echo 2 ;;
    communicate) echo 3 ;;
    tensor) echo 4 ;;
    kernel) echo 5 ;;
    layer) echo 6 ;;
    parallel) echo 7 ;;
    model | tier | recommend) echo 8 ;;
    plan) echo 9 ;;
    train) echo 10 ;;
    *) echo "" ;;
  esac
}
failed=0
complain() {
  echo "$1"
  failed=1
}

# One line an include: FILE:#include "..."
list=$(grep -rHE '^ *# *include' --include='*.hpp' .)
[ -n "$list" ] || complain "no header with an include was found in $PWD"
while IFS= read -r line; do
  file=${line%%:*} file=${file#./} what=${line#*:}
  from=${file%%/*} from=${from%.hpp}
  name=${what#*[\"<]} name=${name%%[\">]*}
  case $what in
    *'"tenon/'*)
      [ "$file" != tenon.hpp ] || continue
      to=${name#tenon/} to=${to%%/*} to=${to%.hpp}
      [ "$from" != "$to" ] || continue
      low=$(level_of "$to") high=$(level_of "$from")
      if [ -z "$low" ] || [ -z "$high" ]; then
        complain "$file: $from or $to is no layer; name it in tests/project/check_include_direction.bash"
      elif [ "$low" -ge "$high" ]; then
        complain "$file includes $name: $to (layer $low) is not below $from (layer $high)"
      fi
      case $from:$to:$file in
        placement:memory:*) complain "$file includes $name: placement knows no memory" ;;
        kernel:communicate:kernel/overlap/*) ;;
        kernel:communicate:*) complain "$file includes $name: only kernel/overlap knows ranks" ;;
      esac
      ;;
    *'<tenon/'* | *'"'*) complain "$file: write #include \"tenon/folder/name.hpp\", not: $what" ;;
    *'<mpi'*)
      case $file in
        communicate/mpi.hpp | communicate/mpi/* | communicate/program.hpp) ;;
        *) complain "$file includes $name: MPI belongs in communicate/mpi and program" ;;
      esac
      ;;
    *'<cblas.h>'* | *'<omp.h>'*)
      [ "$from" = kernel ] || complain "$file includes $name: BLAS and OpenMP belong in kernel" ;;
    *'<cu'* | *'<nccl'* | *'<thrust/'*)
      case $file in
        memory/* | communicate/nccl* | communicate/staged* | kernel/team/device*) ;;
        kernel/*device* | kernel/*launch*) ;;
        *) complain "$file includes $name: CUDA has no place in $from" ;;
      esac
      ;;
  esac
done <<<"$list"
exit $failed
