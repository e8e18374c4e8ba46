#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nodes that really boot: systemd, cloud-init with the user data that Terraform renders, sshd, the
# metadata service. Ready, host key, lease, idle, spot notice, reboot.
# shellcheck disable=SC2317 # functions that wait_for calls
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
export CLOUD_INIT=own # of the image, not stages.py
source "$SRC/tests/cloudinit/render.sh" || exit 1
cloud_start "$@"

ssh-keygen -q -t ed25519 -N '' -f login
ssh-keygen -q -t ed25519 -N '' -f host
cloud_api CreateVpc us-east-1 CidrBlock=10.77.0.0/16 >out/vpc.xml
cloud_api CreateSubnet us-east-1 VpcId="$(grep -om1 'vpc-[0-9a-f]*' out/vpc.xml)" \
    CidrBlock=10.77.0.0/24 AvailabilityZone=us-east-1a >out/subnet.xml
subnet=$(grep -om1 'subnet-[0-9a-f]*' out/subnet.xml)

# launch NAME ADDRESS MARKET VALUE…: starts an instance with user data of these values (render).
launch() {
    render node_name="$1" ssh_public_key=@login.pub host_key_private=@host \
        host_key_public=@host.pub config_hash=abc123 "${@:4}" >"out/$1.yaml" ||
        bail_out 'user data cannot be rendered'
    cloud_api RunInstances us-east-1 ImageId=ami-12345678 MinCount=1 MaxCount=1 \
        InstanceType=c5.large SubnetId="$subnet" PrivateIpAddress="$2" \
        InstanceInitiatedShutdownBehavior=terminate UserData="$(rendered_packed)" \
        MetadataOptions.HttpTokens=required TagSpecification.1.ResourceType=instance \
        TagSpecification.1.Tag.1.Key=Name TagSpecification.1.Tag.1.Value="$1" \
        ${3:+InstanceMarketOptions.MarketType="$3"} >"out/$1.xml"
}
cloud_fault preset node=tight preset=degraded
cloud_fault preset node=broken preset=cloud-init-fails
began=$EPOCHREALTIME
launch node0 10.77.0.10 spot idle_s=0
launch brief 10.77.0.11 '' ttl_s=90 idle_s=0
launch idle 10.77.0.12 '' closed_metadata=false
launch tight 10.77.0.13 ''
launch broken 10.77.0.14 ''

known=host.pub # what the operator knows of the hosts' keys
options=("${CLOUD_SSH[@]}" -o LogLevel=ERROR)
on() { # ADDRESS COMMAND: as the user, over SSH
    sed "s/^/$1 /" "$known" >"known.$1"
    # shellcheck disable=SC2029 # the variables are this side's
    ssh "${options[@]}" -o UserKnownHostsFile="known.$1" "ubuntu@$1" "${@:2}"
}
node0() {
    on 10.77.0.10 "$@"
}
# Until the node listens no login is tried, and the node itself waits for what is to come: each
# login takes more of a processor than the check.
listens() { # ADDRESS
    timeout 2 bash -c ": <>/dev/tcp/$1/22"
}
await() { # ADDRESS SECONDS CONDITION
    on "$1" "i=0
        until { $3; }; do [ \$i -lt $((5 * $2)) ] || exit 1; i=\$((i + 1)); sleep 0.2; done"
}
ready() { # ADDRESS
    wait_for 120 listens "$1" && wait_for 60 await "$1" 120 'test -e /var/lib/dtctl/ready'
}
first_login() {
    wait_for 120 listens 10.77.0.10 && wait_for 60 node0 true
}
done_booting() {
    node0 'timeout 60 cloud-init status --wait | grep -q "status: done"'
}
since() { # prints the milliseconds since the nodes were asked for
    echo $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
}

