#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Provider hosts: what up checks on real SSH servers, and what it says of each node that is wrong.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by ok; plain names
source "${0%/*}/../lib.sh"
HOSTS_SSHD_OPTIONS='LogLevel VERBOSE'
hosts_up 3 worker

net=$HOSTS_NET
config() { # HOSTS…: a dtctl.toml that lists them
    printf '[cluster]\nprovider = "hosts"\n[ssh]\nconnect_timeout = "4s"\n[hosts]\nlist = [%s]\n' \
        "$(printf '"%s",' "$@")" >dtctl.toml
}
agent_at() { on "$1" sh -c 'ls /root/.dtctl/nodes/*/bin 2>/dev/null' | grep -c dtrun; }

# ---- plan, up, status ---------------------------------------------------------------------------
config "root@node[1-3]"
run dtctl plan
is "$status" 0 'plan succeeds'
is "$(grep -c '+ node[123]' <<<"$out")" 3 'expands the node set'
# Login shells that print text of their own, as many do: one line, JSON, no end of line, much.
on 1 sh -c 'echo "echo hello from the login shell" >/root/.bashrc'
on 2 sh -c "printf '%s\n' 'echo {\"program\":\"/x\"}' 'printf 10.9.9.9' >/root/.bashrc"
on 3 sh -c 'echo "head -c 100000 /dev/zero | tr \\\\0 x" >/root/.bashrc'
run dtctl up
is "$status" 0 'up succeeds'
for i in 1 2 3; do
    is "$(agent_at $i)" 1 "the agent is on node$i"
    like "$out" "node$i +$net.$i " "node$i is known by the address it was reached at"
done
run dtctl up --json
like "$out" '"installed":0' 'a second up installs nothing'
run dtctl status
is "$status" 0 'status succeeds'
is "$(grep -c idle <<<"$out")" 3 'three nodes answer'
run dtctl exec -b -- 'echo same'
is "$status" 0 'exec succeeds'
like "$out" 'node\[1-3\] \(3\)' 'equal output is folded'
run dtctl exec -- 'exit $(hostname | tr -d node)'
is "$status" 3 'exec: some nodes failed'
like "$err" "node 'node2': exit status 2" 'exec names the node and its status'
run dtctl exec -w node2 --exit-code -- 'exit 42'
is "$status" 42 'exec --exit-code'

is "$(dtctl exec -- 'echo text' | sort | xargs)" 'node1: text node2: text node3: text' \
    'exec prints what the command prints'
run dtctl train --nodes 3 -- sh -c 'echo "rank $RANK speaks"; echo $RANK >$DTCTL_OUTPUT_DIR/r$RANK'
is "$status" 0 'train' || diag "$err"
is "$(grep -c 'rank [012] speaks$' <<<"$out")" 3 'the lines of all ranks are shown'
unlike "$err" 'lost sight' 'no node is reported as lost'
is "$(cat .dtctl/default/runs/*/output/r? | xargs)" '0 1 2' 'all results were fetched'
run dtctl doctor
unlike "$out$err" 'json|login shell|10\.9\.9\.9' 'doctor finds nothing strange'
on 3 sh -c 'echo "head -c 1000000 /dev/zero" >/root/.bashrc'
run dtctl exec -w node3 -- true
like "$status $err" '^[34] .*node3.*login shell prints more than 256 KiB' \
    'a login shell that prints too much is refused'
on 3 sh -c 'echo "echo this account is closed; exit 1" >/root/.bashrc'
run dtctl status
like "$out$err" 'this account is closed' 'a login shell that ends says why'
on 3 rm /root/.bashrc

# ---- a node that is away ------------------------------------------------------------------------
link_down 3
run dtctl exec -- hostname
is "$status" 4 'a node without an answer: no status'
like "$out" 'node1: node1' 'the others answer'
like "$err" 'node3: .*no answer within 4' 'the missing one is named'
run dtctl status
is "$status" 3 'status fails while a node is away'
like "$out" 'node3 .*unreachable' 'status names the unreachable node'
run dtctl up
is "$status" 3 'up fails with status 3 while a node is unreachable'
run dtctl down
is "$status" 3 'down fails with status 3 while a node is unreachable'
is "$(grep -c '^name = "node' .dtctl/default/cluster.toml)" 1 \
    'the inventory keeps the unreachable node'
link_up 3
run dtctl down
is "$status" 0 'down succeeds when the node is reachable'
ok 'nothing is left there' on 3 test ! -e /root/.dtctl
ok 'nothing is left on the first node' on 1 test ! -e /root/.dtctl
ok 'the inventory is gone' test ! -e .dtctl/default/cluster.toml

