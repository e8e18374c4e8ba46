#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The hosts of the test cloud, started through the API alone: what they find at their metadata
# address, and every fault that tests use, seen from inside and from outside.
# shellcheck disable=SC2317 # functions called through wait_for
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

# launch NAME ADDRESS [KEY=VALUE…]: an instance that boots with a small user data of its own.
launch() {
    local name=$1 address=$2
    shift 2
    cloud_api RunInstances us-east-1 ImageId=ami-12345678 MinCount=1 MaxCount=1 \
        InstanceType=c5.large SubnetId="$subnet" PrivateIpAddress="$address" \
        InstanceInitiatedShutdownBehavior=terminate UserData="$(base64 -w0 user.yaml)" \
        MetadataOptions.HttpTokens=required MetadataOptions.InstanceMetadataTags=enabled \
        TagSpecification.1.ResourceType=instance TagSpecification.1.Tag.1.Key=Name \
        TagSpecification.1.Tag.1.Value="$name" "$@" >"out/$name.xml"
}

booted() { # NAME
    cloud_on "$1" test -e /var/lib/booted
}

banner() { # ADDRESS: the first bytes that its sshd says
    timeout 3 bash -c "exec 3<>/dev/tcp/$1/22 && head -c 4 <&3"
}

metadata() { # NAME PATH [CURL ARGUMENT…]: the answer, and the status after it
    cloud_on "$1" curl -sS -m 5 -w ' %{http_code}' "${@:3}" "http://169.254.169.254/latest/$2"
}

# A VPC for these addresses.
cloud_api CreateVpc us-east-1 CidrBlock=10.77.0.0/16 >out/vpc.xml
vpc=$(grep -o 'vpc-[0-9a-f]*' out/vpc.xml | head -n 1)
cloud_api CreateSubnet us-east-1 VpcId="$vpc" CidrBlock=10.77.0.0/24 \
    AvailabilityZone=us-east-1a >out/subnet.xml
subnet=$(grep -o 'subnet-[0-9a-f]*' out/subnet.xml | head -n 1)
cat >user.yaml <<'EOF2'
#cloud-config
write_files:
  - path: /usr/local/lib/dtctl/one
    content: "1"
runcmd: ["echo 1 >/var/lib/booted"]
EOF2
cloud_fault preset node=odd preset=cloud-init-fails
cloud_fault preset node=dead preset=mute
cloud_fault preset node=tight preset=degraded
launch node0 10.77.0.10 InstanceMarketOptions.MarketType=spot
launch node1 10.77.0.11
launch odd 10.77.0.12
launch dead 10.77.0.13
launch tight 10.77.0.14
ok 'a node runs the user data it was started with' wait_for 60 booted node0
is "$(banner 10.77.0.10)" 'SSH-' 'the sshd of a node answers'
ok 'a second node boots' wait_for 60 booted node1

