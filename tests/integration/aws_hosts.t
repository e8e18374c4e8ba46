#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nodes that are made and are not what they should be: hardly any disk, a machine that never
# answers, cloud-init that fails, a check that fails, and later another host key. up says of each
# what was seen and what to do, ends or keeps it as asked, and the next up makes it good. A lease
# that extend has moved holds for nodes that are made later.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
cloud_config sick 'nodes = 4' -- 'zones = ["us-east-1a"]'

id_of() { # NODE: of its instance, as the inventory has it
    grep -A99 "^name = \"$1\"" .dtctl/sick/cluster.toml | sed -n 's/^instance_id = "\(.*\)"/\1/p' |
        head -n 1
}

# ---- one good node of four ----------------------------------------------------------------------
cloud_fault preset node=node0 preset=degraded
cloud_fault preset node=node1 preset=mute
cloud_fault preset node=node2 preset=cloud-init-fails
cloud_fault preset node=node3 preset=check-fails
run cloud_run dtctl up -y --boot-timeout 99s
is "$status" 3 'some nodes failed' || cloud_diag
like "$err" 'up: 3 of 4 nodes failed: node\[1-3\]' 'up names the failed nodes'
like "$err" "a node is degraded.*node=node0.*disk: [0-9]* MB free" 'degraded: the check is named'
silent=$(grep "node 'node1'" <<<"$err")
like "$silent" 'did not answer in 99.0 s \(aws.boot_timeout\): .*AWS says that i-.* is running' \
    'never answers: named deadline, and what AWS says of it' || cloud_diag
like "$err" 'node1: .*aws ec2 get-console-output .*--region us-east-1 --instance-id i-' \
    'an unreachable node: the error has the command for its console'
like "$err" "node 'node2': cloud-init failed" 'cloud-init failed: the error says so'
like "$err" 'node2 \| .*write.files' 'cloud-init failed: the error has its message'
like "$err" 'node2 \| .*/usr/local/lib/dtctl/setup' \
    'cloud-init failed: the error has its last lines'
like "$err" "node 'node3': its own checks failed: metadata: dtctl-metadata.service is failed" \
    'a failing check is named'
like "$err" "node3 \| setup: 'setup_units' failed" 'a failed check: the error has its log'
is "$(grep -c 'node[123] was terminated; dtctl up creates' <<<"$err")" 3 \
    'each failed node has a next step'
is "$(cloud_instances)" "$(id_of node0)" 'failed instances are ended'
is "$(cloud_nodes | xargs)" node0 "only node0 is left among the instances' hosts"
run cloud_run dtctl exec -- hostname
is "$status" 0 'the good one can be used'

# ---- what fails is kept on request --------------------------------------------------------------
first=$(id_of node0)
cloud_fault preset node=node2 preset=check-fails
run cloud_run dtctl up -y --keep
is "$status" 3 'a further up makes the others, and one fails again' || cloud_diag
like "$err" 'up: 1 of 4 nodes failed: node2' 'the error names the one node'
like "$err" 'node2 is kept; dtctl ssh node2 logs in to it, dtctl up --replace node2' \
    'a failed node is kept with --keep'
is "$(cloud_instances | wc -l)" 4 'the kept instance runs'
is "$(id_of node0)" "$first" 'the good one was left alone'
run cloud_run dtctl ssh node2 <<<'cat /var/lib/dtctl/ready'
like "$out" 'status=failed' 'the kept node is shown as failed' || cloud_diag
run cloud_run dtctl train --nodes 4 -- true
is "$status" 1 'no run takes it'
like "$err" "node 'node2' is not ready" 'train names the kept node'

# ---- another host key ---------------------------------------------------------------------------
fingerprint() { # NODE: of the host key that it has
    ssh-keygen -lf - <<<"$(cloud_on "$1" cat /etc/ssh/ssh_host_ed25519_key.pub)" | cut -d' ' -f2
}
pinned=$(fingerprint node1)
cloud_fault host-key node=node1
shown=$(fingerprint node1)
result "$([ -n "$shown" ] && [ "$shown" != "$pinned" ] && echo 1)" 'node1 has another host key'
touch sent
keys="shows ssh-ed25519 ${shown//+/[+]}, expected ${pinned//+/[+]};"
for command in 'exec -- true' 'push sent' 'train --nodes 2 -- true' 'ssh node1'; do
    # shellcheck disable=SC2086 # words
    run cloud_run dtctl $command </dev/null
    result "$((status != 0))" "${command%% *}: stops" || diag "$out$err"
    like "$err" "node1.*$keys.*dtctl up --replace" \
        "${command%% *} names the node, both keys and the remedy"
