#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The additions of the shim to moto, and its refusals, over HTTP as Terraform's provider asks.
# shellcheck disable=SC2317 # called by wait_for
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start --api

field() { # NAME: its first value in $out
    grep -o "<$1>[^<]*" <<<"$out" | head -n 1 | cut -d'>' -f2
}

api() { # ACTION KEY=VALUE…
    out=$(cloud_api "$1" us-east-1 "${@:2}")
}

start() { # KEY=VALUE…: one instance in the default network
    api RunInstances ImageId=ami-12345678 MinCount=1 MaxCount=1 InstanceType=g5.xlarge "$@"
}

has_state() { # INSTANCE STATE
    api DescribeInstances InstanceId.1="$1"
    grep -q "<name>$2" <<<"$out"
}
ended() { # INSTANCE: not only on its way
    wait_for 30 has_state "$1" terminated
}

spot=InstanceMarketOptions.MarketType=spot
zone() { # LETTER: the default subnet there
    api DescribeSubnets Filter.1.Name=availability-zone "Filter.1.Value.1=us-east-1$1"
    echo "SubnetId=$(field subnetId)"
}
a=$(zone a) b=$(zone b)

# ---- instances ----
start "$a" ClientToken=once
first=$(field instanceId)
start "$a" ClientToken=once
is "$(field instanceId)" "$first" 'the same client token gives the same instance'
is "$(cloud_instances | wc -l)" 1 'the same client token starts no second instance'
like "$(field ipAddress)" '^(203\.0\.113\.[0-9]+)?$' \
    'the instance has no public address but of the test network'
start "$a" $spot
second=$(field instanceId)
api DescribeInstances InstanceId.1="$second"
is "$(field instanceLifecycle)" spot "a spot instance has the life cycle 'spot'"
request=$(field spotInstanceRequestId)
api DescribeSpotInstanceRequests SpotInstanceRequestId.1="$request"
is "$(field instanceId) $(field state)" "$second active" 'the spot request is active'
curl -fsS -o out/end $CLOUD_API/_shim/end -d "{\"id\": \"$second\", \"reason\": \"spot\"}"
ok 'a reclaimed instance is shutting down for a while' has_state "$second" shutting-down
api DescribeInstances Filter.1.Name=instance-state-name Filter.1.Value.1=shutting-down
is "$(field instanceId)" "$second" "the instance is found by the state 'shutting-down'"
api DescribeInstances Filter.1.Name=instance-state-name Filter.1.Value.1=terminated
found=$(field instanceId)
if has_state "$second" shutting-down; then
    is "$found" '' 'the instance is not found by another state'
else
    skip 1 'the instance may have ended before the answer'
fi
ok 'the instance is terminated' ended "$second"
like "$out" 'Server.SpotInstanceTermination' 'the API has the reason'
api DescribeSpotInstanceRequests SpotInstanceRequestId.1="$request"
is "$(field state)" closed 'the spot request is closed'
start "$a" UserData="$(head -c 16385 /dev/zero | base64 -w0)"
is "$(field Code)" InvalidParameterValue 'user data above 16 KiB is refused'

# ---- security groups ----
api CreateSecurityGroup GroupName=sg GroupDescription=x
group=$(field groupId)
api AuthorizeSecurityGroupIngress GroupId="$group" IpPermissions.1.IpProtocol=-1 \
    IpPermissions.1.Groups.1.GroupId="$group" 'IpPermissions.1.Groups.1.Description=for its own'
api DescribeSecurityGroupRules Filter.1.Name=group-id Filter.1.Value.1="$group"
like "$out" '<description>for its own<' 'a rule for a group has its description'

# ---- placement groups ----
start "$a" Placement.GroupName=none
is "$(field Code)" InvalidPlacementGroup.Unknown 'an unknown placement group is refused'
api CreatePlacementGroup GroupName=pg Strategy=cluster \
    TagSpecification.1.ResourceType=placement-group \
    TagSpecification.1.Tag.1.Key=dtctl-cluster TagSpecification.1.Tag.1.Value=x
start "$a" Placement.GroupName=pg
third=$(field instanceId)
start "$b" Placement.GroupName=pg
is "$(field Code)" InvalidPlacementGroup.InUse 'a group does not span zones'
api DeletePlacementGroup GroupName=pg
is "$(field Code)" InvalidPlacementGroup.InUse 'a placement group in use cannot be deleted'
api TerminateInstances InstanceId.1="$third"
api DeletePlacementGroup GroupName=pg
is "$(field Code)" InvalidPlacementGroup.InUse \
    'a placement group cannot be deleted while its last instance is shutting down'
