# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# cloud.sh: a cloud of the test's own, for a script that sourced lib.sh:
#
#     source "$SRC/tests/cloud/cloud.sh" || exit 1
#     cloud_start "$@"                      # first of all; runs the script again in namespaces
#     cloud_fault capacity zone=us-east-1a  # see cloud_fault
#     cloud_run terraform apply …           # with the environment that reaches this cloud only
#     cloud_stop                            # also at the end of the script, however it ends
#
# Terraform and the AWS provider (or dtctl) talk to shim.py, which has moto in it. All Terraforms
# of a script share one provider (provider.py); in `CLOUD_PROVIDER=own cloud_run …` Terraform starts
# its own for `apply`, as it does outside of tests. Each instance that the API starts becomes a host
# that boots systemd, runs cloud-init on the user data that was sent, and can be logged in to at its
# addresses (lab, node.py). With CLOUD_INIT=own each stage imports cloud-init anew (stages.py).
# All of it lives in a process, mount and network namespace of the script, without a default route,
# and ends with it.
#
#     operator (this script)             bridge dtc0 ─┬─ node  10.77.…, 203.0.113.N
#       shim 4566, lab 4570                           └─ node …
#       10.77.255.254, 198.51.100.1

source "$SRC/tests/infra/terraform.sh"

CLOUD=$SRC/tests/cloud
CLOUD_SECONDS_MAX=30 # for anything of the cloud itself to start or to end
CLOUD_API=http://127.0.0.1:4566
CLOUD_LAB=http://127.0.0.1:4570
# shellcheck disable=SC2034 # for the scripts
CLOUD_OPERATOR=198.51.100.1/32
# Of OpenSSH, for logins with the key in `login`. The usual key exchange, sntrup761x25519, takes a
# tenth of a second of a processor.
# shellcheck disable=SC2034 # for the scripts
CLOUD_SSH=(-n -F none -i login -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5
    -o GlobalKnownHostsFile=none -o KexAlgorithms=curve25519-sha256)
CLOUD_PYTHON=$("$CLOUD/prepare" python)
CLOUD_IMAGE=$("$CLOUD/prepare" image)

# A missing program of the machine is a skip with its name; a missing result of `make setup` is a
# failure.
cloud_needs() {
    [ "${DTCTL_TEST_AWS-}" != off ] || skip_all 'switched off by DTCTL_TEST_AWS=off'
    [ "$(id -u)" -eq 0 ] || skip_all 'the test cloud needs root'
    command -v systemd-nspawn >/dev/null || skip_all 'the test cloud needs systemd-nspawn'
    if [ ! -x "$CLOUD_PYTHON" ] || [ ! -d "$CLOUD_IMAGE" ]; then
        result 0 'make setup has prepared the test cloud' ||
            diag "  wanted: $CLOUD_PYTHON and $CLOUD_IMAGE (or DTCTL_TEST_AWS=off)"
        done_testing
    fi
    [ "${1-}" = --api ] || terraform_needed
}

# cloud_start [--no-nodes|--api]: with these, what the API starts does not boot; with --api
# Terraform is not needed either.
cloud_start() {
    local lab=4570
    [ -n "${TEST_INSIDE-}" ] || cloud_sweep
    cloud_needs "${1-}"
    namespaces_enter "$@"
    unset "${!AWS_@}" "${!TF_@}" "${!http_proxy@}" "${!https_proxy@}" "${!HTTP@}"
    mkdir -p "$WORK/cloud"
    cloud_network
    CLOUD_PIDS=()
    CLOUD_ENV=(AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_EC2_METADATA_DISABLED=true
        AWS_ENDPOINT_URL="$CLOUD_API" TF_CLI_CONFIG_FILE="$WORK/terraform.rc" CHECKPOINT_DISABLE=1
        TF_IN_AUTOMATION=1)
    if [ -n "${1-}" ]; then
        lab=0
    else
        cloud_daemon lab "$CLOUD_PYTHON" "$CLOUD/lab" "$TEST_INSIDE" $lab 4566 \
            "$CLOUD_IMAGE" "$(cloud_disk)"
    fi
    cloud_daemon shim "$CLOUD_PYTHON" "$CLOUD/shim.py" 4566 $lab "$WORK/cloud/calls.jsonl"
    [ "${1-}" = --api ] || cloud_provider
    cloud_waits $CLOUD_API/_shim/ready
    [ $lab = 0 ] || cloud_waits $CLOUD_LAB/ready
}

