#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of a node, on device trees and tools of several kinds of machines, and the readiness
# file that they produce.
# shellcheck disable=SC2016 # the inner shells expand them
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/scripts.sh" || exit 1
bus=$DTCTL_ROOT/sys/bus/pci/devices

pci() { # VENDOR CLASS DEVICE COUNT
    local i
    for ((i = 0; i < $4; i++)); do
        mkdir -p "$bus/$1-$3-$i"
        echo "$1" >"$bus/$1-$3-$i/vendor"
        echo "$2" >"$bus/$1-$3-$i/class"
        echo "$3" >"$bus/$1-$3-$i/device"
    done
}
machine() { # GPUS NVSWITCHES EFAS EFA_DRIVERS: a new machine
    rm -rf "${DTCTL_ROOT:?}/sys"
    mkdir -p "$bus"
    pci 0x8086 0x060000 0x1237 1
    pci 0x10de 0x030200 0x2330 "$1"
    pci 0x10de 0x068000 0x22a3 "$2"
    pci 0x1d0f 0x020000 0xec20 1
    pci 0x1d0f 0x020000 0xefa2 "$3"
    mkdir -p "$DTCTL_ROOT/sys/class/infiniband"
    local i
    for ((i = 0; i < $4; i++)); do infiniband "rdmap$i" 0x1d0f; done
}
infiniband() { # NAME VENDOR: an adapter with a driver
    mkdir -p "$DTCTL_ROOT/sys/class/infiniband/$1/device"
    echo "$2" >"$DTCTL_ROOT/sys/class/infiniband/$1/device/vendor"
}
fabric() { # STATE…: of each GPU, as the driver says it
    local state text='    Fabric Manager : x\n'
    for state; do
        text+="    GPU Operation Mode\\n        Current                 : N/A\\n"
        text+="    Fabric\\n        State                   : $state\\n"
        text+="        Status                  : Success\\n"
    done
    fake nvidia-smi "case \"\$*\" in -q) printf '$text' ;; esac"
}
gpus() { # N [ROW…]: a driver that shows N of them, and rows "index, remap pending, errors"
    local i list=
    for ((i = 0; i < $1; i++)); do list+="echo 'GPU $i: NVIDIA H100 (UUID: GPU-$i)';"; done
    fake nvidia-smi "case \"\$*\" in -L) $list :;; --format*) printf '%s\\n' $(printf "'%s' " \
        "${@:2}");; esac"
}
checked() { # FUNCTION
    within checks "$1"
}
fresh_node
node_conf node=node0 user=ubuntu closed_metadata=true config_hash=abc
fake dmesg
fake systemd-detect-virt 'exit 1'

machine 0 0 0 0
is "$(checked check_gpu)$(checked check_fabric)" 'gpu ok 0' 'no GPU is no fault'
machine 8 4 32 32
is "$(PATH=$WORK/bin:/usr/bin:/bin checked check_gpu)" \
    'gpu failed 8 on the bus, and no driver (nvidia-smi is missing)' 'GPUs without a driver are'
gpus 8
is "$(checked check_gpu)" 'gpu ok 8' 'all GPUs that are on the bus are counted'
like "$(calls)" 'nvidia-smi -pm 1' 'persistence mode is set'
gpus 7
like "$(checked check_gpu)" '^gpu failed the driver shows 7 of 8' \
    'a GPU that is missing is a failure'
fake nvidia-smi 'sleep 60'
like "$(within checks 'query_seconds_max=1; check_gpu')" '^gpu failed the driver shows 0 of 8' \
    'a driver that hangs is reported'
gpus 8 '0, No, 0' '1, No, 0'
is "$(checked check_gpu_health)" 'gpu_health ok' 'a healthy GPU is accepted'
gpus 8 '0, No, 0' '3, Yes, 0' '5, No, 12'
like "$(checked check_gpu_health)" \
    '^gpu_health degraded GPU 3 waits for a row remap; GPU 5 had 12 uncorrected errors;' \
    'a GPU that waits for a row remap is degraded'
gpus 2 '0, [N/A], [N/A]' 'garbage'
is "$(checked check_gpu_health)" 'gpu_health ok' 'a GPU that does not count errors is healthy'
fake dmesg 'echo "[ 9.1] NVRM: Xid (PCI:0000:10:1c): 79, pid=1, GPU has fallen off the bus."'
like "$(checked check_gpu_health)" 'kernel says Xid \(PCI:0000:10:1c\): 79' \
    "a GPU with an Xid in the kernel's log is degraded"
fake dmesg

# Where a socket starts sshd (Ubuntu 24.04), the service is not active before the first login:
# reload would fail there, and try-reload-or-restart does nothing.
fake systemctl '[ "$1" = try-reload-or-restart ]'
step=$(sed -n '/^setup_sshd()/,/^}/p' "$NODE_FILES/setup")
ok 'an sshd that has not started is no problem' within node.sh "$step; setup_sshd"
like "$(calls)" 'systemctl try-reload-or-restart ssh.service' 'sshd reads the new settings'

