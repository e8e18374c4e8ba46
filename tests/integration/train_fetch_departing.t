#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The node of rank 0 is preempted while its results are meant to stay on the nodes: all of them are
# fetched before it ends, also its logs, and the outputs of the run are those of the next rank 0.
# Clock: the end of a node is announced some seconds ahead.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions called by name
source "${0%/*}/../lib.sh"
hosts_up 3
hosts_config

WAIT=40 # seconds for anything that takes a few on an idle machine
announce() { # NODE SECONDS
    on "$1" sh -c "mkdir -p /run/dtctl && printf 'kind=spot-terminate\ndeadline=%s\n' \
        $((EPOCHSECONDS + $2)) >/run/dtctl/new && mv /run/dtctl/new /run/dtctl/notice"
}
unplug_and_kill() { # NODE: its host is gone for good
    local pid
    link_down "$1"
    for pid in $(host_processes "$1" 'dtrun-|sshd'); do kill -KILL "$pid"; done
}

run dtctl up
is "$status" 0 'three hosts are up' || diag "$err"
dtctl train --name away --nodes 2:3 --fetch model --merge rank0 --output here -- sh -c '
    trap "exit 143" TERM
    echo "$DTCTL_NODE" | tee "$DTCTL_OUTPUT_DIR/o" "$DTCTL_STATE_DIR/s" >"$DTCTL_MODEL_DIR/m"
    echo "$DTCTL_NODE is rank $RANK of $WORLD_SIZE"
    until [ -e /root/enough ]; do sleep 0.1; done' >away.out 2>away.err &
operator=$!
r=
ranks_run() {
    r=$(compgen -G '.dtctl/default/runs/away-*') && grep -q "\"world_size\":$1" "$r/events.jsonl"
}
ok 'three ranks run' wait_for $WAIT ranks_run 3
is "$(find "$r/nodes" -name 'std*.log' | wc -l)" 0 'no log comes at first'
announce 1 20
ok 'two nodes continue' wait_for $WAIT ranks_run 2
ok 'the results of the departing node were fetched' \
    wait_for $WAIT grep -q 'node node1 has left; its results are here' away.err
unplug_and_kill 1
on 2 touch /root/enough
on 3 touch /root/enough
wait "$operator"
is "$?" 0 'the run ends well' || diag "$(tail -n 20 away.err)"
is "$(cat here/model/m)" node2 'the model is that of the last rank 0'
is "$(cd here && find . -type f ! -name .dtctl-run | sort | paste -sd' ')" \
    './model/m ./state/node1/s' 'state has come from the departing node alone'
ok 'the logs of the departing node are here' grep -q 'node1 is rank 0 of 3' "$r/logs/node1/0.out"
is "$(find "$r/nodes" -name 'std*.log' -size +0 | grep -vc /node1/)" 0 'other logs are not'
unlike "$(cat away.out)" 'is rank' 'the screen shows no line of the ranks'
like "$(cat away.out)" 'left +logs, output and state, ' 'the last screen names what is on the nodes'
run dtctl fetch
is "$status" 0 'fetch brings the rest without the node that is gone' || diag "$out$err"
is "$(cat here/o here/state/node{1,2,3}/s | paste -sd' ')" 'node2 node1 node2 node3' \
    'the output is that of the last rank 0, and every state is here'
ok 'the logs are here' grep -q 'node3 is rank 1 of 2' "$r/logs/node3/1.out"
is "$(find "$r" -maxdepth 1 -name incoming -o -maxdepth 1 -name left)" '' 'nothing half stays'
run dtctl down --node node2,node3
is "$status" 0 'down succeeds' || diag "$err"
done_testing