# A Terraform with a shared provider, which `init` finds there: to install one it would read 700 MB,
# for the checksum. infra_valid.t, plugin_cache.t and `CLOUD_PROVIDER=own` do install one.
cloud_provider() {
    terraform_provider "$WORK/cloud/provider" "${CLOUD_ENV[@]}" || return 0
    CLOUD_PIDS+=("$TERRAFORM_PROVIDER_PID")
    mkdir -p "$WORK/cloud/bin"
    cat >"$WORK/cloud/bin/${TERRAFORM##*/}" <<-END
		#!/bin/sh
		for word; do # the command is the first that is no option
		    case \$word in -*) ;; *) break ;; esac
		done
		case "\${CLOUD_PROVIDER-} \$word" in
		'own init' | 'own apply') ;;
		*) export TF_REATTACH_PROVIDERS="\$(cat '$WORK/cloud/provider/attach')" ;;
		esac
		exec '$TERRAFORM' "\$@"
	END
    chmod +x "$WORK/cloud/bin/${TERRAFORM##*/}"
}

cloud_waits() { # URL
    wait_for $CLOUD_SECONDS_MAX curl -fsS -o "$WORK/out/ready" "$1" ||
        bail_out "the test cloud does not start: $1 does not answer (logs in $WORK/cloud)"
}

cloud_network() {
    local net
    ip link add dtc0 type bridge
    ip link set dtc0 up
    ip addr add 10.77.255.254/32 dev dtc0
    ip addr add 198.51.100.1/32 dev dtc0
    for net in 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16; do
        ip route add $net dev dtc0 src 10.77.255.254
    done
    ip route add 203.0.113.0/24 dev dtc0 src 198.51.100.1
}

# Where the nodes' own files go: below $WORK, or in memory where an overlay cannot be stacked on it.
cloud_disk() {
    local disk=$WORK/cloud/nodes probe=$WORK/cloud/probe
    mkdir -p "$disk" "$probe"/{low,up,work,root}
    if mount -t overlay -o "lowerdir=$probe/low,upperdir=$probe/up,workdir=$probe/work" probe \
        "$probe/root" 2>/dev/null; then
        umount "$probe/root"
    else
        mount -t tmpfs -o size=2g dtctl-nodes "$disk"
    fi
    rm -rf "$probe"
    echo "$disk"
}

cloud_daemon() { # NAME COMMAND…
    local name=$1
    shift
    "$@" >"$WORK/cloud/$name.log" 2>&1 </dev/null &
    CLOUD_PIDS+=($!)
    disown
}

# cloud_run COMMAND…: runs it as an operator with credentials for this cloud.
cloud_run() {
    env "${CLOUD_ENV[@]}" PATH="$WORK/cloud/bin:$PATH" "$@"
}

# cloud_diag: after a failure, the last words of what was run, and what went wrong in the cloud:
# what it complains of, and how nodes that ended by themselves did.
# shellcheck disable=SC2154 # run sets out and err
cloud_diag() {
    diag "$(tail -n 3 <<<"$out")"
    diag "$(tail -n 8 <<<"$err")"
    diag "$({
        tail -qn 2 "$WORK"/cloud/{lab,shim}.log
        curl -fsS $CLOUD_LAB/nodes | "$CLOUD_PYTHON" -c '
import json, sys
for node in json.load(sys.stdin):
    print(node["name"], node["state"], node["ending"])
    if node["ending"] in ("guest", "start"):
        print(*open(node["folder"] + "/console", errors="replace").readlines()[-2:], sep="")'
    } 2>&1 | cut -c1-300)"
}

# cloud_json KEY=VALUE…: an object; every value is a string, as shim and lab take them.
cloud_json() {
    local pair text=
    for pair; do
        text+=",\"${pair%%=*}\":\"${pair#*=}\""
    done
    echo "{${text#,}}"
}