# ---- what can be wrong with a node --------------------------------------------------------------
cp "$HOME/.ssh/known_hosts" known.all
sed -i '/node2/d' "$HOME/.ssh/known_hosts"
config root@node1 root@node2
run dtctl up
is "$status" 3 'an unknown host key stops'
like "$err" 'node2.*SHA256:' 'the error has the fingerprint'
like "$err" 'accept-host-keys' 'the error names --accept-host-keys'
is "$(agent_at 2)" 0 'nothing was put there'
run dtctl up --accept-host-keys
is "$status" 0 'an unknown host key is accepted on request'
ok 'the key is kept for this cluster' grep -q "$net.2\|node2" .dtctl/default/known_hosts
run dtctl up
is "$status" 0 'the host key is known from then on'
dtctl down -q >/dev/null 2>&1
sed "s/^node2,$net.2 /node9 /; s/^node1,$net.1 /node2,$net.2 /" known.all >"$HOME/.ssh/known_hosts"
rm -rf .dtctl
run dtctl up --accept-host-keys
is "$status" 3 'a changed host key always stops'
like "$err" 'node2.*(changed|mismatch|another)' 'the error names the node with the changed key'
cp known.all "$HOME/.ssh/known_hosts"
rm -rf .dtctl

config root@node1 worker@node2 nobody@node3
run dtctl up
is "$status" 3 'a login that is refused is reported'
like "$err" "node3.*" 'the error names the node with the refused login'
unlike "$err" "node '?node2'?: " 'the node with another user has no error'
dtctl down -q --forget >/dev/null 2>&1

config worker@node1 worker@node2
on 2 chown root:root /home/worker
run dtctl up
is "$status" 3 'a home without permission is refused'
like "$err" 'node2.*([Pp]ermission|denied)' "the error says 'permission denied'"
on 2 chown worker:worker /home/worker
run dtctl up
is "$status" 0 'up succeeds with the permission'
dtctl down -q >/dev/null 2>&1

on 2 sh -c 'mkdir -p /root/.dtctl && mount -t tmpfs -o size=8m tmpfs /root/.dtctl'
config root@node1 root@node2
run dtctl up
is "$status" 3 'a disk with too little room is refused'
like "$err" "node2.*free.*needed" 'the error has the free and the needed space'
on 2 sh -c 'dd if=/dev/zero of=/root/.dtctl/fill bs=64k 2>/dev/null; true'
run dtctl up
is "$status" 3 'a full disk is refused'
like "$err" "node2.*([Nn]o space|free)" 'the error says that the disk is full'
wait_for 10 on 2 umount /root/.dtctl # the last shell there may still be about to end
rm -rf .dtctl

# Packets from node1 to node2 vanish: login works everywhere, the nodes do not reach each other.
config root@node1 root@node2 root@node3
if on 2 sh -c "ip route add blackhole $net.1/32" 2>/dev/null; then
    run dtctl up
    is "$status" 3 'nodes that do not reach each other are refused'
    like "$err" 'node[12].*does not reach 1 of its peers: node[12] \(' \
        'the error names both nodes and the reason'
    unlike "$err" "'node3':" 'the error names no other node'
    ok 'a failed check is not recorded' test ! -e .dtctl/default/reached
    on 2 ip route del blackhole "$net.1/32"
    run dtctl up
    is "$status" 0 'up succeeds when the network is repaired'
    is "$(cut -d' ' -f1 .dtctl/default/reached | xargs)" 'node1 node2 node3' \
        'a passed check is recorded'
    on 2 ip route add blackhole "$net.1/32"
    run dtctl up
    is "$status" 0 'a passed check is not repeated for the same nodes'
    on 2 ip route del blackhole "$net.1/32"
    rm .dtctl/default/reached
else
    skip 7 'no blackhole routes here'
fi
config root@node1 "root@$net.1" root@node3
run dtctl up -y
is "$status" 3 'two names of one machine are refused'
like "$err" "same machine and login as node 'node1'" 'the error names both nodes'
dtctl down -q >/dev/null 2>&1