ended "$third"
api DescribePlacementGroups Filter.1.Name=tag:dtctl-cluster Filter.1.Value.1=x
is "$(field groupName)" pg 'a placement group is found by tag'
api DeletePlacementGroup GroupName=pg
is "$(field return)" true 'an empty placement group can be deleted'

# ---- volumes, addresses, images ----
start "$a" BlockDeviceMapping.1.DeviceName=/dev/sda1 BlockDeviceMapping.1.Ebs.VolumeSize=100 \
    BlockDeviceMapping.1.Ebs.Iops=6000 BlockDeviceMapping.1.Ebs.Throughput=500
api DescribeVolumes Filter.1.Name=attachment.instance-id Filter.1.Value.1="$(field instanceId)"
is "$(field iops) $(field throughput)" '6000 500' 'a volume keeps its iops and throughput'
api AllocateAddress Domain=vpc
elastic=$(field publicIp)
like "$elastic" '^203\.0\.113\.' 'elastic addresses are of the test network'
api DescribeAddresses PublicIp.1="$elastic"
is "$(field publicIp)" "$elastic" 'an elastic address is found by name'
out=$(curl -sS -H "$(cloud_scope us-east-1 ssm)" -H 'Content-Type: application/x-amz-json-1.1' \
    -H 'X-Amz-Target: AmazonSSM.GetParameter' $CLOUD_API/ -d '{"Name":
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"}')
like "$out" '"Value": ?"ami-' 'the parameter of the deep learning image holds an image'

api CreateNetworkInterface "$a" InterfaceType=efa
efa=$(field networkInterfaceId)
is "$(field interfaceType)" efa 'an EFA says what it is'
api RunInstances ImageId=ami-12345678 MinCount=1 MaxCount=1 InstanceType=g5.8xlarge \
    NetworkInterface.1.NetworkInterfaceId="$efa" NetworkInterface.1.DeviceIndex=0
holder=$(field instanceId)
api DescribeNetworkInterfaces NetworkInterfaceId.1="$efa"
like "$(grep -o '<attachment>.*</attachment>' <<<"$out")" "$holder" \
    "the interface has the holder's id"
api TerminateInstances InstanceId.1="$holder"
ended "$holder"
api DescribeNetworkInterfaces NetworkInterfaceId.1="$efa"
is "$(field status)$(field attachment)" available 'the interface is free when its holder has ended'

for turn in first second; do
    api RunInstances ImageId=ami-12345678 MinCount=1 MaxCount=1 InstanceType=g5.xlarge \
        "NetworkInterface.1.$a" NetworkInterface.1.DeviceIndex=0 \
        NetworkInterface.1.PrivateIpAddress=172.31.0.77
    is "$(field privateIpAddress)" 172.31.0.77 "the $turn instance gets the address it asks for"
    holder=$(field instanceId)
    start "$a" PrivateIpAddress=172.31.0.77
    is "$(field Code)" InvalidIPAddress.InUse 'the address cannot be taken twice'
    api TerminateInstances InstanceId.1="$holder"
    ended "$holder"
    api TerminateInstances InstanceId.1="$holder"
    is "$(field instanceId)" "$holder" 'a second termination is no error'
done

# ---- what begins well ----
curl -fsS -o out/fault $CLOUD_API/_shim/fault \
    -d '{"kind": "late", "times": 1, "code": "Client.VolumeLimitExceeded"}'
start "$a"
late=$(field instanceId)
like "$late" '^i-' 'an instance that cannot be is started all the same'
ok 'AWS ends it' ended "$late"
like "$out" '<code>Client.VolumeLimitExceeded' 'the API has the reason afterwards'

# ---- tags ----
tagging() { # ACTION JSON
    out=$(curl -sS -H "$(cloud_scope us-east-1 tagging)" \
        -H 'Content-Type: application/x-amz-json-1.1' \
        -H "X-Amz-Target: ResourceGroupsTaggingAPI_20170126.$1" $CLOUD_API/ -d "$2")
}

tagged() { # TYPE…: the names of what has dtctl-owner=ann
    local types
    types=$(printf ',"ec2:%s"' "$@")
    tagging GetResources "{\"ResourceTypeFilters\": [${types#,}],
        \"TagFilters\": [{\"Key\": \"dtctl-owner\", \"Values\": [\"ann\"]}]}"
    grep -oE 'ec2:us-east-1:[0-9]+:[^"]*' <<<"$out" | cut -d: -f4 | sort | xargs
}

tag() { # RESOURCE-TYPE OWNER: as parameters of a call
    echo "TagSpecification.1.ResourceType=$1 TagSpecification.1.Tag.1.Key=dtctl-owner" \
        "TagSpecification.1.Tag.1.Value=$2"
}

changed() { # ACTION TAG[=VALUE] ID…: of the tags of these
    local i=0 one
    local -a ids=()
    for one in "${@:3}"; do ids+=("ResourceId.$((++i))=$one"); done
    [ "${2%=*}" = "$2" ] || ids+=("Tag.1.Value=${2#*=}")
    api "$1" "Tag.1.Key=${2%=*}" "${ids[@]}"
}

having() { # KIND FIELD TAG=VALUE: the first of what has that tag
    api "Describe$1" "Filter.1.Name=tag:${3%=*}" "Filter.1.Value.1=${3#*=}"
    field "$2"
}

public=$(ssh-keygen -q -t ed25519 -N '' -f key && base64 -w0 <key.pub)
for owner in ann bob; do
    # shellcheck disable=SC2046 # several words
    api ImportKeyPair "KeyName=key-$owner" "PublicKeyMaterial=$public" $(tag key-pair $owner)
    [ $owner = bob ] || key=$(field keyPairId)
    # shellcheck disable=SC2046
    api CreatePlacementGroup "GroupName=group-$owner" $(tag placement-group $owner)
done
api CreateVpc CidrBlock=10.2.0.0/16
vpc=$(field vpcId)
api CreateRouteTable "VpcId=$vpc"
routes=$(field routeTableId)
# shellcheck disable=SC2046
api CreateVpcEndpoint "VpcId=$vpc" "RouteTableId.1=$routes" VpcEndpointType=Gateway \
    ServiceName=com.amazonaws.us-east-1.s3 $(tag vpc-endpoint ann)
endpoint=$(field vpcEndpointId)
is "$(tagged key-pair placement-group vpc-endpoint)" \
    "key-pair/$key placement-group/group-ann vpc-endpoint/$endpoint" \
    'the tagging API lists what moto leaves out, of one owner'
is "$(tagged placement-group)" placement-group/group-ann 'the tagging API filters by type'
api DescribePlacementGroups GroupName.1=group-bob
group=$(field groupId)
changed CreateTags until=later "$group" "$vpc" "$key" "$endpoint" "$efa"
is "$(field return)" true 'tags of what is there can be set'
is "$(having PlacementGroups groupName until=later) $(having KeyPairs keyName until=later)" \
    'group-bob key-ann' 'tags of a placement group and of a key pair can be set'
is "$(having Vpcs vpcId until=later) $(having VpcEndpoints vpcEndpointId until=later)" \
    "$vpc $endpoint" 'tags of a network and of an endpoint can be set'
is "$(having NetworkInterfaces networkInterfaceId until=later)" "$efa" \
    'tags of an interface can be set'
changed CreateTags until=soon "$group" "$vpc"
is "$(having PlacementGroups groupName until=soon) $(having Vpcs vpcId until=soon)" \
    "group-bob $vpc" 'tags can be changed'
changed DeleteTags until=later "$group"
is "$(having PlacementGroups groupName until=soon)" group-bob \
    'a tag with another value is not removed'
changed DeleteTags until "$group"
is "$(having PlacementGroups groupName until=soon)" '' 'a tag without a value is removed'
is "$(having PlacementGroups groupName dtctl-owner=bob)" group-bob 'other tags are kept'
changed CreateTags until=never "$vpc" pg-00000000000000000
is "$(field Code) $(having Vpcs vpcId until=never)" 'InvalidPlacementGroup.Unknown ' \
    'an unknown resource fails the whole call'
api DescribeKeyPairs "KeyPairId.1=$key"
is "$(field keyName)" key-ann 'a key pair is found by its id'
api DeleteVpcEndpoints "VpcEndpointId.1=$endpoint"
api DeleteKeyPair KeyName=key-ann
is "$(tagged key-pair vpc-endpoint)" '' 'a deleted resource is not listed'
cloud_fault stale times=1
is "$(tagged key-pair vpc-endpoint)" "key-pair/$key vpc-endpoint/$endpoint" \
    'stale: a deleted resource is listed for a while'
is "$(tagged key-pair vpc-endpoint)" '' 'stale: a deleted resource is not listed later'
api DescribeKeyPairs "KeyPairId.1=$key"
is "$(field Code)" InvalidKeyPair.NotFound 'stale: EC2 does not find the deleted key pair'
cloud_fault none

# ---- faults ----
refused() { # WANT DESCRIPTION KEY=VALUE…
    start "${@:3}"
    is "$(field Code)" "$1" "$2"
}
cloud_fault capacity zone=us-east-1a
refused InsufficientInstanceCapacity 'capacity: refused in its zone' "$a"
like "$(field Message)" 'choosing us-east-1b, us-east-1c' 'the error has the zones to try'
refused '' 'and not in another' "$b"
cloud_fault none
cloud_fault capacity zone=us-east-1a after=1 market=spot
refused '' 'market: on-demand goes on' "$a"
refused '' 'after: one still starts' "$a" $spot
refused InsufficientInstanceCapacity 'and the next does not' "$a" $spot
cloud_fault none
cloud_fault quota vcpus=4
refused VcpuLimitExceeded 'quota: more vCPUs than allowed' "$a"
like "$(field Message)" 'limit of 4 ' 'the error has the limit'
cloud_fault none
cloud_fault throttle action=DescribeVpcs times=2
for want in RequestLimitExceeded RequestLimitExceeded ''; do
    api DescribeVpcs
    is "$(field Code)" "$want" "throttle: two times (${want:-and then no more})"
done
cloud_fault unsupported zone=us-east-1a
refused Unsupported 'unsupported in a zone' "$a"
cloud_fault none
cloud_fault deny action=CreateVpc
api CreateVpc CidrBlock=10.1.0.0/16
is "$(field Code)" UnauthorizedOperation 'deny: the permission is missing'
cloud_fault none

# ---- S3, with the condition that Terraform's lock rests on ----
cloud_s3 PUT shelf >out/bucket
put() {
    cloud_s3 PUT shelf/a/lock --data-binary "$1" -H 'If-None-Match: *' -H 'Content-Type: text/plain'
}
ok 'an object that is not there yet is written' put one
isnt=1
put two 2>out/put.err && isnt=0
result $isnt 'an existing object is not overwritten'
is "$(cloud_s3 GET shelf/a/lock)" one 'the object keeps its content'
is "$(cloud_objects shelf)" a/lock 'the bucket lists it'
cloud_fault deny action=GetObject
out=$(cloud_s3 GET shelf/a/lock --no-fail)
is "$(field Code)" AccessDenied 'deny: the permission for an object is missing'
cloud_fault none
before=$(cloud_instances | wc -l)
cloud_fault lost times=1
start "$a" ClientToken=lost 2>out/lost.err
is "$out" '' 'lost: the client gets no answer'
start "$a" ClientToken=lost
is "$(cloud_instances | wc -l) $(field Code)" "$((before + 1)) " 'lost: one instance was started'
attempt() { # ID: makes a network, as one of the attempts with this id
    out=$(curl -sS -H "$(cloud_scope us-east-1 ec2)" -H "Amz-Sdk-Invocation-Id: $1" \
        -d 'Action=CreateVpc&Version=2016-11-15&CidrBlock=10.9.0.0/16' $CLOUD_API/)
    field vpcId
}
made=$(attempt one)
is "$(attempt one)" "$made" 'a call that was answered already has the same answer'
result $(($(attempt two | grep -cx "$made") == 0)) 'another call does not get that answer'
cloud_fault lost action=CreateVpc times=1
is "$(attempt three 2>out/lost.err)" '' 'a lost one is done'
result $(($(attempt three | grep -c vpc-) == 1)) 'a repeated call has one effect'
cloud_fault price
refused SpotMaxPriceTooLow 'price' "$a" $spot
cloud_fault none
run cloud_fault capacity wrong=1 vcpus=x
isnt=$((status != 0))
result $isnt 'a fault that makes no sense is refused'
is "$(cloud_calls RunInstances InsufficientInstanceCapacity)" 2 'the log of calls has every refusal'
cloud_stop
is "$(cloud_left)" '' 'nothing is left'
done_testing
