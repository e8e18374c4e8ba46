#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node is preempted during a command's run: dtctl reports it, the ranks have the whole grace
# period, the node's files are fetched before its host ends, and the run continues.
# Clock: ranks have the whole grace.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions called by name
source "${0%/*}/../lib.sh"
hosts_up 3
hosts_config

WAIT=40 # seconds for anything that takes a few on an idle machine
GRACE=4 # seconds that a rank takes to end: longer than a lost agent's lease
announce() { # NODE KIND SECONDS
    local deadline=$((EPOCHSECONDS + $3))
    on "$1" sh -c "mkdir -p /run/dtctl && printf 'kind=%s\ndeadline=%s\n' $2 $deadline \
        >/run/dtctl/new && mv /run/dtctl/new /run/dtctl/notice"
}
unplug_and_kill() { # NODE: its host is gone for good
    local pid
    link_down "$1"
    for pid in $(host_processes "$1" 'dtrun-|sshd'); do kill -KILL "$pid"; done
}

run dtctl up
is "$status" 0 'three hosts are up' || diag "$err"
dtctl train --name told --nodes 2:3 --notice-signal USR1 --output here -- sh -c '
    echo "$DTCTL_ROUND" >"$DTCTL_OUTPUT_DIR/$DTCTL_NODE.$DTCTL_ROUND"
    trap "echo told >\"$DTCTL_STATE_DIR/$DTCTL_NODE\"" USR1
    trap "sleep $0; echo round $DTCTL_ROUND >\"$DTCTL_OUTPUT_DIR/$DTCTL_NODE.end\"; exit 143" TERM
    echo "round $DTCTL_ROUND of $WORLD_SIZE"
    until [ -e /root/enough ]; do sleep 0.1; done' $GRACE >told.out 2>told.err &
operator=$!
ok 'three ranks run' wait_for $WAIT grep -q 'round 0 of 3' told.out
announce 3 spot-terminate 24
ok 'dtctl reports the announced end of a node' \
    wait_for $WAIT grep -q 'node node3 ends in .* (spot-terminate); every rank has got SIGUSR1' \
    told.err
ok 'two nodes continue' wait_for $WAIT grep -q 'round 1 of 2' told.out
ok 'the results of the departing node were fetched' \
    wait_for $WAIT grep -q 'node node3 has left; its results are here' told.err
unplug_and_kill 3
on 1 touch /root/enough
on 2 touch /root/enough
wait "$operator"
is "$?" 0 'the run ends well' || diag "$(tail -n 20 told.err)"
is "$(cat here/node3.0 here/state/node3/node3)" $'0\ntold' \
    "the departing node's results are complete"
is "$(cat here/node3.end)" 'round 0' \
    "results that were written during a grace of $GRACE s are complete"
is "$(cat here/state/node1/node1 here/state/node2/node2 here/node1.1)" $'told\ntold\n1' \
    'the results of the other nodes are complete'
like "$(cat told.out)" 'lost +node3, and the run went on without it: node node3 is taken away' \
    'the last screen says why'
unlike "$(grep -v '^ ' told.out)" 'taken away' \
    'the last screen does not name the notice as a failure'
r=$(compgen -G '.dtctl/default/runs/told-*')
like "$(grep '"kind":"node-left"' "$r/events.jsonl")" \
    '"peer":"node3","reason":"node node3 is taken away' 'the events have the reason'
is "$(find "$r" -maxdepth 1 -name incoming -o -maxdepth 1 -name left)" '' 'nothing half stays'
unlike "$(cat told.err)" 'error:' 'no message is an error'
run dtctl down --node node1,node2
is "$status" 0 'down succeeds' || diag "$err"
done_testing
