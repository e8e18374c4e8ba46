#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Elastic runs with provider local: nodes leave and join, a spare takes a place, restarts are used
# up, crash loops, a node's agent is gone when the run is stopped; and the reports of status, ps,
# the events, the summary and the last screen.
# Clock: failures in a row within seconds.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by ok; plain names
source "${0%/*}/../lib.sh"

WAIT=40 # seconds for anything that takes a few on an idle machine
none_left() { ! pgrep -f "$WORK/.dtctl/default/nodes/.* --node start" >/dev/null; }
agent() { # NODE: of the newest run
    json_value ".dtctl/default/nodes/node$1/runs/$(newest_id)/status.json" pid
}
workers_of() { pgrep -P "$(agent "$1")" | while read -r guard; do pgrep -P "$guard"; done; }
said() { grep -qE "$2" "$1.out"; }
begun() { # NODE: how often its worker has said that it begins, with four ranks
    grep -c "node$1:[0-9]*\] round [0-9]* of 4" revived.out
}
back() { # NODE COUNT: it has begun more often than that
    [ "$(begun "$1")" -gt "$2" ]
}
began() { # a run whose workers print their round and world, and end on request
    local name=$1
    shift
    rm -f "$WORK/enough"
    dtctl train --name "$name" "$@" -- sh -c 'echo "round $DTCTL_ROUND of $WORLD_SIZE"
        trap "exit 0" TERM
        while [ ! -e "$0" ]; do sleep 0.1; done' "$WORK/enough" >"$name.out" 2>"$name.err" &
    operator=$!
}
ended() { # NAME STATUS
    touch "$WORK/enough"
    wait $operator
    is "$?" "$2" "$1: dtctl ends with $2" || diag "$(tail -n 20 "$1.err")"
    ok "$1: nothing is left" wait_for $WAIT none_left
}

run dtctl up --nodes 4
is "$status" 0 'up with four nodes'

# ---- fewer, and more again ----------------------------------------------------------------------
began waves --nodes 2:4 --max-restarts 3
ok 'waves: the run begins on four nodes' wait_for $WAIT said waves 'node3:3\] round 0 of 4'
first=$(agent 1) second=$(agent 3)
kill -STOP "$first"
ok 'waves: node1 falls silent, three nodes continue' \
    wait_for $WAIT said waves 'node3:2\] round 1 of 3'
kill -STOP "$second"
ok 'waves: another node falls silent, two nodes continue' \
    wait_for $WAIT said waves 'node2:1\] round 2 of 2'
run dtctl ps
like "$out" 'running +4 +2 +0' 'ps: two ranks run, and no restart was used'
like "$out" 'round 2, 0 of 3 restarts: node node3 is gone: it is silent; coordinator node0' \
    'ps has the reason of the third round'
run dtctl ps --json
like "$out" '"round":2,"restarts":0,"max_restarts":3,"round_reason":"node node3' \
    'ps --json has it, too'
run dtctl status
like "$out" 'running, coordinator, round 2, 0 of 3 restarts: node node3 is gone' \
    'status has the same reason'
run dtctl status --json
like "$out" '"run_state":"running","round":2,"restarts":0,"max_restarts":3,"reason":"node node3' \
    'status --json has it, too'
kill -CONT "$first"
ok 'waves: the first node is back, three nodes continue' \
    wait_for $WAIT said waves 'node1:1\] round 3 of 3'
kill -CONT "$second"
ok 'waves: the second node is back, four nodes continue' \
    wait_for $WAIT said waves 'node3:3\] round 4 of 4'
ended waves 0
r=$(newest_run)
for k in 1 2 3 4; do
    like "$(cat waves.out)" "round +$k after [0-9.]+ m?s, [234] ranks on [234] nodes: node" \
        "the last screen has round $k"
done
is "$(json_value "$r/summary.json" rounds)" 5 'the summary counts rounds'
like "$(cat "$r/summary.json")" '"history":\[\{"round":0.*"round":4,"time_ms":[0-9]+,"nodes":4' \
    'the summary has each round'
is "$(grep -c '"kind":"node-lost"' "$r/events.jsonl")" 2 'the events have both losses'
is "$(grep '"kind":"node-lost"' "$r/events.jsonl" | grep -c '"time":"20')" 2 \
    'both losses have their times'
is "$(grep -c '"kind":"restart"' "$r/events.jsonl")" 4 'the events have four restarts'

# ---- a node that does not come back -------------------------------------------------------------
began gone --nodes 2:4
ok 'gone: the run begins on four nodes' wait_for $WAIT said gone 'node3:3\] round 0 of 4'
kill -KILL "$(agent 2)"
ok 'gone: three nodes continue' wait_for $WAIT said gone 'node3:2\] round 1 of 3'
ended gone 0
like "$(cat gone.err)" 'node node2 is lost: its agent' 'gone: the loss is reported at once'
like "$(cat gone.out)" 'lost +node2, and the run went on without it: its agent' \
    'gone: the last screen names the lost node'

# ---- an agent that is killed while its host lives ------------------------------------------------
began revived --nodes 2:4 --max-restarts 3
ok 'revived: the run begins on four nodes' wait_for $WAIT said revived 'node3:3\] round 0 of 4'
kill -KILL "$(agent 2)"
ok 'revived: the agent is started again, and the node joins' \
    wait_for $WAIT said revived 'node2:2\] round [1-9] of 4'