cloud_post() { # URL JSON
    curl -fsS -X POST -H 'Content-Type: application/json' --data-binary "$2" \
        --max-time $CLOUD_SECONDS_MAX "$1"
}

# cloud_fault KIND [KEY=VALUE…]: a fault of the API (shim_faults.py: capacity quota unsupported
# placement price deny throttle hang lost stale late ending), of a node that runs (lab: notice
# rebalance imds kill freeze thaw link-down link-up sshd-stop sshd-start host-key poweroff reboot;
# node=NAME), or with preset=NAME node=NAME of a node that is still to start (node.py). cloud_fault
# none forgets those of the API.
cloud_fault() {
    local kind=$1
    shift
    case $kind in
    none) curl -fsS -X DELETE -o /dev/null $CLOUD_API/_shim/fault ;;
    preset) cloud_post $CLOUD_LAB/preset "$(cloud_json "$@")" ;;
    capacity | quota | unsupported | placement | price | deny | throttle | hang | lost | stale | \
        late | ending)
        cloud_post $CLOUD_API/_shim/fault "$(cloud_json kind="$kind" "$@")"
        ;;
    *) cloud_post $CLOUD_LAB/fault "$(cloud_json kind="$kind" "$@")" ;;
    esac >/dev/null
}

# cloud_nodes [FIELD [STATE]]: a line for each node that the lab runs (or that is in another STATE).
# shellcheck disable=SC2120
cloud_nodes() {
    curl -fsS "$CLOUD_LAB/nodes/${1-name}/${2-running}"
}

cloud_node() { # NAME FIELD: of the node with this name that runs
    curl -fsS "$CLOUD_LAB/nodes/$2/running/$1"
}

