#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# up that AWS refuses for good: what a person may not do, a limit, a type that is not there, no room
# in any zone in any way to buy. Each ends by itself with one message that says what, the code and
# the next step; nothing is left in the account, and the next up is as good as the first: of two
# clusters in one subnet that was there before. Then AWS takes its time to end an instance.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

# refused WHAT PATTERN [OPTION…]: up ends with one error that has the pattern, and leaves nothing.
refused() {
    local what=$1 pattern=$2 begun=${EPOCHREALTIME%.*}
    shift 2
    run cloud_run dtctl up -y "$@"
    diag "  $what: $((${EPOCHREALTIME%.*} - begun)) s: ${err##*$'\n'}"
    is "$status" 1 "$what: up fails"
    is "$(grep -c 'error: ' <<<"$err")" 1 "$what: up prints one error" || cloud_diag
    like "$err" "$pattern" "$what: the error has the reason and the next step"
    is "$(cloud_instances)$(cloud_things)" '' "$what: nothing is left in the account"
    ok "$what: there is no cluster" test ! -e .dtctl/full/cluster.toml
}

cloud_config full 'nodes = 2' -- 'zones = ["us-east-1a", "us-east-1b"]' \
    'fallback = ["spot", "on-demand"]'

# ---- a type that is not there -------------------------------------------------------------------
refused 'no such type' 'g6\.gigantic: .*\(unsupported, InvalidInstanceType\).*choose another' \
    --instance-type g6.gigantic
is "$(cloud_calls CreateVpc)" 0 'nothing is made for it'
is "$(grep -c 'refused.*trying' <<<"$err")" 0 'no other zone is tried'

run cloud_run dtctl up -y --instance-type G6.xlarge
like "$status $err" \
    '^2 .*--instance-type.*: a name such as g6.12xlarge belongs here \(refused before anything' \
    'a setting that the module refuses is no refusal of AWS' || cloud_diag
ok 'up leaves no variables of it' test ! -e .dtctl/full/terraform/infra/terraform.tfvars.json

DTCTL_AWS_SUBNET=subnet-0123456789abcdef0 refused 'no such subnet' \
    "no matching EC2 Subnet found; .*DTCTL_AWS_SUBNET.* is 'subnet-0123456789abcdef0', in us-east" \
    --fallback on-demand

DTCTL_AWS_IMAGE=ami-0123456789abcdef0 refused 'no such image' \
    "DTCTL_AWS_IMAGE.* is 'ami-0123456789abcdef0', in us-east-1" --fallback on-demand
is "$(cloud_calls CreateVpc)" 0 'an image that is not there is found before anything is made'

DTCTL_AWS_PLACEMENT_GROUP_NAME=nobodys refused 'no such group' \
    "is 'nobodys', in us-east-1; .*name a placement group of this region" --fallback on-demand

# ---- what the caller may not do -----------------------------------------------------------------
cloud_fault deny action=CreateVpc
refused 'not permitted' \
    '\(permission, UnauthorizedOperation of ec2:CreateVpc\).*allow ec2:CreateVpc to these'
cloud_fault none

# ---- a limit ------------------------------------------------------------------------------------
cloud_fault quota vcpus=2
refused 'quota' \
    '\(quota, VcpuLimitExceeded\).*limit of 2 .*L-DB2E81BA.*2 nodes need 8 vCPUs.*Service Quotas' \
    --fallback on-demand
is "$(cloud_calls RunInstances Vcpu)" 2 'each node was requested once'
is "$(grep -c 'refused.*trying' <<<"$err")" 0 'a limit is the same in every zone'
cloud_fault none

# ---- no room ------------------------------------------------------------------------------------
cloud_fault unsupported zone=us-east-1b market=spot
cloud_fault capacity 'zone=*'
DTCTL_AWS_PLACEMENT_GROUP=off refused 'no room' \
    'spot, then on-demand nodes .* and every other zone \(capacity, Insuff.*name further zones'
