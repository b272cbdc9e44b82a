#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# endings.bash WAY RANKS PROGRAM TEXT LAUNCHER...
# Starts a run that would take hours, and ends it in a WAY while it trains:
#   killed       one rank is killed: all end within 10 s, and the status is not 0
#   stopped      one rank is stopped: the watchdog ends the run with 4 and a sentence
#   terminated   SIGTERM to every rank: they finish the step, and the status is 143
#   interrupted  SIGINT to every rank: the same with 130
#   launcher     SIGINT to the launcher alone, as Ctrl-C does: all end, and the status is not 0
set -u
way=$1 ranks=$2 program=$3 text=$4
shift 4
folder=$(mktemp -d)
launcher=
cleanup() {
  [ -z "$launcher" ] || kill -9 "$launcher" 2>/dev/null
  for file in "$folder"/pid.*; do
    [ ! -e "$file" ] || kill -9 "$(cat "$file")" 2>/dev/null
  done
  rm -rf "$folder"
}
trap cleanup EXIT
fail() {
  echo "endings.bash: $*"
  cat "$folder/output"
  exit 1
}
now() { date +%s%N; }

# Every rank writes down its process first: this needs neither ps nor /proc.
cat >"$folder/rank.bash" <<'RANK'
echo $$ >"$0.new.$$"
mv "$0.new.$$" "${0%/*}/pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"
exec "$@"
RANK
timeout=600
[ "$way" != stopped ] || timeout=2
# With job control a background process does not ignore SIGINT.
set -m
"$@" "$BASH" "$folder/rank.bash" "$program" --text "$text" --layers 1 --hidden 16 --heads 2 \
  --sequence 8 --batch 4 --steps 100000000 --threads 1 --tensor "$ranks" --timeout $timeout \
  --log "$folder/log" >"$folder/output" 2>&1 </dev/null &
launcher=$!
set +m

for ((i = 0; i < 600; ++i)); do
  [ -s "$folder/log" ] && break
  kill -0 "$launcher" 2>/dev/null || fail "the run ended before it trained"
  sleep 0.1
done
[ -s "$folder/log" ] || fail "the run did not train within a minute"
last=$(cat "$folder/pid.$((ranks - 1))")
all=()
for ((i = 0; i < ranks; ++i)); do all+=("$(cat "$folder/pid.$i")"); done

begin=$(now)
case $way in
  killed) kill -KILL "$last" ;;
  stopped) kill -STOP "$last" ;;
  terminated) kill -TERM "${all[@]}" ;;
  interrupted) kill -INT "${all[@]}" ;;
  launcher) kill -INT "$launcher" ;;
  *) fail "the way $way is not known" ;;
esac
while kill -0 "$launcher" 2>/dev/null; do
  [ $((($(now) - begin) / 1000000)) -le 20000 ] || fail "the run goes on 20 s after it was $way"
  sleep 0.05
done
spent=$((($(now) - begin) / 1000000))
wait "$launcher"
status=$?
launcher=
echo "the run ended $spent ms after it was $way, with status $status"
[ $spent -le 10000 ] || fail "that is more than 10 s"
# A rank that nobody has waited for yet is a zombie: it has ended.
lives() {
  local rest
  kill -0 "$1" 2>/dev/null || return 1
  read -r rest 2>/dev/null <"/proc/$1/stat" || return 0
  [[ ${rest##*) } != Z* ]]
}
for pid in "${all[@]}"; do
  while lives "$pid"; do
    [ $((($(now) - begin) / 1000000)) -le 10000 ] || fail "the rank with process $pid goes on"
    sleep 0.05
  done
done
says() { grep -q -E -e "$1" "$folder/output" || fail "'$1' is not said"; }
case $way in
  killed | launcher) [ "$status" -ne 0 ] || fail "the status is 0" ;;
  stopped)
    [ "$status" -ne 0 ] || fail "the status is 0"
    says "tenon: error: rank [0-9]+ of axis [a-z]+ .*has waited [0-9]+ s at step [0-9]+ in [a-z_]+"
    ;;
  terminated | interrupted)
    expected=143
    [ "$way" = terminated ] || expected=130
    [ "$status" -eq $expected ] || fail "the status is not $expected"
    says "interrupted after step [0-9]+ of 100000000"
    ! grep -q -e MPI_ABORT -e 'tenon: error' "$folder/output" || fail "an error is said"
    # What was logged is whole, and as many steps as are said.
    steps=$(sed -n 's/.*interrupted after step \([0-9]*\) of.*/\1/p' "$folder/output")
    [ "$(grep -c -E '^\{"step":[0-9]+,.*\}\}$' "$folder/log")" -eq "$steps" ] ||
      fail "the log has not $steps whole lines"
    ;;
esac
