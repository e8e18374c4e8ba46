#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Evidence of dtrun about a worker's end beyond its status: a worker in a cgroup with little memory
# is killed by the kernel, and the report says so; and the process that holds a GPU of the next
# round.
# Functions are called by name, texts are expanded by workers:
# shellcheck disable=SC2016,SC2317
source "${0%/*}/../lib.sh"

# A memory cgroup of this test's own, of version 2 or 1, with a limit of 96 MB.
limit=$((96 << 20)) group=
for base in /sys/fs/cgroup /sys/fs/cgroup/memory; do
    if [ ! -e "$base/cgroup.procs" ] || ! mkdir "$base/dtctl-test.$$" 2>/dev/null; then continue; fi
    group=$base/dtctl-test.$$
    # Never swapped out, where that can be said.
    [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
    for file in memory.max memory.limit_in_bytes; do
        [ -e "$group/$file" ] && echo $limit >"$group/$file" && break 2
    done
    rmdir "$group"
    group=
done
hosts_down() { [ -z "$group" ] || rmdir "$group"; }
limited() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }

if [ -n "$group" ]; then
    run limited timeout 60 dtrun --standalone --nproc-per-node 2 --no-python sh -c '
    [ "$RANK" = 0 ] && exec sleep 600
    exec tail /dev/zero'
    is "$status" 1 'a worker that needs more memory than there is ends the run'
    like "$err" 'rank      : 1 ' 'the report names the killed rank'
    like "$err" 'Signal 9 \(SIGKILL\)' 'the report names SIGKILL'
    like "$err" 'evidence  : out of memory' "the report says 'out of memory'" || diag "$err"
    like "$err" 'killed by SIGKILL: out of memory' "the reason of the run says 'out of memory'"
    # The log has process ids of the first namespace (PROC_PID_INIT_INO of the kernel's proc_ns.h).
    if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] &&
        dd if=/dev/kmsg iflag=nonblock bs=8192 count=1 of=/dev/null 2>/dev/null; then
        like "$err" 'the kernel killed it \(tail\) at [0-9.]+ MB, at a cgroup.s limit' \
            'the evidence has the process and its size'
    else
        skip 1 'the kernel log may not be read here'
    fi
    run limited timeout 60 dtrun --standalone --no-python sh -c 'tail /dev/zero; exit 3'
    like "$err" 'exitcode  : 3 .*evidence  : out of memory' 'a killed child of a worker is evidence'
    run limited timeout 60 dtrun --standalone --no-python sh -c 'kill -9 $$'
    like "$err" 'SIGKILL' 'a worker that is killed otherwise is reported as killed'
    unlike "$err" 'evidence' 'a worker killed by another process has no such evidence'
else
    skip 9 'no memory cgroup can be made here'
fi

# ---- GPUs are free before a restart -------------------------------------------------------------
# In a mount namespace of its own the machine has a driver and /dev/nvidia0, a plain file.
gpu_machine='mkdir dev && mount -t tmpfs t dev && mount -t tmpfs t /proc/driver &&
    mkdir /proc/driver/nvidia && for f in null zero random urandom; do
        : >"dev/$f" && mount --bind "/dev/$f" "dev/$f" || exit 1; done &&
    : >dev/nvidia0 && mount --rbind dev /dev'
if ! unshare --mount sh -c "$gpu_machine" 2>err.txt; then
    skip 4 "no such mounts can be made here: $(cat err.txt)"
    done_testing
fi
# A process of the run that is no child of its agent holds the GPU for $0 seconds; the worker fails
# once.
held=$gpu_machine'
    (TORCHELASTIC_RUN_ID=x exec sleep "$0" 3</dev/nvidia0) &
    until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.05; done
    dtrun --rdzv-id x --max-restarts 1 --no-python sh -c \
        "date +%s%N >>rounds; [ \$TORCHELASTIC_RESTART_COUNT = 1 ]"'
rmdir dev
run timeout 60 unshare --mount --pid --fork --kill-child --mount-proc sh -c "$held" 3
is "$status" 0 'a GPU of the last round is busy for a while: the next one waits'
waited=$((($(tail -n 1 rounds) - $(head -n 1 rounds)) / 1000000))
ok "the next round waits for the GPU ($waited ms)" test "$waited" -gt 2000
rmdir dev
run timeout 60 unshare --mount --pid --fork --kill-child --mount-proc sh -c "$held" 13
is "$status" 1 'a GPU that stays busy ends the run'
like "$err" '/dev/nvidia0 is still held by sleep \(pid [0-9]+\) of this run' \
    'the error names the process and the GPU'
done_testing
