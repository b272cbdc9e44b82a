#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# failing.bash STATUS SECONDS SENTENCE COMMAND...
# The command must end with STATUS (one, or several as in 4,9) within SECONDS and print what matches SENTENCE (grep -E) in
# exactly TIMES lines (an environment variable, default: at least one), and never what NEVER says.
set -u
status=$1 seconds=$2 sentence=$3
shift 3
output=$(mktemp)
trap 'rm -f "$output"' EXIT

begin=$(date +%s%N)
timeout -k 1 60 "$@" >"$output" 2>&1
got=$?
spent=$(( ($(date +%s%N) - begin) / 1000000 ))

failed=0
complain() { echo "failing.bash: $*"; failed=1; }
[[ ,$status, == *,"$got",* ]] || complain "the exit status is $got and not $status"
[ "$spent" -le $((seconds * 1000)) ] || complain "it took $spent ms, allowed are $seconds s"
found=$(grep -c -E -e "$sentence" "$output")
if [ -n "${TIMES:-}" ]; then
  [ "$found" -eq "$TIMES" ] || complain "'$sentence' is said $found times and not $TIMES"
else
  [ "$found" -ge 1 ] || complain "'$sentence' is not said"
fi
if [ -n "${NEVER:-}" ] && grep -q -F -e "$NEVER" "$output"; then
  complain "'$NEVER' is said"
fi
[ "$failed" -eq 0 ] || cat "$output"
exit "$failed"