# cloud_on NAME COMMAND…: runs a command in the node, as root, without the network.
cloud_on() {
    local leader
    leader=$(cloud_node "$1" leader)
    shift
    [ "${leader:-0}" != 0 ] || return 1
    nsenter -t "$leader" -m -u -i -n -p -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# The header that says which region and service a call is for; moto checks no signature.
cloud_scope() { # REGION SERVICE
    echo "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/$1/$2/aws4_request"
}

# cloud_api ACTION REGION [KEY=VALUE…]: asks the EC2 API itself; prints the answer's XML.
cloud_api() {
    local action=$1 region=$2 field
    local -a fields=()
    shift 2
    for field; do
        fields+=(--data-urlencode "$field")
    done
    curl -sS -H "$(cloud_scope "$region" ec2)" --data-urlencode "Action=$action" \
        --data-urlencode Version=2016-11-15 \
        "${fields[@]}" $CLOUD_API/
}

# cloud_s3 METHOD BUCKET[/KEY] [ARGUMENT OF CURL…]: asks the S3 API itself; fails as it does.
cloud_s3() {
    curl -fsS -X "$1" -H "$(cloud_scope us-east-1 s3)" "${@:3}" "$CLOUD_API/$2"
}

# cloud_objects BUCKET: the keys in it, one a line.
cloud_objects() {
    cloud_s3 GET "$1?list-type=2" | grep -o '<Key>[^<]*' | cut -d'>' -f2
}

# cloud_instances [REGION]: the ids of the instances that the API says are not ended, one a line.
# shellcheck disable=SC2120
cloud_instances() {
    cloud_api DescribeInstances "${1:-us-east-1}" Filter.1.Name=instance-state-name \
        Filter.1.Value.1=pending Filter.1.Value.2=running Filter.1.Value.3=stopping \
        Filter.1.Value.4=stopped | grep -o '<instanceId>[^<]*' | sort -u | cut -d'>' -f2
}

# cloud_calls ACTION [CODE]: how often it was asked for (and answered with this error).
cloud_calls() {
    grep -c "\"action\": \"$1\".*\"code\": \"${2-}" "$WORK/cloud/calls.jsonl"
}

# cloud_config CLUSTER [LINE OF [cluster]…] [-- LINE OF [aws]…]: writes dtctl.toml for this cloud.
cloud_config() {
    local name=$1 line
    shift
    {
        printf '[cluster]\nname = "%s"\nprovider = "aws"\n' "$name"
        while [ $# -gt 0 ] && [ "$1" != -- ]; do
            echo "$1"
            shift
        done
        printf '[aws]\nregion = "us-east-1"\n'
        for line in "${@:2}"; do
            echo "$line"
        done
    } >dtctl.toml
}

# cloud_things [REGION [TAG=VALUE]]: the remaining resources of dtctl besides instances (with that
# tag), one line each. An endpoint cannot outlive its VPC, but moto still lists it as deleted.
# shellcheck disable=SC2120
cloud_things() {
    local kind
    local -a filter=(Filter.1.Name=tag-key Filter.1.Value.1=dtctl-cluster)
    [ -z "${2-}" ] || filter+=("Filter.2.Name=tag:${2%%=*}" "Filter.2.Value.1=${2#*=}")
    for kind in Vpcs:vpcId Subnets:subnetId SecurityGroups:groupId KeyPairs:keyName \
        PlacementGroups:groupName NetworkInterfaces:networkInterfaceId Addresses:publicIp \
        LaunchTemplates:launchTemplateId Volumes:volumeId InternetGateways:internetGatewayId \
        RouteTables:routeTableId; do
        cloud_api "Describe${kind%:*}" "${1:-us-east-1}" "${filter[@]}" |
            grep -o "<${kind#*:}>[^<]*" | sort -u | sed "s/^<${kind#*:}>/${kind%:*} /"
    done
}

# cloud_left: prints what is left of nodes; nothing when all of it is gone.
cloud_left() {
    ip netns list
    ip -o link show | grep -o 'dv[0-9a-f]*@' || true
    grep -o '[^ ]*/cloud/nodes/[^ ]*/root' /proc/self/mounts || true
    pgrep -a systemd-nspawn || true
    find /sys/fs/cgroup -type d -path "*/dtctl-cloud-$TEST_INSIDE/*" 2>/dev/null
}

cloud_stop() {
    local pid
    [ -n "${TEST_INSIDE-}" ] && [ ${#CLOUD_PIDS[@]} -gt 0 ] || return 0
    [ ! -d "$WORK/cloud/nodes" ] || cloud_post $CLOUD_LAB/stop '{}' >/dev/null ||
        diag '  the lab could not end its nodes'
    for pid in "${CLOUD_PIDS[@]}"; do
        kill "$pid" 2>/dev/null
        wait_for $CLOUD_SECONDS_MAX test ! -e "/proc/$pid"
    done
    CLOUD_PIDS=()
    ip link delete dtc0
    umount "$WORK/cloud/nodes" 2>/dev/null || true
}

# cloud_up: the cluster that a test is about; without it there is nothing to test.
# shellcheck disable=SC2154 # run sets status
cloud_up() {
    run cloud_run dtctl up -y
    is "$status" 0 'up succeeds' && return
    cloud_diag
    done_testing
}

# cloud_roles: the roles and instance profiles of clusters.
cloud_roles() {
    local action
    for action in ListRoles ListInstanceProfiles; do
        curl -sS -H "$(cloud_scope us-east-1 iam)" -d "Action=$action" -d Version=2010-05-08 \
            -d PathPrefix=/dtctl/ $CLOUD_API/ |
            grep -oE '<(RoleName|InstanceProfileName)>[^<]*' | sort -u | tr -d '<' | tr '>' ' '
    done
}

# The end of a test: `down` leaves nothing in the account, and the cloud nothing on this machine.
# shellcheck disable=SC2154 # run sets status and err
cloud_down() {
    run cloud_run dtctl down -y
    is "$status" 0 'down succeeds' || cloud_diag
    is "$(cloud_instances)$(cloud_things)" '' 'nothing is left in the account'
    cloud_stop
    is "$(cloud_left)" '' 'nothing is left on this machine'
}

# Removes empty control groups of tests that were killed: nothing else of a test outlives it.
cloud_sweep() {
    local folder
    for folder in /sys/fs/cgroup/{,*/}dtctl-cloud-*; do
        if [ ! -d "$folder" ] || [ -e "/proc/${folder##*-}" ]; then continue; fi
        find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    return 0
}
