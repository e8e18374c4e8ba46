#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# infra/ and cloud-init/ by hand, without dtctl, on a type with EFA: real Terraform starts two
# instances, which boot, run their user data, are ready, present the host key they were given, and
# are gone after destroy.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

# shellcheck disable=SC2317 # called through ok
terraform_in() {
    cloud_run "${TERRAFORM##*/}" -chdir="$WORK/tf" "$@" -no-color
}

took() { # WHAT: the time since it was last asked, as a diagnostic
    local now=${EPOCHREALTIME/./}
    diag "  $1: $(((now - since) / 1000)) ms"
    since=$now
}

mkdir -p tf
cp -r "$SRC/infra" "$SRC/cloud-init" tf/
ssh-keygen -q -t ed25519 -N '' -C key -f login
for i in 0 1; do
    ssh-keygen -q -t ed25519 -N '' -C key -f host$i
done
# A root of the test's own, with its own provider, of which count is an argument that no module with
# a provider inside could have.
"$CLOUD_PYTHON" - >tf/main.tf.json <<'EOF2'
import json
read = lambda name: open(name, encoding="ascii").read()
print(json.dumps({"provider": {"aws": {"region": "us-east-1"}}, "module": {"cluster": {
    "source": "./infra", "count": 1,
    "cluster": "smoke", "owner": "tester", "expires": "2030-01-01T00:00:00Z",
    "region": "us-east-1", "az": "us-east-1b", "nodes": 2, "instance_type": "g5.8xlarge",
    "purchase": "spot", "placement_group": "on", "root_iops": 6000, "root_throughput": 500,
    "ssh_public_key": read("login.pub").strip(), "operator_cidrs": ["198.51.100.1/32"],
    "bootstrap_host_keys": [{"private": read(f"host{i}"), "public": read(f"host{i}.pub").strip()}
                            for i in (0, 1)],
    "ttl_s": 3600, "idle_s": 1800, "closed_metadata": True}}}))
EOF2
ok 'terraform init succeeds' terraform_in init
since=${EPOCHREALTIME/./}
ok 'terraform apply succeeds' terraform_in apply -auto-approve || done_testing
took apply
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'two nodes run'

# shellcheck disable=SC2317 # called through wait_for
log_in() { # NODE ADDRESS COMMAND
    echo "$2 $(cat "host${1#node}.pub")" >known
    ssh "${CLOUD_SSH[@]}" -o UserKnownHostsFile=known "ubuntu@$2" "$3"
}
for node in node0 node1; do
    since=${EPOCHREALTIME/./}
    address=$(cloud_node $node private_ip)
    ok "$node gets ready" wait_for 60 log_in $node "$address" 'test -e /var/lib/dtctl/ready'
    took 'ready, after apply'
    run log_in $node "$address" 'cat /var/lib/dtctl/ready'
    like "$out" 'status=ok' "$node is well" || diag "$out"
    run log_in $node "$(cloud_node $node public_ip)" hostname
    is "$out" $node "$node answers at its public address, and has its name"
done
like "$(cloud_node node0 public_ip)" '^203\.0\.113\.' \
    'the address is of the network for documentation'
run log_in node0 "$(cloud_node node1 public_ip)" true
isnt_zero=$((status != 0))
result $isnt_zero 'a host key that is not the one given is refused'
run terraform_in plan -detailed-exitcode
is "$status" 0 'a second plan is clean' || diag "$(grep -E '^ *[~+-]|#' <<<"$out")"
took 'checks and plan'
ok 'terraform destroy succeeds' terraform_in destroy -auto-approve
took destroy
is "$(cloud_instances)" '' 'no instance is left'
ok 'the policy for the operator allows every call' python3 "$SRC/tests/infra/policy.py" \
    --calls "$WORK/cloud/calls.jsonl" "$SRC/infra/operator-policy.json"
cloud_stop
is "$(cloud_left)" '' 'nothing is left of the nodes'
done_testing
