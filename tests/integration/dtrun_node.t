#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Agents as dtctl starts them: `dtrun --node start|follow|status|stop|clean` on loopback nodes; a
# run continues without its starter; a worker, an agent, a whole node (agent stopped) is lost.
# Clock: how soon a node that is lost is known, its workers are dead, and the others continue.
# Texts are expanded by workers, functions are called by name, pids have no spaces in them:
# shellcheck disable=SC2016,SC2317,SC2013
source "${0%/*}/../lib.sh"
drive() { python3 "$SRC/tests/integration/dtrun_node.py" "$@"; }
node() { # NODE VERB [ARGUMENTS…]
    local n=$1 verb=$2
    shift 2
    dtrun --node "$verb" --root "$WORK/n$n" "$@"
}
state() { node "$1" status --run run-1 | sed -E 's/.*"state":"([a-z]*)","pid".*/\1/'; }
state_is() { [ "$(state "$1")" = "$2" ]; }
events() { grep -h "\"kind\":\"$2\"" "n$1/runs/run-1/events.jsonl"; }
has_event() { events "$1" "$2" >/dev/null; }
field() { sed -E "s/.*\"$1\":\"?([^,\"}]*).*/\1/"; }
alive() { kill -0 "$1" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
all_dead() {
    local pid
    for pid in $(cat "$WORK"/pid.* 2>/dev/null); do ! alive "$pid" || return 1; done
}
fresh() {
    local n
    for n in n?; do [ ! -d "$n" ] || node "${n#n}" clean --all --force --discard >/dev/null; done
    rm -rf got.* pid.* offsets.* go
}
late_begins
hosts_down() { fresh; } # at the end, however it comes: no agent stays behind
start() { # NODES MIN RESTARTS [KEY=VALUE…] -- SCRIPT
    local args=()
    while [ "$1" != -- ]; do args+=("$1") && shift; done
    fresh
    read -ra agents < <(drive start "$WORK" "${args[@]}" -- sh -c "$2")
}
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# ---- a run from start to end --------------------------------------------------------------------
start 2 2 0 nproc=2 -- 'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR on $GLOO_SOCKET_IFNAME"
    echo "$DTCTL_NODE $DTCTL_NODES $DTCTL_RUN $DTCTL_INPUT_TRAIN" >&2
    [ -d "$DTCTL_OUTPUT_DIR" ] && [ -d "$DTCTL_MODEL_DIR" ] && [ -d "$DTCTL_STATE_DIR" ] || exit 9
    echo "{\"loss\":$RANK}" >>"$DTCTL_OUTPUT_DIR/metrics.jsonl"
    until [ -e "$FOLDER/go" ]; do sleep 0.05; done'
ok 'the run continues without a follower' wait_for 10 has_event 1 workers-started
is "$(state 0) $(state 1)" 'running running' 'status shows a running agent'
drive follow "$WORK" 0 >follow.0 &
followed=$SECONDS
CUT=attempt_0/0/stdout.log drive follow "$WORK" 1 >follow.1
ok 'logs arrive while it runs' test -s got.1/attempt_0/0/stdout.log
is "$(cat got.1/attempt_0/0/stdout.log)" 'rank 2 of 4 at 127.0.0.2 on lo' 'ranks follow the roster'
# An agent closes the connection of a client that sends no command within 5 s.
while [ $((SECONDS - followed)) -lt 6 ]; do sleep 0.2; done
is "$(cat follow.0)" '' 'a follower that is quiet for longer than a client may be is not sent away'
touch go
drive follow "$WORK" 1 "$(cat offsets.1)" >>follow.1
wait
is "$(cat follow.0) $(cat follow.1)" 'finished 0 finished 0' 'both followers get the end'
for f in events.jsonl agent.log attempt_0/0/stdout.log attempt_0/1/stderr.log \
    output/metrics.jsonl; do
    ok "a follower that resumes gets $f without loss or repetition" \
        cmp "n1/runs/run-1/$f" "got.1/$f"
done
is "$(cat got.1/attempt_0/0/stderr.log)" "n1 2 run-1 $WORK/n1/data" \
    'workers have the DTCTL_ variables'
is "$(state 0) $(state 1)" 'finished finished' 'the status is known afterwards'
unlike "$(cat n0/runs/run-1/job.toml)" 'key' 'the key is not kept on disk'
is "$(stat -c %a n0/runs/run-1/job.toml)" 600 'the job file is readable by its owner alone'
ok 'every event is JSON with time, node and kind' python3 -c '
import json, sys
for path in sys.argv[1:]:
    for line in open(path):
        e = json.loads(line)
        assert list(e)[:5] == ["time_ms", "time", "seq", "node", "kind"], e
' n0/runs/run-1/events.jsonl n1/runs/run-1/events.jsonl
run node 0 stop --run run-1
is "$status $out" '0 {"event":"stopped"}' 'a run that is over is stopped already'
run node 0 status --run nope
is "$status" 1 'an unknown run is an error'
like "$out" '"code":"not-found"' 'the error has a code'

# ---- a worker fails -----------------------------------------------------------------------------
sleeper='echo $$ >>"$FOLDER/pid.$RANK"; '
start 2 2 1 nproc=2 -- "$sleeper"'
    [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 30 ] && { sleep 0.3; echo "boom" >&2; exit 5; }
    [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0
    exec sleep 600'
ok 'a failing worker is restarted on all nodes, and the run finishes' \
    wait_for 15 state_is 0 finished
is "$(events 0 failure | field rank) $(events 0 failure | field status)" '3 5' \
    'the failure is known'
like "$(events 0 failure)" '"tail":"boom' 'the failure has the last lines'
is "$(events 0 restart | field restarts)" 1 'the restart is counted'
first=$(events 1 worker-exited | head -n 1 | field time_ms)
last=$(events 0 worker-exited | grep '"round":0' | tail -n 1 | field time_ms)
soon 200 "$first" "$last" 'the workers of the other node were stopped within 200 ms'
ok 'nothing is left' all_dead
# The agent of the failing worker stops the others before the coordinator, which stands still, can.
start 2 2 1 nproc=8 -- "$sleeper"'
    [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0
    [ "$RANK" = 15 ] || exec sleep 600
    until [ -e "$FOLDER/go" ]; do sleep 0.02; done
    exit 5'
wait_for 10 has_event 0 workers-started
wait_for 10 has_event 1 workers-started
kill -STOP "${agents[0]}"
touch go
sleep 0.3
kill -CONT "${agents[0]}"
ok 'a worker fails while the coordinator stands still' wait_for 15 state_is 0 finished
is "$(events 0 failure | field status)" 5 'the workers that the agent stopped are no failures'
start 2 2 0 -- 'sleep 0.2; exit $RANK'
ok 'no restart left: the run fails everywhere' wait_for 10 state_is 1 failed
is "$(events 0 failed | field exit_status)" 1 'the run failed with exit status 1'
like "$(events 1 failed)" 'rank 1 on n1 ended with 1' 'every node has the reason'

# ---- many workers exit at once  -----------------------------------------------------------------
many=60
exec 8>gate 9>gate.0
flock 8 && flock 9
start 1 1 0 nproc=$many -- 'echo $$ >"$FOLDER/pid.$RANK"
    flock -s "$FOLDER/gate" true; [ "$RANK" != 0 ] || exec flock -s "$FOLDER/gate.0" true'
ok 'many workers run' wait_for 20 has_event 0 workers-started
others_dead() {
    local n
    for ((n = 1; n < many; n++)); do
        [ -e "pid.$n" ] && ! alive "$(cat "pid.$n")" || return 1
    done
}
written() { sed -n 's/^wchar: //p' "/proc/${agents[0]}/io"; }
exits_are() { [ "$(events 0 worker-exited | wc -l)" = "$1" ]; }
kill -STOP "${agents[0]}"
before=$(written)
flock -u 8
ok 'all but one exit while the agent stands still' wait_for 20 others_dead
kill -CONT "${agents[0]}"
ok 'the agent records each exit' wait_for 10 exits_are $((many - 1))
exits_shown() {
    [ "$(node 0 status --run run-1 | grep -o '"state":"exited"' | wc -l)" = "$1" ]
}
ok 'the status shows each exit' wait_for 5 exits_shown $((many - 1))
size=$(stat -c %s n0/runs/run-1/status.json) records=$(stat -c %s n0/runs/run-1/events.jsonl)
ok 'exits that come together are one change of the status' \
    test $(($(written) - before)) -lt $((records + 10 * size))
flock -u 9
ok 'the run finishes' wait_for 10 state_is 0 finished
exec 8>&- 9>&-

# ---- stop ---------------------------------------------------------------------------------------
start 2 2 0 nproc=2 -- "$sleeper exec sleep 600"
wait_for 10 has_event 1 workers-started
run node 1 stop --run run-1
is "$status $(tail -n 1 <<<"$out")" '0 {"event":"stopped"}' 'any node stops the run'
ok 'stop through any node stops all agents' wait_for 5 state_is 0 stopped
ok 'stop ends every worker' all_dead

# Many programs take a second signal for impatience and end without what the first one began.
rm -f terms
start 1 1 0 -- 'trap "echo TERM >>$FOLDER/terms" TERM; while :; do sleep 0.05; done'
wait_for 10 has_event 0 workers-started
node 0 stop --run run-1 --grace-ms 60000 >first.out &
first=$!
wait_for 10 test -s terms
began=$SECONDS
run node 0 stop --run run-1 --grace-ms 500
is "$status" 0 'a second stop with a shorter grace succeeds'
wait "$first"
is "$(events 0 worker-exited | field signal)" SIGKILL 'shortens it'
ok 'a second stop does not wait for the first limit' test $((SECONDS - began)) -lt 30
is "$(cat terms)" TERM 'a second stop sends no second signal'

# ---- a node is lost -----------------------------------------------------------------------------
work="$sleeper"'[ "$GROUP_WORLD_SIZE" = 2 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] &&
    [ "$DTCTL_ROUND" -gt 0 ] && exit 0; exec sleep 600'
# lose SIGNAL NODE WITNESS EVENT DESCRIPTION: one of three agents gets the signal; leaves the times
# of that and of its being known in $begin and $lost.
lose() {
    start 3 2 0 -- "$work"
    wait_for 10 has_event 2 workers-started
    begin=$(now_ms)
    kill -s "$1" "${agents[$2]}"
    ok "$5" wait_for 5 has_event "$3" "$4"
    lost=$(events "$3" "$4" | field time_ms)
}
lose KILL 2 0 node-lost 'an agent is killed: the others know'
soon 500 "$begin" "$lost" 'the loss is noticed at once'
ok 'the other nodes finish the run' wait_for 10 state_is 0 finished
again=$(events 0 round | tail -n 1 | field time_ms)
soon 5000 "$begin" "$again" 'within 5 s'
ok 'the workers of the killed agent are ended' all_dead
is "$(state 2)" lost 'the node of the killed agent is lost'
lose STOP 2 0 node-lost 'an agent is frozen: the others know'
soon 2100 "$begin" "$lost" 'within 2 s'
wait_for 10 state_is 0 finished
again=$(events 0 round | tail -n 1 | field time_ms)
soon 5000 "$begin" "$again" 'the next round begins within 5 s'
ok 'the frozen node has no worker left when they do' all_dead
kill -CONT "${agents[2]}"
ok 'the resumed node learns that the run is over' wait_for 40 state_is 2 failed
start 2 2 0 -- "$sleeper exec sleep 600"
wait_for 10 has_event 1 workers-started
kill -KILL "${agents[1]}"
has_failed() { state_is 0 failed && has_event 0 failed; } # the event comes last
ok 'with too few nodes the run fails' wait_for 10 has_failed
like "$(events 0 failed)" 'node n1 is gone' 'the reason names the lost node'
ok 'nothing is left behind' all_dead

# ---- the coordinator is lost --------------------------------------------------------------------
lose KILL 0 1 coordinator-lost 'the agent that coordinates is killed: the others know'
soon 500 "$begin" "$lost" 'the loss of the coordinator is noticed at once'
ok 'the next one takes over, and they finish' wait_for 10 state_is 2 finished
again=$(events 1 round | tail -n 1 | field time_ms)
soon 5000 "$begin" "$again" 'the next round begins within 5 s'
is "$(events 2 coordinator | field peer)" n1 'the next node in order coordinates'
ok 'the lost one has no worker left' all_dead
lose STOP 0 1 coordinator-lost 'the agent that coordinates is frozen: the others know'
soon 2100 "$begin" "$lost" 'within 2 s'
ok 'the other nodes finish the run' wait_for 10 state_is 2 finished
again=$(events 1 round | tail -n 1 | field time_ms)
soon 5000 "$begin" "$again" 'the next round begins within 5 s'
ok 'the frozen coordinator has no worker left' all_dead
kill -CONT "${agents[0]}"
ok 'the resumed coordinator does not continue alone' wait_for 45 has_failed
like "$(events 0 failed)" 'more than half|the run is over' \
    'the reason is the lost quorum or the end of the run'
start 2 1 0 -- "$sleeper"'[ "$GROUP_WORLD_SIZE" = 2 ] || exit 0; exec sleep 600'
wait_for 10 has_event 1 workers-started
kill -STOP "${agents[0]}"
ok 'of two nodes, the frozen coordinator is lost' \
    wait_for 5 has_event 1 coordinator-lost
sleep 3 # long enough for another round to begin, were that allowed
is "$(events 1 round | wc -l)" 1 'the other node begins no round alone, since silence is no proof'
ok 'no node has a worker' all_dead
kill -CONT "${agents[0]}"
again() { [ "$(events 1 workers-started | wc -l)" = 2 ]; }
ok 'after the freeze both nodes train again' wait_for 10 again
is "$(events 1 round | tail -n 1 | field group_rank)" 1 'the ranks are as before'
sleep 1 # a few beats: only an agent that heard the coordinator lately may take its proof
begin=$(now_ms)
kill -KILL "${agents[0]}"
ok 'a killed coordinator: the other node finishes the run alone' wait_for 10 state_is 1 finished
again=$(events 1 round | tail -n 1 | field time_ms)
soon 5000 "$begin" "$again" 'the next round begins within 5 s'

# ---- clean --------------------------------------------------------------------------------------
start 1 1 0 -- 'exec sleep 600'
wait_for 10 has_event 0 workers-started
run node 0 clean --all
is "$status" 1 'a running run is not cleaned away'
like "$out" '"code":"busy"' "the error is 'busy'"
run node 0 clean --all --force --discard
is "$status $([ -e n0 ] && echo there)" '0 ' 'a running run is removed by force'
done_testing