# ---- ready ---------------------------------------------------------------------------------------
ok 'sshd presents the key that was given' first_login
diag "first login after $(since) ms"
ok 'the node gets ready' ready 10.77.0.10
diag "ready after $(since) ms"
state=$(node0 cat /var/lib/dtctl/ready)
is "$(head -n 2 <<<"$state")" 'config_hash=abc123
status=ok' "the node has its configuration and the status 'ok'" || diag "$state"
is "$(grep '^check\.' <<<"$state" | grep -v '=ok$')" '' 'every check has passed'
like "$state" 'check\.lease=ok.*check\.metadata=ok' 'lease and metadata service are checked'
ok 'cloud-init ends without an error' done_booting
is "$(node0 hostname)" node0 'the node has its host name'
is "$(node0 getent hosts node0 | awk '{ print $1 }')" 10.77.0.10 \
    "the host name resolves to the node's address"
is "$(node0 'systemctl is-enabled apt-daily.timer apt-daily-upgrade.timer' | xargs)" \
    'masked masked' 'no timer takes the package lock'
is "$(node0 'systemctl --failed --no-legend; sudo -n sshd -T | grep -i ^passwordauth')" \
    'passwordauthentication no' 'no unit failed, and no password is taken'
like "$(node0 'cat /etc/security/limits.d/90-dtctl.conf')" 'memlock unlimited' 'limits are set'
like "$(node0 'cat /var/log/cloud-init-output.log')" 'finished' 'the user may read what happened'

# ---- the metadata service ------------------------------------------------------------------------
reach='bash -c "exec 3<>/dev/tcp/169.254.169.254/80"'
run node0 "$reach"
result "$((status != 0))" 'metadata is closed to the user'
run node0 "sudo -n $reach"
is "$status" 0 'metadata is open to root'
ok 'a second node gets ready' ready 10.77.0.12
run on 10.77.0.12 "$reach"
is "$status" 0 'metadata is open where it was not closed'
# A user stays logged in; the idle limit is one second.
(exec ssh "${options[@]}" -o UserKnownHostsFile=known.10.77.0.12 ubuntu@10.77.0.12 \
    'echo 1 >/var/lib/dtctl/idle_s; exec sleep 600') &
visitor=$!

# ---- the host key --------------------------------------------------------------------------------
rotate='sudo -n /usr/local/lib/dtctl/rotate-host-key'
body=$(sed -n 3p host) # a line of the private key that came with the user data
# The journal has the command line of this very search.
copies="sudo -n grep -rlF --exclude-dir=journal '$body' /etc /run /var/lib 2>/dev/null"
like "$(node0 "$copies")" ssh_host 'the key that came by user data is on the node'
node0 "$rotate" >new.pub
like "$(cat new.pub)" '^ssh-ed25519 [^ ]+ node0$' 'rotation prints one public key'
run node0 true
result "$((status != 0))" 'the old one is not presented any more'
known=new.pub
is "$(node0 "$rotate")" "$(cat new.pub)" 'the new one is, and rotating again changes nothing'
is "$(node0 "$copies")" '' 'no copy of the old one is left'

# ---- the lease -----------------------------------------------------------------------------------
lease=/var/lib/dtctl/lease
lasts=$(($(node0 cat $lease) - ${began%.*}))
result "$((lasts > 43200 - 60 && lasts < 43200 + 60))" 'the lease counts from boot' || diag "$lasts"
run node0 'mv /tmp/x /var/lib/dtctl/ready 2>&1 || rm -f /var/lib/dtctl/ready'
ok 'the user cannot replace what is root'"'"'s' ready 10.77.0.10
node0 "echo \$((\$(date +%s) + 300)) >$lease.new && mv $lease.new $lease"
notice=/run/dtctl/notice
ok 'five minutes: the end is announced' await 10.77.0.10 30 "grep -q kind=lease $notice"
later=$((EPOCHSECONDS + 20000))
node0 "echo $later >$lease"
ok 'extended: the notice is taken back' await 10.77.0.10 30 "! test -e $notice"
node0 "echo '\$(touch /tmp/pwned)' >$lease"