# ---- metadata ----
put=(-X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60')
is "$(metadata node0 meta-data/instance-id)" ' 401' 'metadata wants a token'
is "$(metadata node0 api/token -X PUT)" ' 400' 'a token wants a time to live'
token="X-aws-ec2-metadata-token: $(metadata node0 api/token "${put[@]}" | cut -d' ' -f1)"
id=$(cloud_node node0 id)
is "$(metadata node0 meta-data/instance-id -H "$token")" "$id 200" \
    'the metadata service answers with a token'
is "$(metadata node1 meta-data/instance-id -H "$token")" ' 401' 'a token is valid on its node only'
is "$(metadata node0 meta-data/tags/instance/Name -H "$token")" 'node0 200' 'tags are there'
is "$(metadata node0 meta-data/instance-life-cycle -H "$token")" 'spot 200' \
    'the life cycle is in the metadata'
is "$(metadata node0 meta-data/spot/instance-action -H "$token")" ' 404' 'there is no notice yet'
cloud_fault rebalance node=node0
like "$(metadata node0 meta-data/events/recommendations/rebalance -H "$token")" 'noticeTime.* 200' \
    'rebalance: the recommendation is announced'
cloud_fault imds node=node0 status=503
is "$(metadata node0 meta-data/instance-id -H "$token")" ' 503' 'imds: the service is broken'
cloud_fault imds node=node0 status=0
run cloud_on node0 curl -sS -m 3 http://10.77.0.11:22/
like "$out$err" 'SSH-|HTTP/0.9' 'nodes reach each other'
run cloud_on node0 ip route get 8.8.8.8
result "$((status != 0))" 'nodes cannot reach other networks'

# ---- faults ----
cloud_fault sshd-stop node=node1
run banner 10.77.0.11
is "$out" '' 'sshd-stop: a login is refused'
cloud_fault sshd-start node=node1
ok 'sshd-start: a login is possible again' wait_for 10 banner 10.77.0.11
cloud_fault link-down node=node1
run banner 10.77.0.11
is "$out" '' 'link-down: the node is unreachable'
cloud_fault link-up node=node1
ok 'link-up: back' wait_for 10 banner 10.77.0.11
cloud_fault freeze node=node1
run banner 10.77.0.11
is "$out" '' 'freeze: the port accepts and stays silent'
cloud_fault thaw node=node1
ok 'thaw: the node is back' wait_for 10 banner 10.77.0.11
before=$(ssh-keyscan -t ed25519 10.77.0.11 2>/dev/null)
cloud_fault host-key node=node1
new_key() {
    local now
    now=$(ssh-keyscan -T 2 -t ed25519 10.77.0.11 2>/dev/null)
    [ -n "$now" ] && [ "$now" != "$before" ]
}
ok 'host-key: the node has another key' wait_for 10 new_key
init=$(cloud_node node1 leader)
rebooted() {
    local now
    now=$(cloud_node node1 leader)
    [ "${now:-0}" != 0 ] && [ "$now" != "$init" ] && banner 10.77.0.11
}
cloud_fault reboot node=node1
ok 'reboot: the node boots again' wait_for 30 rebooted
is "$(find /sys/fs/cgroup -type d -path "*/$(cloud_node node1 id)/boot*" -prune \
    -printf '%f\n' | sort -u)" boot2 'reboot: the node has a new control group'

cloud_init_is() { # NAME STATUS
    cloud_on "$1" cloud-init status | grep -q "status: $2"
}
ok 'cloud-init-fails: cloud-init reports an error' wait_for 60 cloud_init_is odd error
is "$(cloud_on tight df -Pm / | awk 'NR == 2 { print ($2 <= 1024) }')" 1 \
    'degraded: the disk has hardly any room'
run banner 10.77.0.13
is "$out" '' 'mute: never answers'

# ---- ends ----
ended() { # ID: in the API and on this machine
    ! cloud_instances | grep -qx "$1" && cloud_nodes id ended | grep -qx "$1"
}
cloud_fault notice node=node0 seconds=4
like "$(metadata node0 meta-data/spot/instance-action -H "$token")" '"terminate".* 200' \
    'notice: the notice is announced'
ok 'notice: the instance is terminated' wait_for 20 ended "$id"
id=$(cloud_node node1 id)
cloud_fault poweroff node=node1
ok 'poweroff ends the instance' wait_for 20 ended "$id"
id=$(cloud_node odd id)
cloud_fault kill node=odd
ok 'kill ends it at once' wait_for 5 ended "$id"
id=$(cloud_node tight id)
cloud_fault freeze node=tight
cloud_api TerminateInstances us-east-1 InstanceId.1="$id" >out/end.xml
ok 'a frozen node can be terminated' wait_for 5 ended "$id"
cloud_api GetConsoleOutput us-east-1 InstanceId="$id" >out/console.xml
like "$(grep -o '<output>[^<]*' out/console.xml | cut -d'>' -f2 | base64 -d)" 'systemd' \
    'the console output of a terminated node can be read'
is "$(cloud_instances)" "$(cloud_node dead id)" 'one instance runs: the mute one'
cloud_stop
is "$(cloud_left)" '' 'nothing is left'
done_testing
