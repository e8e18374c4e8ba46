#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# up that AWS refuses for good: what a person may not do, a limit, a type that is not there, no room
# in any zone in any way to buy. Each ends by itself with one message that says what, the code and
# the next step; nothing is left in the account, and the next up is as good as the first.
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
    is "$(grep -c 'error: ' <<<"$err")" 1 "$what: with one error" || cloud_diag
    like "$err" "$pattern" "$what: which says what and what next"
    is "$(cloud_instances)$(cloud_things)" '' "$what: nothing is left in the account"
    ok "$what: there is no cluster" test ! -e .dtctl/full/cluster.toml
}

cloud_config full 'nodes = 2' -- 'zones = ["us-east-1a", "us-east-1b"]' \
    'fallback = ["spot", "on-demand"]'

# ---- a type that is not there -------------------------------------------------------------------
refused 'no such type' 'g6\.gigantic: .*\(unsupported, InvalidInstanceType\).*choose another' \
    --instance-type g6.gigantic
is "$(cloud_calls CreateVpc)" 0 'nothing is made for it'
is "$(grep -c 'refused.*trying' <<<"$err")" 0 'and no other zone is tried'

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
is "$(cloud_calls RunInstances Vcpu)" 2 'each node was asked for once'
is "$(grep -c 'refused.*trying' <<<"$err")" 0 'a limit is the same in every zone'
cloud_fault none

# ---- no room ------------------------------------------------------------------------------------
cloud_fault unsupported zone=us-east-1b market=spot
cloud_fault capacity 'zone=*'
refused 'no room' \
    'spot, then on-demand nodes .* and every other zone \(capacity, Insuff.*name further zones'
tried=$(grep -o 'us-east-1[ab], [a-z-]*: refused ([a-z]*' <<<"$err")
is "$tried" 'us-east-1a, spot: refused (capacity
us-east-1b, spot: refused (unsupported
us-east-1a, on-demand: refused (capacity' 'every zone in one way to buy, then in the next'
cloud_fault none

# ---- the same again, without faults -------------------------------------------------------------
cloud_fault throttle times=4
run cloud_run dtctl up -y
is "$status" 0 'up works after all that' || cloud_diag
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'both nodes run'
is "$(cloud_calls RunInstances RequestLimitExceeded)" 4 'a busy API was asked until it answered'
cloud_stop
is "$(cloud_left)" '' 'nothing is left on this machine'
done_testing