# ---- other hosts --------------------------------------------------------------------------------
config root@node1 root@node2
dtctl up -q >/dev/null 2>&1
id=$(dtctl train -d --name kept -- sh -c 'echo precious >$DTCTL_OUTPUT_DIR/p-$RANK' 2>/dev/null)
precious() { on "$1" test -s "/root/.dtctl/nodes/node$1/runs/$id/output/p-$(($1 - 1))"; }
wait_for 20 precious 1 && wait_for 20 precious 2
run dtctl up -y --host root@nosuchhost.invalid
is "$status" 3 'a name that does not resolve is refused'
like "$err" 'nosuchhost.invalid' 'the error names the host'
like "$err" 'node\[1-2\] stays in the cluster' 'the cluster stays what it was'
ok 'the run is still there' precious 1
is "$(grep -c '^name = "node' .dtctl/default/cluster.toml)" 2 'the inventory has all nodes'
is "$(grep -c nosuch .dtctl/default/up.toml)" 0 'the unknown name is not kept'
run dtctl up --host root@node3
is "$status" 2 'up does not drop nodes without a question'
like "$err" 'up would drop node\[1-2\]' 'the error names the nodes to be dropped'
run dtctl up -y --host root@node3
is "$status" 0 'the new one first, then the results, then the old ones go' || diag "$err"
is "$(cat .dtctl/default/runs/"$id"/output/p-*)" 'precious
precious' 'nothing is lost'
ok 'the dropped node is clean' on 1 test ! -e /root/.dtctl/nodes/node1
run dtctl up -y --host root@node3 --host root@nosuchhost.invalid
is "$status" 3 'up with a host that does not answer fails'
run dtctl up -y --host root@node3
is "$status" 0 'a host that was never up is dropped without a connection' || diag "$err"
link_down 3
run dtctl up -y --host root@node1
is "$status" 3 'a node that cannot be reached cannot be cleaned'
like "$err" 'node3 is to leave .* \(try: dtctl down --node node3 --forget' \
    'the error names down --forget'
run dtctl down --node node3 --forget
is "$status" 0 'down --forget succeeds' || diag "$err"
link_up 3
dtctl down -q >/dev/null 2>&1
# ---- two clusters on one host -------------------------------------------------------------------
none() { ! pgrep -f "$@"; }
config root@node1
mkdir second
cp dtctl.toml second
on 1 rm -rf /root/.dtctl # a cluster whose folder is gone left its mark there
dtctl up -q >/dev/null 2>&1
(cd second && dtctl up -q && dtctl push ../dtctl.toml --to extra) >/dev/null 2>&1
on 1 rm -r /root/.dtctl/nodes/node1/owners # it lost files; the next run marks it again
id=$(dtctl train -d --name mine -- sh -c 'echo precious >$DTCTL_OUTPUT_DIR/p-$RANK' 2>/dev/null)
wait_for 20 precious 1
going=$(dtctl train -d --name going -- sleep 60 2>/dev/null)
cd second || exit 1
theirs=$(dtctl train -d --name theirs -- sleep 600 2>/dev/null)
run dtctl down --force -y
is "$status" 0 'down --force succeeds while both clusters have an active run' || diag "$err"
runs=$(on 1 ls /root/.dtctl/nodes/node1/runs | sort | paste -sd' ')
is "$runs" "$going $id" 'down --force removes the runs of its own cluster alone'
ok 'down --force ends the agent of its own run' none -- "--run $theirs"
ok 'down --force leaves the agent of the other run' pgrep -f -- "--run $going"
ok 'down --force leaves the results of the other cluster' precious 1
ok 'down --force leaves the programs of the other cluster' \
    on 1 sh -c 'test -x /root/.dtctl/nodes/node1/bin/dtrun-*'
dtctl up -q >/dev/null 2>&1
run dtctl down
is "$status" 0 'down of one cluster succeeds while another has an active run' || diag "$err"
like "$err" "node1: programs and content stay there for cluster 'default' in root@operator:$WORK" \
    'down names the other cluster'
ok 'the other cluster keeps its results' precious 1
cd ..
run dtctl stop "$going"
is "$status" 0 'the other cluster keeps its run' || diag "$err"
run dtctl fetch "$id"
is "$status $(cat .dtctl/default/runs/"$id"/output/p-0)" '0 precious' \
    'the results of the other cluster can be fetched'
run dtctl down
is "$status" 0 'down of the other cluster succeeds' || diag "$err"
like "$err" "node1: this stays in dtctl's folder there, .*: extra" 'down names the files of push'
is "$(on 1 ls /root/.dtctl/nodes/node1)" extra 'down leaves only what push put there'

config 'root@node[1-'
run dtctl up
is "$status" 2 'a node set that is wrong is a configuration error'
like "$err" 'dtctl.toml:6:' 'the error has the place in the file'
done_testing