# ---- reboot --------------------------------------------------------------------------------------
written=$(node0 stat -c %Y /var/lib/dtctl/ready)
booted=$(node0 'systemctl show -p UserspaceTimestamp --value')
cloud_fault reboot node=node0
booted_again() {
    listens 10.77.0.10 &&
        node0 "[ \"\$(systemctl show -p UserspaceTimestamp --value)\" != '$booted' ]"
}
back() {
    wait_for 120 booted_again && ready 10.77.0.10
}
ok 'reboot: the node is ready again, with the same host key' back
is "$(node0 grep status= /var/lib/dtctl/ready)" 'status=ok' 'nothing is wrong'
result "$(($(node0 stat -c %Y /var/lib/dtctl/ready) > written))" 'the ready file is of this boot'
run node0 "$reach"
result "$((status != 0))" 'metadata is still closed'
is "$(node0 hostname)" node0 'the name stays'
is "$(node0 "sudo -n cat /var/lib/dtctl/own/lease; ls /tmp/pwned 2>&1 | grep -c cannot")" "$later
1" 'the lease holds, whatever is in its file'
is "$(node0 "$rotate")" "$(cat new.pub)" 'the key needs no rotation'
is "$(node0 'sudo -n journalctl -b | grep -c "ordering cycle"')" 0 'no unit waits for itself'
ok 'cloud-init ends without an error' done_booting
ok 'no copy of the first key is left' await 10.77.0.10 30 "[ -z \"\$($copies)\" ]"

# ---- a node with hardly any disk -----------------------------------------------------------------
known=host.pub
ok 'a node where something is wrong gets ready, too' ready 10.77.0.13
like "$(on 10.77.0.13 cat /var/lib/dtctl/ready)" \
    'status=degraded.*check\.disk=[0-9]+ MB free on /' 'the ready file names the failed check'

shutdown_is_due() {
    on 10.77.0.14 grep -q MODE=poweroff /run/systemd/shutdown/scheduled
}
ok 'a node where setup cannot even start will not stay' wait_for 120 shutdown_is_due

# ---- spot ----------------------------------------------------------------------------------------
ended() { # NAME: on this machine and in the API
    cloud_nodes name ended | grep -qx "$1" &&
        ! cloud_instances | grep -qx "$(grep -om1 'i-[0-9a-f]*' "out/$1.xml")"
}
known=new.pub
cloud_fault rebalance node=node0
ok 'a rebalance recommendation is noticed' await 10.77.0.10 30 "grep -q kind=rebalance $notice"
cloud_fault notice node=node0 seconds=25
ok 'the interruption is noticed' \
    await 10.77.0.10 20 "grep -q kind=spot-terminate $notice"
announced=$(node0 cat $notice)
like "$announced" 'deadline=[0-9]+.*node=node0' 'the notice has its deadline and node'
left=$(($(sed -n 's/^deadline=//p' <<<"$announced") - EPOCHSECONDS))
result "$((left > 0 && left <= 25))" 'the notice has the time that is left' || diag "$left s"

# ---- ends ----------------------------------------------------------------------------------------
known=host.pub
ok 'a lease of 90 s ends the instance' wait_for 120 ended brief
is "$(on 10.77.0.12 'ls /run/dtctl/notice 2>&1 | grep -c "No such"')" 1 \
    'a node in use does not end'
kill "$visitor"
ok 'an idle node ends' wait_for 120 ended idle
ok 'the spot instance is gone' wait_for 40 ended node0
is "$(paste -d' ' <(cloud_nodes name ended) <(cloud_nodes ending ended) | sort | paste -sd,)" \
    'brief guest,idle guest,node0 spot' 'two ended themselves, one was taken'
cloud_stop
is "$(cloud_left)" '' 'nothing is left'
done_testing