tried=$(grep -o 'us-east-1[ab], [a-z-]*: refused ([a-z]*' <<<"$err")
is "$tried" 'us-east-1a, spot: refused (capacity
us-east-1b, spot: refused (unsupported
us-east-1a, on-demand: refused (capacity' 'every zone is tried in one way to buy, then in the next'

# ---- instances that AWS ends before they run -----------------------------------------------------
cloud_fault none
cloud_fault late zone=us-east-1a
cloud_fault late zone=us-east-1b code=Client.VolumeLimitExceeded
refused 'ended at the start' \
    'refused in us-east-1 \(quota, VolumeLimitExceeded\): AWS has ended .*higher limit' \
    --fallback on-demand
like "$err" 'us-east-1a, on-demand: refused \(capacity, Insuff[A-Za-z]*\); trying us-east-1b' \
    'the reason of an instance that ended before it ran decides whether a zone is tried'
cloud_fault none
cloud_fault capacity 'zone=*'

# ---- no room in a subnet that was there before ---------------------------------------------------
subnet=$(cloud_api DescribeSubnets us-east-1 Filter.1.Name=availability-zone \
    Filter.1.Value.1=us-east-1a | grep -o '<subnetId>[^<]*' | head -n 1 | cut -d'>' -f2)
cloud_config full 'nodes = 1' -- "subnet = \"$subnet\""
DTCTL_AWS_PLACEMENT_GROUP=off refused 'no room in a given subnet' \
    'on-demand nodes .*: refused in us-east-1 \(capacity, Insuff'
unlike "$err" 'every other zone' 'no zone is named that was not tried'
is "$(grep -c 'refused.*trying' <<<"$err")" 0 'a given subnet has one zone'
cloud_fault none

# ---- the same again, without faults, beside another cluster in a foreign subnet ------------------
mkdir other
cloud_config full 'nodes = 2' -- "subnet = \"$subnet\""
sed 's/"full"/"other"/; s/nodes = 2/nodes = 1/' dtctl.toml >other/dtctl.toml
echo 'placement_group_name = "theirs"' >>other/dtctl.toml
cloud_api CreatePlacementGroup us-east-1 GroupName=theirs Strategy=cluster >out/group
cloud_fault throttle times=4
(cd other && cloud_run dtctl up -y >up.out 2>up.err) &
other=$!
run cloud_run dtctl up -y
is "$status" 0 'up succeeds after the refusals' || cloud_diag
wait $other
is "$?" 0 'a second cluster comes up in the same subnet meanwhile' || diag "$(cat other/up.err)"
is "$(cloud_nodes | sort | xargs)" 'node0 node0 node1' 'all nodes run'
is "$(cloud_nodes private_ip | sort -u | wc -l)" 3 'each node has its own address'
is "$(cloud_things | grep -c -e Vpcs -e Subnets)" 0 'no network is made'
is "$(cloud_api DescribeInstances us-east-1 Filter.1.Name=tag:dtctl-cluster Filter.1.Value.1=other |
    grep -o '<groupName>theirs')" '<groupName>theirs' \
    'a placement group that is named is entered'
is "$(cloud_calls RunInstances RequestLimitExceeded)" 4 'a busy API was asked until it answered'
run cloud_run dtctl exec hostname
is "$(grep -c 'node[01]' <<<"$out")" 2 'the nodes answer' || cloud_diag

# ---- an instance that AWS takes long to end ------------------------------------------------------
# shellcheck disable=SC2317 # called through wait_for
ending() { # ID: it is shutting down
    cloud_api DescribeInstances us-east-1 InstanceId.1="$1" | grep -q '<name>shutting-down'
}
# Of node1, in the inventory of this folder.
lost=$(sed -n 's/^instance_id = "\(.*\)"/\1/p' .dtctl/full/cluster.toml | tail -n 1)
cloud_fault ending seconds=3600
cloud_fault kill node="$lost"
ok 'AWS is ending an instance' wait_for $CLOUD_SECONDS_MAX ending "$lost"
run cloud_run dtctl status
like "$out" 'node1 .* AWS is ending it \(shutting-down\); dtctl up waits' \
    'status says that AWS is ending the node' ||
    cloud_diag
cloud_run dtctl up -y >ending.out 2>ending.err &
up=$!
ok 'up waits for the end of the node' \
    wait_for 120 grep -q "AWS is still ending node1 ($lost); a new one is created" ending.err
cloud_fault none
wait $up
is "$?" 0 'up creates another node' || diag "$(cat ending.err)"
is "$(cloud_nodes id | sort | xargs)" "$(cloud_instances | xargs)" \
    'the inventory has the instances that AWS has'
is "$(cloud_instances | grep -vc "$lost")" 3 'three nodes exist, and the failed one does not'
run cloud_run dtctl exec hostname
is "$(grep -c 'node[01]' <<<"$out")" 2 'the nodes answer' || cloud_diag
cloud_stop
is "$(cloud_left)" '' 'nothing is left on this machine'
done_testing
