#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun on hosts of namespaces: names of the leader, and network faults, each with a distinct
# message.
# Clock: nodes that join too late.
# Texts are expanded by workers, functions are called by name:
# shellcheck disable=SC2016,SC2317
source "${0%/*}/../lib.sh"
hosts_up 3
for i in 1 2 3; do cp "$BIN/dtrun" "$WORK/node$i/tmp/"; done
c10d=(--nnodes 2 --rdzv-backend c10d --rdzv-id x --rdzv-conf join_timeout=7)
say='echo "$RANK $MASTER_ADDR $GLOO_SOCKET_IFNAME"'

agent() { # NODE FLAGS… PROGRAM…
    local node=$1
    shift
    on "$node" env DTRUN_KEY=k timeout 60 /tmp/dtrun "$@"
}
two() { # ENDPOINT [OF_NODE_1]: an agent on nodes 1 and 2; what both workers say in $out
    local first endpoint=$1
    agent 1 "${c10d[@]}" --rdzv-endpoint "${2:-$1}" --no-python sh -c "$say" >one.out 2>one.err &
    first=$!
    run agent 2 "${c10d[@]}" --rdzv-endpoint "$endpoint" --no-python sh -c "$say"
    wait $first
    status=$status-$?
    out=$(sort one.out - <<<"$out" | paste -sd,)
}
alone() { # NODE ENDPOINT: one of two agents
    run agent "$1" "${c10d[@]}" --rdzv-endpoint "$2" --no-python true
}

# ---- names and addresses ------------------------------------------------------------------------
two node1:29400
is "$status $out" '0-0 0 10.77.0.1 eth0,1 10.77.0.1 eth0' \
    'an endpoint given by its name is reached' || diag "$err"
two 10.77.0.1
is "$status $out" '0-0 0 10.77.0.1 eth0,1 10.77.0.1 eth0' \
    'an endpoint given by its address is reached' || diag "$err"
two 10.77.0.1 localhost
is "$status $out" '0-0 0 127.0.0.1 lo,1 10.77.0.1 eth0' \
    'a leader that names itself localhost is reached' ||
    diag "$err"
for i in 1 2; do ip -n node$i addr add "fd77::$i/64" dev eth0 nodad; done
two '[fd77::1]:29400'
is "$status $out" '0-0 0 fd77::1 eth0,1 fd77::1 eth0' \
    'an endpoint given by its IPv6 address is reached' || diag "$err"
# A second network between the two, with lower addresses and interface names that sort first.
ip link add a0 netns node1 type veth peer name b0 netns node2
ip -n node1 addr add 10.9.0.1/24 dev a0
ip -n node2 addr add 10.9.0.2/24 dev b0
ip -n node1 link set a0 up
ip -n node2 link set b0 up
two 10.9.0.1
is "$status $out" '0-0 0 10.9.0.1 a0,1 10.9.0.1 b0' \
    'of several interfaces, the one towards the leader is used' ||
    diag "$err"
two 10.77.0.1
is "$status $out" '0-0 0 10.77.0.1 eth0,1 10.77.0.1 eth0' 'whichever it is' || diag "$err"

# ---- mistakes -----------------------------------------------------------------------------------
alone 2 10.77.0.1
is "$status" 1 'a node without a coordinator fails'
like "$err" 'no coordinator at 10.77.0.1 port 29400: .*Connection refused' \
    'the error says that the connection was refused'
is "$(grep -c 'cannot reach the coordinator' <<<"$err")" 2 \
    'a refused connection is reported every few seconds'
alone 2 10.77.0.200
is "$status" 1 'a node fails when the address has no host'
like "$err" 'no coordinator at 10.77.0.200 .*unreachable' \
    'the error says that the host is unreachable'
ip -n node2 neigh add 10.77.0.201 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
alone 2 10.77.0.201
is "$status" 1 'a way that swallows packets fails'
like "$err" 'no coordinator at 10.77.0.201 .*no answer' 'no answer'
alone 2 nowhere.invalid
is "$status" 1 'a name that does not resolve is refused'
like "$err" "cannot resolve 'nowhere.invalid'" 'the error says that the name cannot be resolved'
alone 1 node1
is "$status" 1 'the second node is missing'
like "$err" 'waiting for nodes present=1 expected=2 here: node1' 'the first says who is there'
like "$err" '1 of 2 nodes came within 7 s' 'the error counts the nodes at the end'
on 1 python3 -c 'import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1) # the agents before it have left connections
s.bind(("0.0.0.0", 29400))
s.listen()
time.sleep(100)' &
listening() { on 1 bash -c 'exec 3<>/dev/tcp/127.0.0.1/29400' 2>/dev/null; }
wait_for 10 listening
run agent 1 --nnodes 2 --master-addr node1 --master-port 29400 --no-python true
is "$status" 1 'the port of the leader is in use'
like "$err" 'master-port.*cannot listen on .* port 29400: Address in use' \
    'the error names the port in use'
run agent 1 "${c10d[@]}" --rdzv-conf is_host=1 --rdzv-endpoint 10.77.0.1:29400 --no-python true
is "$status" 1 'a second agent with is_host=1 fails'
like "$err" 'port 29400 of this host is in use, and is_host says .*to one agent only' \
    'the error says why a second host is refused'
alone 2 node1
is "$status" 1 'a service that is no agent is refused'
like "$err" 'no coordinator at node1 port 29400: no greeting' \
    'the error says that no greeting arrived'

# ---- clocks -------------------------------------------------------------------------------------
if on 2 unshare --time --monotonic 100000 true 2>/dev/null; then
    agent 1 "${c10d[@]}" --rdzv-endpoint node1:29401 --no-python sleep 3 >one.out 2>one.err &
    first=$!
    run on 2 unshare --time --monotonic 100000 --boottime 100000 env DTRUN_KEY=k timeout 60 \
        /tmp/dtrun "${c10d[@]}" --rdzv-endpoint node1:29401 --no-python sleep 3
    wait $first
    is "$status $?" '0 0' 'hosts whose clocks differ by a day: no node is lost' || diag "$err"
else
    skip 1 'no time namespaces here'
fi
done_testing
