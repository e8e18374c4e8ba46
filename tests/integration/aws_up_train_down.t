#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `dtctl up && dtctl train --nodes 2`, then `down`, on the test cloud: real Terraform and AWS
# provider, nodes that boot what was sent to them. The model comes back, and nothing is left.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
cloud_config e2e 'nodes = 2'

# ---- plan and up --------------------------------------------------------------------------------
run cloud_run dtctl plan
is "$status" 0 'plan' || diag "$err"
like "$out" 'g6\.xlarge' 'names the type'
is "$(cloud_calls RunInstances)" 0 'and starts nothing'
run cloud_run dtctl up -y
is "$status" 0 'up' || diag "$out" "$err"
diag "$(tail -n 12 <<<"$out")"
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'two nodes run'
is "$(cloud_instances | wc -l)" 2 'and the API has two instances'
unlike "$err" 'configured otherwise|has not passed its checks' 'as they were meant to be'
run cloud_run dtctl plan
is "$status" 0 'plan after up'
unlike "$out" 'create|delete|update|replace' 'wants nothing'

# ---- no secret stays ----------------------------------------------------------------------------
for node in node0 node1; do
    keys=$(cloud_on $node sh -c \
        'grep -rl "OPENSSH PRIVATE" /var/lib/cloud /etc/ssh /run/cloud-init 2>/dev/null | xargs')
    is "$keys" /etc/ssh/ssh_host_ed25519_key "$node: the host key's only place is sshd's"
    ok "$node: it is the one that dtctl trusts" grep -qF \
        "$(cloud_on $node cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub)" .dtctl/e2e/known_hosts
    run cloud_on $node env
    unlike "$out" 'AWS_' "$node: no credentials"
done
is "$(find .dtctl -type f -perm /077 -exec grep -l 'OPENSSH PRIVATE' {} +)" '' \
    'what holds a private key is readable by its owner alone'
travelled=$(grep -rhoE 'ssh-ed25519 [A-Za-z0-9+/=]{60,}' .dtctl/e2e/terraform --include='*.json' |
    grep -vF "$(cut -d' ' -f2 .dtctl/e2e/id_ed25519.pub)" | sort -u)
is "$(wc -l <<<"$travelled")" 2 'two host keys have travelled'
is "$(grep -cF "$travelled" .dtctl/e2e/known_hosts)" 0 'and neither is trusted any more'

# ---- train --------------------------------------------------------------------------------------
run cloud_run dtctl train --nodes 2 --name demo --set train.model=mlp --set train.epochs=2
is "$status" 0 'train --nodes 2' || diag "$(tail -n 20 <<<"$out")" "$err"
like "$out" '2 ranks on 2 nodes' 'ran on both'
model=$(find .dtctl/e2e/runs -name '*.safetensors' | head -n 1)
ok 'the model is back' test -s "$model"
run cloud_run dtctl status
is "$status" 0 'status' || diag "$err"
like "$out" 'node1' 'shows the nodes'

# ---- the folder is elsewhere ---------------------------------------------------------------------
mkdir elsewhere
cp -a dtctl.toml .dtctl elsewhere/
rm -r .dtctl
cd elsewhere || exit 1
run cloud_run dtctl exec hostname
is "$(grep -c 'node[01]' <<<"$out")" 2 'a copy of its folder reaches the cluster' || diag "$err"
run cloud_run dtctl ps --all
like "$out" 'demo-' 'its runs are known'
model=$(find .dtctl/e2e/runs -name '*.safetensors' | head -n 1)

# ---- down ---------------------------------------------------------------------------------------
run cloud_run dtctl down -y
is "$status" 0 'down' || diag "$out" "$err"
is "$(cloud_instances)" '' 'no instance is left'
is "$(cloud_things)" '' 'nor anything else that was made'
ok 'the model stays' test -s "$model"
before=$(wc -l <../cloud/calls.jsonl)
run cloud_run dtctl down -y
is "$status" 0 'a second down'
is "$(sed "1,${before}d" ../cloud/calls.jsonl | grep -c '"action": "\(Delete\|Terminate\)')" 0 \
    'does nothing'
cloud_stop
is "$(cloud_left)" '' 'no namespace, mount or process of a node is left'
done_testing
