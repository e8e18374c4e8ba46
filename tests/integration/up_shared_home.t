#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts with one home folder, as from a file server: each has its own part of it, so their runs,
# results and programs do not meet; and hosts.root puts it elsewhere.
# shellcheck disable=SC2016,SC2088,SC2317 # the workers' shell expands; not a home; called by name
source "${0%/*}/../lib.sh"
export HOSTS_HOME=$WORK/home
hosts_up 2
hosts_config
parts=/root/.dtctl/nodes

on 1 touch /root/mark
ok 'both hosts have one home' on 2 test -e /root/mark
on 1 rm /root/mark

run dtctl up
is "$status" 0 'up succeeds' || diag "$err"
is "$(on 1 ls $parts | tr '\n' ' ')" 'node1 node2 ' 'each node has its folder'
mkdir -p tree/sub
seq 50000 >tree/sub/seq
head -c 20M /dev/urandom >tree/large
run dtctl push tree/ --to tree
is "$status" 0 'push to both nodes at once succeeds' || diag "$err"
for i in 1 2; do
    is "$(on "$i" sh -c "cd $parts/node$i/tree && sha256sum large sub/seq")" \
        "$(cd tree && sha256sum large sub/seq)" "the files are complete on node$i"
done

job='echo "$DTCTL_NODE prints"; echo $DTCTL_NODE >$DTCTL_OUTPUT_DIR/of-$RANK
    echo $DTCTL_NODE >$DTCTL_OUTPUT_DIR/same; cp "$DTCTL_INPUT_DATA/large" $DTCTL_OUTPUT_DIR
    echo $RANK >$DTCTL_STATE_DIR/rank'
run dtctl train --nodes 2 --name shared --input data=tree -- sh -c "$job"
is "$status" 0 'a run on both nodes succeeds' || diag "$err"
like "$out" 'node1 prints' 'the first is heard'
like "$out" 'node2 prints' 'exec shows the second node'
dir=$(ls -d .dtctl/default/runs/shared-*)
is "$(cat "$dir"/output/{of-0,of-1,node1/same,node2/same,state/node1/rank,state/node2/rank})" \
    $'node1\nnode2\nnode1\nnode2\n0\n1' 'results of both are here'
ok 'a large file is pushed, too' cmp tree/large "$dir/output/large"
run dtctl logs "${dir##*/}"
is "$(grep -o 'node. prints' <<<"$out" | sort | tr '\n' ' ')" 'node1 prints node2 prints ' \
    'the logs have both nodes'

# ---- a run that is left -------------------------------------------------------------------------
id=$(dtctl train -d --nodes 2 --name left -- \
    sh -c 'echo kept >$DTCTL_OUTPUT_DIR/p-$RANK; sleep 100' 2>/dev/null)
written() { on "$1" test -s "$parts/node$1/runs/$id/output/p-$(($1 - 1))"; }
wait_for 20 written 1 && wait_for 20 written 2
run dtctl ps --json
is "$(grep -c '"state":"running"' <<<"$out")" 1 'ps shows the run as running' || diag "$out"
run dtctl down --node node2
is "$status" 1 'down --node is refused while a run is active there'
run dtctl gc --older-than 0s
is "$status" 0 'gc of both nodes succeeds' || diag "$err"
ok 'gc does not touch the run' written 2
run dtctl stop "$id"
is "$status" 0 'stop reaches both agents' || diag "$err"
on 1 rm -r $parts/node1/tree $parts/node2/tree # what push --to brought stays
run dtctl down -y --node node1
is "$status" 0 'down --node succeeds' || diag "$err"
is "$(on 2 ls $parts)" node2 'the part of the other stays'
is "$(cat ".dtctl/default/runs/$id"/output/p-*)" $'kept\nkept' 'nothing was lost'
run dtctl exec -- true
is "$status" 0 'the other node works' || diag "$err"
run dtctl down
is "$status" 0 'down succeeds' || diag "$err"
ok 'down leaves nothing in the home folder' on 1 test ! -e /root/.dtctl

# ---- the root elsewhere -------------------------------------------------------------------------
printf 'root = "/var/tmp/dt"\n' >>dtctl.toml
run dtctl up
is "$status" 0 'up with hosts.root succeeds' || diag "$err"
is "$(on 1 ls /var/tmp/dt/nodes | tr '\n' ' ')" 'node1 node2 ' 'the parts are there'
ok 'the home folder has no folder of dtctl' on 1 test ! -e /root/.dtctl
sed -i 's,/var/tmp/dt,/var/tmp/other,' dtctl.toml
run dtctl up
is "$status" 1 'another root for a node that is up is refused'
like "$err" "'/var/tmp/dt/nodes/node1', .*'/var/tmp/other/nodes/node1' now.*dtctl down" \
    'the error has both roots and the next step'
run dtctl down
is "$status" 0 'down finds the root' || diag "$err"
ok 'down leaves nothing in the root' on 1 test ! -e /var/tmp/dt
for root in '' / relative '~' '~/' '/a/../b' '~/..'; do
    sed -i "s,^root = .*,root = \"$root\"," dtctl.toml
    run dtctl up
    is "$status" 2 "a root '$root' is refused"
    like "$err" 'hosts.root.*is not a folder of the nodes' 'the error has the reason'
done
done_testing