like "$(cat revived.err)" 'starting the agent of node2 again \(1 of 3\)' \
    'revived: dtctl reports the start'
run dtctl ps
like "$out" 'agents started again: 1' 'revived: ps counts the starts'
all_run() { dtctl ps --json | grep -q '"ranks_running":4.*"restarts":0,.*"agent_starts":1'; }
ok 'revived: no restart is counted' wait_for $WAIT all_run
kill -KILL "$(agent 0)"
ok "revived: the coordinator's agent is started again, and its node joins" \
    wait_for $WAIT said revived 'node0:0\] round [2-9] of 4'
for try in 2 3; do
    before=$(begun 2)
    kill -KILL "$(agent 2)"
    ok "revived: a second and a third time (try $try)" wait_for $WAIT \
        grep -q "starting the agent of node2 again ($try of 3)" revived.err
    ok 'revived: the node joins again' wait_for $WAIT back 2 "$before"
done
kill -KILL "$(agent 2)"
ok 'revived: after the limit the others continue without it' \
    wait_for $WAIT said revived 'node3:2\] round [5-9] of 3'
ended revived 0
r=$(newest_run)
is "$(grep -c '"kind":"agent-started-again".*"peer":"node[02]"' "$r/events.jsonl")" 4 \
    'the events have each new start'
like "$(cat revived.out)" 'lost +node2, and the run went on without it' \
    'revived: the last screen names the lost node'

# ---- a spare ------------------------------------------------------------------------------------
began spare --nodes 3 --spares 1 --max-restarts 1
ok 'spare: the run begins on three nodes' wait_for $WAIT said spare 'round 0 of 3'
stands_by() { # one node of the newest run
    [ "$(grep -o '"waiting"' .dtctl/default/nodes/*/runs/"$(newest_id)"/status.json |
        wc -l)" = 1 ]
}
ok 'the fourth stands by' wait_for $WAIT stands_by
n=$(grep -l '"state":"running".*"coordinator":false' \
    .dtctl/default/nodes/*/runs/"$(newest_id)"/status.json | head -n 1 |
    grep -o 'nodes/node[0-9]' | grep -o '[0-9]')
kill -KILL "$(agent "$n")"
ok 'spare: the spare takes the place of a killed node' wait_for $WAIT said spare 'round 1 of 3'
ended spare 0
run dtctl train --nodes 4 --spares 1 -- true
is "$status" 2 'more spares than nodes are refused'
like "$err" 'train.spares.*1 spares.*has 4 nodes' 'the error has both numbers'

# ---- restarts that are used up ------------------------------------------------------------------
run dtctl train --name spent --nodes 2:4 --max-restarts 2 -- sh -c '
    sleep 6; [ $RANK != 1 ] || { echo "no luck in round $DTCTL_ROUND" >&2; exit 9; }; sleep 60'
is "$status" 1 'spent: the third failure ends the run'
like "$out" "rank 1 on node 'node1' failed first: exit status 9" \
    'spent: the last screen names the failed rank'
like "$out" '\| no luck in round 2' "spent: the last screen has the rank's last line"
like "$out" '2 restarts' 'spent: the last screen counts two restarts'
is "$(json_value "$(newest_run)/summary.json" restarts)" 2 'spent: the summary counts two restarts'
like "$(cat "$(newest_run)/events.jsonl")" '"kind":"failed".*rank 1 on node1 ended with 9' \
    'spent: the events have the reason'

# ---- a crash loop -------------------------------------------------------------------------------
run dtctl train --name loop --nodes 2:4 --max-restarts 50 -- sh -c '
    [ $RANK != 0 ] || { echo "cannot even start" >&2; exit 3; }; sleep 60'
is "$status" 1 'loop: a run that crashes at once ends before its restarts do'
like "$out" "rank 0 on node 'node0' failed first: exit status 3" \
    'loop: the last screen names the failed rank'
like "$out" '\| cannot even start' "loop: the last screen has the rank's last line"
like "$(cat "$(newest_run)/events.jsonl")" 'crash loop: 3 times in a row' \
    'loop: the events have the reason'

# ---- stopping with a node gone ------------------------------------------------------------------
began halt --nodes 2:4 --detach
wait $operator
wait_for $WAIT eval 'dtctl logs 2>/dev/null | grep -q "round 0 of 4"'
kill -KILL "$(agent 3)"
wait_for $WAIT eval 'dtctl logs 2>/dev/null | grep -q "round 1 of 3"'
run dtctl stop
is "$status" 0 'stop succeeds although the agent of one node is dead'
ok 'nothing is left' wait_for $WAIT none_left
began interrupted --nodes 2:4
ok 'interrupted: the run begins on four nodes' \
    wait_for $WAIT said interrupted 'node3:3\] round 0 of 4'
frozen=$(agent 3)
kill -STOP "$frozen"
ok 'interrupted: three nodes continue' wait_for $WAIT said interrupted 'node2:2\] round 1 of 3'
kill -INT $operator
wait_for $WAIT eval '[ -z "$(workers_of 0)$(workers_of 1)$(workers_of 2)$(workers_of 3)" ]'
kill -CONT "$frozen"
wait $operator
is "$?" 1 'a signal stops the run, with one node frozen'
is "$(json_value "$(newest_run)/summary.json" state)" stopped \
    'summary.json says that the run was stopped'
ok 'nothing is left, not even on that node' wait_for $WAIT none_left
run dtctl down
is "$status" 0 'down succeeds'
done_testing
