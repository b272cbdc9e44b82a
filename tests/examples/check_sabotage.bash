#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_sabotage.bash COMMAND...: the command names the sum that it leaves out, prints FAIL and ends
# with a status that is not 0.
set -u
status=0
printed=$("$@") || status=$?
printf '%s\n' "$printed"
[ "$status" -ne 0 ] || { echo "it ended with 0"; exit 1; }
grep -q '^sabotage: the sum of' <<<"$printed" || { echo "it does not name the sum"; exit 1; }
grep -q ' FAIL ' <<<"$printed" || { echo "it prints no FAIL"; exit 1; }
tail -n 1 <<<"$printed" | grep -q '^0 passed, 1 failed$' || { echo "the last line is another"; exit 1; }
