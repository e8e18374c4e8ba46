#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A test with a cloud that is killed, at any moment, leaves nothing on this machine: no process, no
# namespace, no mount; and the control groups that are left empty go when the next one starts.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_needs --api

cat >victim.t <<'EOF2'
#!/usr/bin/env bash
source "$DTCTL_SRC/tests/lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
cloud_api RunInstances us-east-1 ImageId=ami-12345678 MinCount=1 MaxCount=1 InstanceType=c5.large \
    TagSpecification.1.ResourceType=instance TagSpecification.1.Tag.1.Key=Name \
    TagSpecification.1.Tag.1.Value=node0 >out/run.xml
wait_for 60 cloud_on node0 test -e /run/cloud-init
touch "$VICTIM_RUNS"
sleep 600
EOF2
chmod +x victim.t

groups() {
    find /sys/fs/cgroup -maxdepth 2 -type d -name "dtctl-cloud-$victim"
}
# shellcheck disable=SC2317 # called through wait_for
of_victim() { # processes whose command line has its folder, or that run in its control group
    pgrep -f "$folder|dtctl-cloud-$victim" || true
    find /sys/fs/cgroup -path "*/dtctl-cloud-$victim/*" -name cgroup.procs -exec cat {} + \
        2>/dev/null || true
}

export VICTIM_RUNS=$WORK/runs
env -u TEST_INSIDE -u TEST_WORK TMPDIR="$WORK" ./victim.t >victim.log 2>&1 &
victim=$!
ok 'a node runs' wait_for 90 test -e runs
folder=$(echo "$WORK"/dtctl-victim.*)
result "$(($(groups | wc -l) > 0))" 'a node has a control group'
kill -9 "$victim"
wait "$victim" 2>/dev/null
# shellcheck disable=SC2317 # called through wait_for
gone() {
    [ -z "$(of_victim)" ]
}
ok 'killed, no process of it is left' wait_for 10 gone
is "$(grep -c "$folder" /proc/self/mountinfo)" 0 'no mount is left'
is "$(ip netns list | grep -c '^i-')" 0 'no network namespace is left'
is "$(ip -o link show | grep -c 'dv[0-9a-f]*@\|dtc0')" 0 'no link is left'
# shellcheck disable=SC2317 # called through wait_for
swept() { # a group whose last process has only just been reaped may refuse to go at once
    cloud_sweep
    [ -z "$(groups)" ]
}
ok 'the next cloud removes its control groups' wait_for 10 swept
done_testing
