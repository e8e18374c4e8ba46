#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `dtctl up && dtctl train --nodes 2`, then `down`, on the test cloud: real Terraform and AWS
# provider, nodes that boot what was sent to them. The model comes back, another lease reaches the
# nodes that run, and nothing is left.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
cloud_config e2e 'nodes = 2' -- 's3 = "s3://data-of-ann/e2e"'

# ---- plan and up --------------------------------------------------------------------------------
run cloud_run dtctl plan
is "$status" 0 'plan succeeds' || cloud_diag
like "$out" 'g6\.xlarge' 'plan names the type'
is "$(cloud_calls RunInstances)" 0 'a refused type starts no instance'
cloud_up
diag "$(tail -n 12 <<<"$out")"
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'two nodes run'
is "$(cloud_instances | wc -l)" 2 'the API has two instances'
unlike "$err" 'configured otherwise|not passed their checks' 'the nodes are configured as planned'
run cloud_run dtctl plan
is "$status" 0 'plan after up succeeds'
unlike "$out" 'create|delete|update|replace' 'wants nothing'

# ---- no secret stays ----------------------------------------------------------------------------
for node in node0 node1; do
    keys=$(cloud_on $node sh -c \
        'grep -rl "OPENSSH PRIVATE" /var/lib/cloud /etc/ssh /run/cloud-init 2>/dev/null | xargs')
    is "$keys" /etc/ssh/ssh_host_ed25519_key "$node: the host key's only place is sshd's"
    ok "$node: the host key is the one in known_hosts" grep -qF \
        "$(cloud_on $node cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub)" .dtctl/e2e/known_hosts
    run cloud_on $node env
    unlike "$out" 'AWS_' "$node has no credentials"
done
is "$(find .dtctl -type f -perm /077 -exec grep -l 'OPENSSH PRIVATE' {} +)" '' \
    'files with a private key are readable by their owner alone'
travelled=$(grep -rhoE 'ssh-ed25519 [A-Za-z0-9+/=]{60,}' .dtctl/e2e/terraform --include='*.json' |
    grep -vF "$(cut -d' ' -f2 .dtctl/e2e/id_ed25519.pub)" | sort -u)
is "$(wc -l <<<"$travelled")" 2 'two host keys have travelled'
is "$(grep -cF "$travelled" .dtctl/e2e/known_hosts)" 0 \
    'a host key that travelled is not trusted any more'

# ---- the role is for runs -----------------------------------------------------------------------
cat >role.sh <<'END'
imds=http://169.254.169.254/latest
token=$(curl -fsS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' $imds/api/token)
get() { curl -fsS -H "X-aws-ec2-metadata-token: $token" $imds/meta-data/iam/$1; }
get security-credentials/"$(get security-credentials/)"
END
run cloud_run dtctl ssh node0 <role.sh
like "$out" '"Code": "Success".*"AccessKeyId"' "a run has the role's credentials" || cloud_diag

# ---- train --------------------------------------------------------------------------------------
run cloud_run dtctl train --nodes 2 --name demo --set train.model=mlp --set train.epochs=2
is "$status" 0 'train --nodes 2' || diag "$(tail -n 20 <<<"$out")" "$err"
like "$out" '2 ranks on 2 nodes' 'ran on both'
model=$(find .dtctl/e2e/runs -name '*.safetensors' | head -n 1)
ok 'the model is back' test -s "$model"
run cloud_run dtctl status
is "$status" 0 'status succeeds' || cloud_diag
like "$out" 'node1' 'status shows the nodes'

# ---- another lease, for the nodes that run -------------------------------------------------------
ids=$(cloud_instances)
things=$(cloud_things)
first=$(cloud_on node0 cat /var/lib/dtctl/lease)
run cloud_run dtctl plan --ttl 3h --idle 2h
like "$out" 'update +lease of the nodes' 'plan says that it would be changed' || cloud_diag
is "$(cloud_on node0 cat /var/lib/dtctl/lease)" "$first" 'plan does not change the lease'
now=$EPOCHSECONDS
run cloud_run dtctl up -y --ttl 3h --idle 2h
is "$status" 0 'up with another lease succeeds' || cloud_diag
is "$(cloud_instances)" "$ids" 'replaces no instance'
unlike "$err" 'configured otherwise' 'up with another lease does not offer to replace nodes'
like "$err" 'node\[0-1\]: the lease ends in (3:00:00|2:5[0-9]:[0-9]+) now' \
    'up shows the new end of the lease'
like "$err" 'node\[0-1\]: ends after 2:00:00 without a run' 'up shows the idle limit'
due=$(cloud_on node0 cat /var/lib/dtctl/lease)
ok "the nodes have the new end ($due)" test "$due" -ge $((now + 10800)) -a \
    "$due" -le $((EPOCHSECONDS + 10800))
is "$(cloud_on node1 cat /var/lib/dtctl/lease)" "$due" 'both nodes have the same end'
for node in node0 node1; do
    is "$(cloud_on $node cat /var/lib/dtctl/idle_s)" 7200 "$node has the new idle limit"
    ok "$node: its units use the new limits" wait_for 30 cloud_on $node sh -c \
        "test \"\$(cat /var/lib/dtctl/own/lease)\" = $due"
done
tag=dtctl-expires=$(date -u -d "@$due" +%FT%TZ)
is "$(cloud_things)" "$things" 'nothing else was made or ended'
tagged=$(cloud_api DescribeInstances us-east-1 "Filter.1.Name=tag:${tag%%=*}" \
    "Filter.1.Value.1=${tag#*=}" | grep -o '<instanceId>[^<]*' | sort -u | cut -d'>' -f2)
is "$tagged" "$ids" 'the instances have it as their tag'
run cloud_run dtctl status
like "$out" 'lease: ends in (3:00:00|2:5[0-9]:[0-9]+)' 'status shows the new end' || cloud_diag
run cloud_run dtctl plan
is "$status" 0 'plan succeeds after that'
like "$out" 'nothing to change' 'wants nothing'

# ---- the folder is elsewhere ---------------------------------------------------------------------
mkdir elsewhere
cp -a dtctl.toml .dtctl elsewhere/
rm -r .dtctl
cd elsewhere || exit 1
run cloud_run dtctl exec hostname
is "$(grep -c 'node[01]' <<<"$out")" 2 'a copy of its folder reaches the cluster' || cloud_diag
run cloud_run dtctl ps --all
like "$out" 'demo-' 'a copy of the folder lists the runs'
model=$(find .dtctl/e2e/runs -name '*.safetensors' | head -n 1)

# ---- down ---------------------------------------------------------------------------------------
run cloud_run dtctl down -y
is "$status" 0 'down succeeds' || cloud_diag
is "$(cloud_instances)" '' 'no instance is left'
is "$(cloud_things)" '' 'no other resource is left'
ok 'the model stays' test -s "$model"
before=$(wc -l <../cloud/calls.jsonl)
run cloud_run dtctl down -y
is "$status" 0 'a second down succeeds'
is "$(sed "1,${before}d" ../cloud/calls.jsonl | grep -c '"action": "\(Delete\|Terminate\)')" 0 \
    'a second down ends nothing'
cloud_stop
is "$(cloud_left)" '' 'no namespace, mount or process of a node is left'
done_testing
