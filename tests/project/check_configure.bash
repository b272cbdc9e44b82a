#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_configure.bash ROOT CMAKE MPICXX MPIEXEC: what is asked of the build is what it does, or it
# says why not.
set -u
export LC_ALL=C
root=$1 cmake=$2 mpicxx=$3 mpiexec=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

configure() {
  rm -rf "$folder/build"
  "$cmake" -S "$root" -B "$folder/build" -DTENON_TESTS=OFF -DTENON_EXAMPLES=OFF -DTENON_BENCH=OFF \
    "$@" >"$folder/said" 2>&1
}
# expect STATUS WORDS FLAG...: configuring ends so and says the words. CMake breaks long lines.
expect() {
  configure "${@:3}"
  local status=$?
  if [ $status != "$1" ] || ! tr -s ' \n' '  ' <"$folder/said" | grep -qF -- "$2"; then
    cat "$folder/said"
    echo "${*:3}: status $status, and $1 with the words '$2' was expected"
    failed=1
  fi
}

# A machine without CUDA: an empty name is one that was looked for and not found.
without_cuda=(-DTENON_NVCC:FILEPATH=)
expect 1 'TENON_CUDA=ON was asked, and no nvcc was found' -DTENON_CUDA=ON "${without_cuda[@]}"
expect 0 'building without CUDA (TENON_CUDA=AUTO): no nvcc was found' "${without_cuda[@]}"
expect 0 'CUDA is not used (TENON_CUDA=OFF)' -DTENON_CUDA=OFF
expect 1 'TENON_CUDA=YES was asked; it is AUTO, ON or OFF' -DTENON_CUDA=YES
printf '#!/bin/sh\necho nothing\n' >"$folder/nvcc"
chmod +x "$folder/nvcc"
expect 1 "does not answer as CUDA's compiler does" -DTENON_CUDA=ON "-DTENON_NVCC=$folder/nvcc"

# An MPI in a place of its own.
mkdir -p "$folder/elsewhere/bin"
ln -s "$mpicxx" "$folder/elsewhere/bin/mpicxx"
ln -s "$mpiexec" "$folder/elsewhere/bin/mpiexec"
expect 0 'Found MPI_CXX' -DTENON_CUDA=OFF "-DMPI_HOME=$folder/elsewhere"
if ! grep -q "^MPI_CXX_COMPILER:.*=$folder/elsewhere/bin/mpicxx" "$folder/build/CMakeCache.txt"; then
  echo "MPI_HOME=$folder/elsewhere was given, and another MPI was taken:"
  grep '^MPI' "$folder/build/CMakeCache.txt"
  failed=1
fi
exit $failed
