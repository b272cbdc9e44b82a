#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# show_schedule.bash PROGRAM: what the program refuses and says then, and the image that it writes.
set -u
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# says STATUS SENTENCE FLAG...: the program ends with the status and says the sentence, nothing else.
says() {
  local printed status
  printed=$("$program" "${@:3}" 2>&1)
  status=$?
  if [ "$status" != "$1" ] || [ "$printed" != "tenon: error: $2" ]; then
    printf 'with %s\nexpected %s: %s\nprinted  %s: %s\n' "${*:3}" "$1" "$2" "$status" "$printed"
    failed=1
  fi
}
good=(--pipeline 2 --microbatches 3)
says 2 '--pipeline is missing; it gives the stages, one a rank; type --pipeline 4' --microbatches 3
says 2 '--microbatches is missing; it gives the microbatches of a step; type --microbatches 8' --pipeline 3
says 2 '--schedule 1f2b is not known; it is gpipe, 1f1b, interleaved or zero-bubble; type --schedule 1f1b' \
  "${good[@]}" --schedule 1f2b
says 2 '--pipeline x is not a whole number; it is between 1 and 67108864; type --pipeline 4' \
  --pipeline x --microbatches 3
says 2 '--pipeline 2.5 is not a whole number; it is between 1 and 67108864; type --pipeline 4' \
  --pipeline 2.5 --microbatches 3
says 2 '--microbatches 0 is out of range; it is between 1 and 67108864; type --microbatches 8' \
  --pipeline 2 --microbatches 0
says 2 '--microbatches -1 is out of range; it is between 1 and 67108864; type --microbatches 8' \
  --pipeline 2 --microbatches -1
says 2 '--chunks 99999999999999999999 is out of range; it is between 1 and 67108864; type --chunks 2' \
  "${good[@]}" --chunks 99999999999999999999
says 2 '--chunks 2 does not fit --schedule gpipe; interleaved alone has several chunks; type --schedule interleaved, or --chunks 1' \
  "${good[@]}" --schedule gpipe --chunks 2
says 2 'a pipeline of 9000 stages, 9000 microbatches and 1 chunks was asked for; their product is at most 67108864; use fewer microbatches in a step' \
  --pipeline 9000 --microbatches 9000
says 2 '--pipeline was given 2 times; once is allowed; type --pipeline 4' "${good[@]}" --pipeline 3
says 2 '--svg was given no value; one is needed; type --svg schedule.svg' "${good[@]}" --svg
says 2 '--depth is not a flag of this program; type --help to see all of them' "${good[@]}" --depth 3
says 1 "--svg $folder/absent/a.svg cannot be written; give a file in a folder that is there" \
  "${good[@]}" --svg "$folder/absent/a.svg"

"$program" --schedule interleaved --pipeline 2 --microbatches 4 --chunks 2 --svg "$folder/a.svg" >"$folder/said" || failed=1
grep -qF '<text x="16" y="24" font-size="15">interleaved: 2 stages, 4 microbatches, 2 chunks a stage, bubble 11.1 %</text>' \
  "$folder/a.svg" || { echo "the image has not the right title"; failed=1; }
grep -qxF 'no deadlock, when a rank leaves 1 send to another open' "$folder/said" || {
  cat "$folder/said"
  failed=1
}
"$program" --help | grep -q -- '--microbatches M' || { echo "--help does not name --microbatches"; failed=1; }
exit $failed
