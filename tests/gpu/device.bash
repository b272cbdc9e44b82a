#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device.bash CUDA_FOUND PROGRAM TEXT LAUNCHER...: the trainer on a GPU, one rank and four that share
# it, must come to the losses of the host: within 1e-3 in fp32 after ten steps. Skipped, with the
# reason, where nothing can run on a GPU; it has not run on one yet.
set -u
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$1" = ON ] || skip "this build found no CUDA toolkit"
program=$2 text=$3
shift 3
command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 || skip "there is no GPU on this machine"
[ -x "$program" ] || skip "the example programs were not built"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(--text "$text" --layers 2 --hidden 128 --heads 2 --sequence 64 --batch 8 --steps 10 --sample 0 --quiet)
losses() { sed 's/.*"loss": *\([0-9.e+-]*\).*/\1/' "$1"; }
"$program" "${flags[@]}" --device host --log "$folder/host" || exit 1
"$program" "${flags[@]}" --device cuda --log "$folder/one" || exit 1
"$@" "$program" "${flags[@]}" --device cuda --data 2 --tensor 2 --log "$folder/four" || exit 1
for run in one four; do
  paste <(losses "$folder/host") <(losses "$folder/$run") |
    awk '{d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3) bad = 1} END {exit bad || NR != 10}' ||
    { echo "the losses on the GPU ($run) are not those of the host"; paste "$folder/host" "$folder/$run"; exit 1; }
done
