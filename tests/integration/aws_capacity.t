#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# up when an answer of AWS is lost, the API is busy, the first zone has room for one of two nodes,
# and the second one for none in a placement group: unrecorded resources are ended and made again,
# each attempt is undone, and the cluster comes up outside of the group, whole; the next up leaves
# it there. Then down, while AWS still lists removed resources.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
cloud_config full 'nodes = 2' -- 'instance_type = "g6.8xlarge"' \
    'zones = ["us-east-1a", "us-east-1b"]'

cloud_fault lost action=CreatePlacementGroup times=1
cloud_fault throttle times=1
cloud_fault capacity zone=us-east-1a after=1
cloud_fault placement zone=us-east-1b
run cloud_run dtctl up -y
is "$status" 0 'up finds another zone' || cloud_diag
like "$err" 'us-east-1a.*refused \(capacity, InsufficientInstanceCapacity\).*us-east-1b' \
    'up says why it changes the zone'
like "$err" 'us-east-1a.*refused \(duplicate, InvalidPlacementGroup.Dup.*trying us-east-1a' \
    'a duplicate name does not exclude the zone'
like "$err" 'its answer was lost; removing the resource kind=placement-group id=dtctl-full-' \
    'an unrecorded resource is ended'
like "$err" 'us-east-1b.*refused \(capacity, Ins.*trying us-east-1a.* outside of the placement g' \
    'up tries all zones again without the group'
is "$(cloud_calls RunInstances RequestLimitExceeded)" 1 'a busy API is asked again'
is "$(cloud_nodes zone | sort -u)" us-east-1b 'every node is in that zone'
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'the cluster has two nodes'
is "$(cloud_things | grep -c LaunchTemplates) $(cloud_things | grep -c Addresses)" '2 0' \
    'nodes with one EFA have their public addresses without elastic ones'
before=$(cloud_nodes id | sort)
run cloud_run dtctl up -y
is "$status $(cloud_nodes id | sort)" "0 $before" \
    'the next up leaves the nodes outside of the group'
is "$(cloud_nodes id ended | wc -l)" 1 'the one that began elsewhere is ended'
is "$(cloud_things | grep -c Subnets)" 1 'the subnet of the first zone is removed'
is "$(cloud_things | grep -c PlacementGroups)" 1 'the unrecorded placement group is removed'
run cloud_run dtctl exec hostname
is "$(grep -c 'node[01]' <<<"$out")" 2 'the nodes answer'
# AWS's tagging API lists what is gone for hours; that is no reason for down to fail, or to wait.
cloud_fault stale
cloud_down
like "$out" 'AWS has no instance, volume, address, network, group or key with the tags' \
    'nothing of the cluster is left at AWS'
unlike "$err" 'asking again' 'down does not repeat its queries'
done_testing