fake sysctl
mkdir -p "$DTCTL_ROOT/etc/sysctl.d"
step=$(sed -n '/^setup_sysctl()/,/^}/p' "$NODE_FILES/setup")
ok 'the settings of the kernel are written' within node.sh "$step; setup_sysctl"
is "$(grep -cE '^net\.core\.somaxconn|ptrace_scope' "$DTCTL_ROOT/etc/sysctl.d/90-dtctl.conf")" 1 \
    'no setting opens the processes of a login to each other (ptrace_scope)'
like "$(calls)" 'sysctl .*/etc/sysctl.d/90-dtctl.conf' 'the kernel reads the settings'

fake systemctl '[ "$1" != -q ]'
like "$(checked check_fabric)" '^fabric failed nvidia-fabricmanager' \
    'a machine with NVSwitch needs its manager'
like "$(calls)" 'systemctl start nvidia-fabricmanager' 'the fabric manager was started'
fake systemctl
is "$(checked check_fabric)" 'fabric ok' 'NVSwitch with its manager is ok'
is "$(checked check_efa)" 'efa ok 32' 'EFA: all interfaces have a driver'
machine 8 4 32 30
like "$(checked check_efa)" '^efa degraded 30 of 32 have a driver' \
    'EFA: some interfaces have no driver'
fabric Completed Completed
is "$(checked check_fabric)" 'fabric ok' 'GPUs that have joined the fabric of their switches are ok'
fabric Completed 'In Progress'
is "$(within checks 'fabric_seconds_max=1; check_fabric')" \
    'fabric failed GPUs have not joined the fabric (In Progress), CUDA will not start' \
    'a GPU that does not join the fabric of its switches is a failure'

# B200: switches are not on the bus, and adapters that manage them are beside the EFAs.
machine 8 0 8 8
for i in 0 1 2 3; do infiniband mlx5_$i 0x15b3; done
is "$(checked check_efa)" 'efa ok 8' 'EFAs are counted without other adapters'
rm -r "$DTCTL_ROOT/sys/class/infiniband/rdmap7"
like "$(checked check_efa)" '^efa degraded 7 of 8 have a driver' \
    'another adapter does not stand in for an EFA without a driver'
fabric Completed Completed
: >"$WORK/calls"
is "$(checked check_fabric)" 'fabric ok' 'GPUs that have joined a fabric without switches are ok'
fabric 'In Progress' 'In Progress'
like "$(within checks 'fabric_seconds_max=1; check_fabric')" '^fabric failed .*(In Progress)' \
    'GPUs that do not join a fabric are a failure, also without switches on the bus'
like "$(calls)" 'systemctl start nvidia-fabricmanager' 'the fabric manager was started for them'
fabric N/A N/A
is "$(checked check_fabric)" '' 'GPUs without a fabric are not checked for it'
machine 1 0 0 0
fabric 'In Progress'
is "$(checked check_fabric)" '' 'a single GPU without a switch needs no fabric'
is "$(checked check_efa)" 'efa ok 0' 'no EFA is no fault'

fake timedatectl 'echo yes'
is "$(checked check_clock)" 'clock ok' 'the clock is right'
fake timedatectl 'echo no'
is "$(within checks 'clock_wait_s_max=1; check_clock')" 'clock degraded not synchronised' \
    'a clock that is not synchronized is degraded'
fake df 'printf "Filesystem 1M Used Avail\n/dev/x 9 9 100 99%% /\n"'
is "$(checked check_disk)" 'disk degraded 100 MB free on /' 'the disk is full'
rm "$WORK/bin/df"
for state in failed inactive unknown; do
    fake systemctl "echo $state"
    is "$(within checks 'check_unit lease dtctl-lease.service failed')" \
        "lease failed dtctl-lease.service is $state" "a lease unit that is $state is reported"
done

# ---- the readiness file --------------------------------------------------------------------------
fake timedatectl 'echo yes'
fake systemctl '[ "$1" != cat ] || exit 1; echo active'
ready=$DTCTL_ROOT/var/lib/dtctl/ready
boot() {
    "$NODE_FILES/boot" >"$WORK/out/boot.log" 2>&1
}
machine 1 0 0 0
gpus 1
boot
is "$(cat "$ready")" 'config_hash=abc
status=ok
check.scratch=ok
check.gpu=ok
count.gpu=1
check.gpu_health=ok
check.efa=ok
count.efa=0
check.disk=ok
check.clock=ok
check.lease=ok
check.idle=ok
check.metadata=ok' 'a node where all is well is ready'
machine 1 0 2 0
boot
like "$(cat "$ready")" 'status=degraded.*check.efa=0 of 2 have a driver' \
    'the node is marked as degraded'
gpus 0
boot
like "$(cat "$ready")" 'status=failed.*check.gpu=the driver shows 0 of 1' 'failed beats degraded'
mkdir -p "$DTCTL_ROOT/var/lib/dtctl/own"
printf 'setup: one\nsetup: two\n' >"$DTCTL_ROOT/var/lib/dtctl/own/setup.problems"
machine 0 0 0 0
boot
like "$(cat "$ready")" 'status=degraded.*check.setup=setup: one setup: two' \
    'an earlier failure is kept'
is "$(grep -cvE '^[a-z_.]+=[^=]' "$ready")" 0 'every line is KEY=VALUE'
done_testing
