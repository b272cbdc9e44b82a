#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_preset.bash ROOT BUILD CMAKE JOBS PRESET FOLDERS FLAG...: builds these folders of tests under
# a preset, in a build of its own, and runs their quick tests. 77: a tool is missing.
set -eu
export LC_ALL=C
root=$1 build=$2 cmake=$3 jobs=$4 preset=$5 folders=$6
shift 6
skip() {
  echo "skipped: $1"
  exit 77
}

mkdir -p "$build"
case $preset in
  sanitize | thread)
    command -v clang++-19 >/dev/null || skip "clang++-19 is not here (Debian: clang-19)"
    [ -r /proc/self/maps ] || skip "the sanitizers read /proc/self/maps, which is not here"
    sanitizer=$([ "$preset" = thread ] && echo thread || echo address,undefined)
    echo 'int main() {}' >"$build/trial.cpp"
    clang++-19 "-fsanitize=$sanitizer" "$build/trial.cpp" -o "$build/trial" ||
      skip "clang 19 has no sanitizer here (Debian: libclang-rt-19-dev)"
    "$build/trial" || skip "a program of clang 19 with -fsanitize=$sanitizer does not run here"
    ;;
  mpich)
    for tool in mpicxx.mpich mpirun.mpich; do
      command -v $tool >/dev/null || skip "$tool is not here (Debian: mpich, libmpich-dev)"
    done
    ;;
esac

cd "$root"
"$cmake" --preset "$preset" -B "$build" "-DTENON_TEST_FOLDERS=$folders" -DTENON_BENCH=OFF "$@"
"$cmake" --build "$build" -j "$jobs"
"$(dirname "$cmake")/ctest" --test-dir "$build" -L '^quick$' -j "$jobs" --output-on-failure \
  --no-tests=error