done
run cloud_run dtctl status
like "$out" "node1 .*unreachable.*$keys" 'status: names the node and both keys'
run cloud_run dtctl extend --shorten 5h
is "$status" 3 'extend: some nodes failed' || cloud_diag
like "$out" '^3 of 4 nodes of sick end themselves in 5:00:00 ' 'the others have the new end'
like "$err" "node1.*$keys.*; it keeps the end that it had" \
    'the node with the other key keeps its end'
due=$(cloud_on node0 cat /var/lib/dtctl/lease)
result "$((due != $(cloud_on node1 cat /var/lib/dtctl/lease)))" 'the other nodes have another end'

# ---- replacement --------------------------------------------------------------------------------
before=$(id_of node1)
run cloud_run dtctl up -y --replace 'node[1-2]'
is "$status" 0 'up --replace replaces both nodes' || cloud_diag
result "$([ "$(id_of node1)" != "$before" ] && echo 1)" 'the node has another instance'
is "$(cloud_instances | wc -l)" 4 'the cluster has four instances'
run cloud_run dtctl exec -- hostname
is "$status $(grep -o 'node[0-9]' <<<"$out" | sort -u | xargs)" '0 node0 node1 node2 node3' \
    'all four nodes answer' || cloud_diag
is "$(for node in node0 node1 node2 node3; do cloud_on $node cat /var/lib/dtctl/lease; done |
    sort -u)" "$due" 'all four nodes have the same end after extend'

# ---- replacement of a node with results that are nowhere else ------------------------------------
# shellcheck disable=SC2016 # the ranks expand it
run cloud_run dtctl train -d --name kept --nodes 4 -- sh -c 'echo $RANK >$DTCTL_OUTPUT_DIR/p-$RANK'
is "$status" 0 'a run starts that nobody follows' || cloud_diag
like "$err" "results: dtctl fetch kept-.*before the lease ends or the nodes idle for a day" \
    'the last line says until when its results are there'
# shellcheck disable=SC2317 # called through wait_for
is_over() { cloud_run dtctl ps -a 2>/dev/null | grep -q 'kept-.* finished'; }
ok 'the run ends' wait_for 60 is_over
before=$(id_of node1)
run cloud_run dtctl up -y --replace node1
is "$status" 0 'up --replace replaces the node' || cloud_diag
result "$([ "$(id_of node1)" != "$before" ] && echo 1)" 'the node has another instance again'
is "$(cat .dtctl/sick/runs/kept-*/output/p-* | xargs)" '0 1 2 3' 'the results were brought before'

# ---- up, and a node is not the one that was made -------------------------------------------------
# Two others are configured otherwise than they would be now.
for node in node0 node3; do
    cloud_on $node sed -i 's/^config_hash=.*/config_hash=0123456789abcdef/' /var/lib/dtctl/ready
done
logins() { # to node2
    cloud_on node2 journalctl -u ssh | grep -c 'Accepted publickey'
}
pinned=$(fingerprint node2)
cloud_fault host-key node=node2
shown=$(fingerprint node2)
instances=$(cloud_instances)
things=$(cloud_things)
cp .dtctl/sick/{cluster.toml,known_hosts} out/
calls=$(wc -l <cloud/calls.jsonl)
accepted=$(logins)
ok "node2 has accepted logins ($accepted)" test "$accepted" -gt 0
run cloud_run dtctl up -y
is "$status" 3 'up fails with status 3' || cloud_diag
keys="shows ssh-ed25519 ${shown//+/[+]}, expected ${pinned//+/[+]};"
like "$err" "node2.*$keys.*dtctl up --replace" 'up names the node, both keys and the next step'
like "$err" 'up: 1 of 4 nodes failed: node2' 'up names no other node as failed'
is "$(cloud_instances) $(cloud_things)" "$instances $things" 'nothing was made or ended'
is "$(sed "1,${calls}d" cloud/calls.jsonl |
    grep -cE '"action": "(Run|Create|Delete|Terminate|Modify|Authorize|Revoke)')" 0 \
    'nothing was changed'
for file in cluster.toml known_hosts; do
    ok "$file is as it was" cmp out/$file .dtctl/sick/$file
done
is "$(logins)" "$accepted" 'node2 has accepted no further login'
is "$(grep -c 'configured otherwise' <<<"$err")" 1 'there is one warning of a changed configuration'
like "$err" "configured otherwise.*dtctl up --replace 'node0,node3' makes them anew.*cluster=sick" \
    'the warning names the nodes and the next step'
cloud_down
done_testing
