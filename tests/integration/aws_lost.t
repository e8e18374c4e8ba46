#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The operator's folder is lost with a cluster half made: `up` was killed. From another folder `up`
# makes no second cluster of that name. `dtctl gc` finds the resources by their tags in the given
# region, ends them, and keeps those of other owners.
# shellcheck disable=SC2317,SC2119,SC2120 # called by wait_for; a region is seldom given
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start --no-nodes
me=$(id -un)@$(uname -n)

tag() { # RESOURCE-TYPE OWNER: as parameters of a call
    echo "TagSpecification.1.ResourceType=$1 TagSpecification.1.Tag.1.Key=dtctl-owner" \
        "TagSpecification.1.Tag.1.Value=$2 TagSpecification.1.Tag.2.Key=dtctl-cluster" \
        "TagSpecification.1.Tag.2.Value=elsewhere"
}

# shellcheck disable=SC2046 # tag is several words
plant() { # REGION OWNER: an instance and a placement group, as another computer would make them
    cloud_api RunInstances "$1" ImageId=ami-12345678 MinCount=1 MaxCount=1 InstanceType=g6.xlarge \
        $(tag instance "$2") >>out/planted.xml
    cloud_api CreatePlacementGroup "$1" GroupName="$2" $(tag placement-group "$2") >>out/planted.xml
}

running() {
    [ "$(cloud_instances | wc -l)" -eq "$1" ]
}

what_is_there() { # [REGION]
    cloud_instances "$@"
    cloud_things "$@"
    cloud_api DescribeVpcEndpoints "${1:-us-east-1}" | grep -o '<state>available' || true
}

plant us-east-1 bob
bobs=$(what_is_there)
is "$(wc -l <<<"$bobs")" 2 'bob has an instance and a group'
plant us-west-2 "$me"

mkdir cut elsewhere
cd cut || exit 1
cloud_config cut 'nodes = 2' -- 'zones = ["us-east-1a"]'
cloud_fault hang seconds=120
cloud_run dtctl up -y >../up.out 2>&1 &
up=$!
ok 'up has started two instances' wait_for 300 running 3
# shellcheck disable=SC2046 # one word for each process; this process namespace has no others
kill -9 "$(pgrep -P "$up" -x dtctl || echo "$up")" $(pgrep -x terraform)
wait "$up" 2>/dev/null
cloud_fault none
cd ../elsewhere || exit 1
rm -rf ../cut

all=$(what_is_there)
cloud_config cut 'nodes = 2'
run cloud_run dtctl up -y
is "$status" 1 'up from another folder does not make a second cluster of that name'
like "$err" 'cluster cut of .* runs already \(i-.*\), made from another folder, which has its key' \
    'the error names the instances and the folder with the key'
run cloud_run dtctl down -y
is "$status" 0 'down from another folder succeeds'
is "$(what_is_there)" "$all" 'resources of that cluster are as they were'
rm dtctl.toml
run cloud_run dtctl gc --region us-west-2
isnt=$((status != 0))
result $isnt 'gc alone ends nothing, and says so' || cloud_diag
like "$out" 'us-west-2 +instance .*elsewhere' \
    'gc finds an instance of another computer in that region'
is "$(cloud_instances us-west-2 | wc -l) $(cloud_things us-west-2 | wc -l)" '1 1' \
    'the instance of another computer stays'
run cloud_run dtctl gc --region us-east-1 -y
is "$status" 0 'gc -y leaves a cluster alone whose lease has not ended' || cloud_diag
like "$out" 'us-east-1 +instance .* cut .*since 20.*, lease until 20.*\(in use\)' \
    'gc shows instances with their start and their lease' || cloud_diag
like "$err" '2 instances of clusters that other folders made are in use.*--in-use' \
    'gc names the flag --in-use'
is "$(what_is_there)" "$all" 'gc ends nothing that is in use'
run cloud_run dtctl gc --region us-east-1 -y --in-use
is "$status" 0 'gc -y --in-use succeeds' || cloud_diag
for kind in instance vpc subnet security-group internet-gateway route-table vpc-endpoint \
    key-pair placement-group; do
    like "$out" "us-east-1 +$kind " "gc shows the $kind"
done
unlike "$out" 'bob' 'gc does not show resources of another user'
is "$(what_is_there)" "$bobs" 'gc ends everything but the resources of another user'
cloud_fault stale
run cloud_run dtctl gc --region us-east-1 -y
is "$status" 0 'gc succeeds while AWS still lists ended resources' || cloud_diag
like "$out" '0 left over in 1 region' 'gc finds nothing left'
is "$(what_is_there)" "$bobs" 'gc ends nothing of another user'
cloud_fault none
cloud_fault deny action=GetResources
run cloud_run dtctl gc --region us-east-1
is "$status" 0 'gc without the permission to list what is tagged succeeds' || cloud_diag
like "$err" 'skipping networks, groups and keys.*tag:GetResources' 'gc names the missing permission'
cloud_stop
done_testing
