#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers that do not get out of the kernel, for longer than
# TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT allows: one that waits for a vfork()ed child, which a
# signal ends, and some that write to a frozen file system, which none does; also under torchrun.
# Clock: how long a worker has been stuck.
# Texts are expanded by workers, functions are called by name:
# shellcheck disable=SC2016,SC2317
source "${0%/*}/../lib.sh"
PYTHON=${DTCTL_TEST_PYTHON:-$PYTHON}
export STUCK=$BUILD/release/tests/tools/stuck NAME=TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT
[ -x "$STUCK" ] || skip_all 'tests/tools/stuck is not built'
one() { run timeout 60 dtrun --standalone --no-python "$@"; }
state() { sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null; }

# ---- one that a signal ends ---------------------------------------------------------------------
one sh -c '"$STUCK" 2'
is "$status" 0 'without the variable a worker may stay in the kernel'
for value in 0 -1 soon; do
    run timeout 60 env "$NAME=$value" dtrun --standalone --no-python "$STUCK" 1
    is "$status" 0 "$NAME=$value sets no limit"
done
like "$err" "not a number and not used variable=$NAME value=soon" \
    'a value that is no number is reported'
export TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=1
one --nproc-per-node 2 sh -c '"$STUCK" 0.4; "$STUCK" 0.4; "$STUCK" 0.4; echo done'
is "$status $(paste -sd, <<<"$out")" '0 done,done' 'repeated shorter waits are no failure'
began=${EPOCHREALTIME/./}
one --max-restarts 3 --nproc-per-node 2 sh -c 'echo "$RANK"; [ "$RANK" = 0 ] || exec "$STUCK" 50
    exec sleep 50'
took=$((${EPOCHREALTIME/./} - began))
is "$status" 1 'a longer wait is a failure'
is "$(sort <<<"$out" | paste -sd,)" 0,1 'no worker is started again on this node'
like "$err" 'rank 1 \(pid [0-9]+\) .* uninterruptible sleep for [1-9]\.[0-9] s, in [a-z_?]+' \
    'the failure says which worker, for how long, and where in the kernel'
like "$err" 'rank +: 1 .*uninterruptible sleep' 'the report names the stuck rank as the cause'
unlike "$err" 'a killed process does not end' 'a worker that a signal ends is waited for'
ok 'long before it would have got out by itself' test $took -lt 25000000 || diag "$took us"

# ---- some that no signal ends -------------------------------------------------------------------
mounted='' device=''
freeze() { fsfreeze --freeze "$WORK/disk"; }
thaw() { fsfreeze --unfreeze "$WORK/disk"; }
take_down() { # frozen or not
    [ -z "$mounted" ] || thaw 2>/dev/null
    [ -z "$mounted" ] || umount "$WORK/disk" || umount --lazy "$WORK/disk"
    [ -z "$device" ] || losetup -d "$device"
    mounted='' device=''
}
at_end take_down # nothing can be removed from a file system that is frozen
TESTS=18
mkdir disk
truncate -s 8M image
if [ "$(id -u)" -ne 0 ] || ! device=$(losetup -f --show image); then
    device=''
    skip $TESTS 'no loop device here to freeze a file system on (needs root)'
    done_testing
fi
make_disk() { mkfs.ext4 -q "$device" && mount "$device" disk && mounted=1 && freeze; }
if ! make_disk >mount.log 2>&1; then
    skip $TESTS "no file system to freeze here: $(tail -n 1 mount.log)"
    done_testing
fi
gone() { [[ $(state "$1") =~ ^Z?$ ]]; } # its last parent may be slow to reap it
dies() { # SIGKILL waits for it
    [ $((0x$(awk '/^SigPnd/ {print $2}' "/proc/$1/status") & 256)) -ne 0 ]
}
parent() { sed 's/.*) . //; s/ .*//' "/proc/$1/stat" 2>/dev/null; }
export PIDS=$WORK/pids

: >"$PIDS"
one --max-restarts 3 --nproc-per-node 2 sh -c 'echo "$RANK"; [ "$RANK" = 0 ] || {
        echo $$ >>"$PIDS"
        exec dd if=/dev/zero of=disk/full bs=1k count=1; }
    exec sleep 50'
worker=$(cat "$PIDS") guard=$(parent "$(cat "$PIDS")")
is "$status" 1 'a worker that writes to a frozen file system fails'
is "$(sort <<<"$out" | paste -sd,)" 0,1 'no worker is started again'
like "$err" "pid $worker\) has been in uninterruptible sleep" 'the log names the stuck process'
like "$err" "a killed process does not end pid=$worker in=[a-z_]+ guard=$guard" \
    'dtrun ends without it, and says what stays behind'
is "$(state "$worker")" D 'the worker is still there'
ok 'the stuck worker is killed' dies "$worker"
is "$(cat "/proc/$guard/comm")" dtrun-guard 'the worker is below its guard'
thaw
ok 'the worker ends when the kernel releases it' wait_for 10 gone "$worker"
ok 'the guard ends' wait_for 10 gone "$guard"
ok 'nothing was written' test ! -s disk/full

freeze
: >"$PIDS"
one sh -c 'setsid sh -c "echo \$\$ >\"$PIDS\"; exec dd if=/dev/zero of=disk/full bs=1k count=1" &
    until [ -s "$PIDS" ]; do sleep 0.05; done; sleep 0.5; echo trained'
stray=$(cat "$PIDS") guard=$(parent "$(cat "$PIDS")")
is "$status $out" '0 trained' 'a stuck process of a worker does not fail a finished training' ||
    diag "$err"
is "$(state "$stray")" D 'though it is still there'
like "$err" "a killed process does not end pid=$stray " 'the log names the stuck process'
thaw
ok 'the stuck process ends when the kernel releases it' wait_for 10 gone "$stray"
ok 'the guard ends' wait_for 10 gone "$guard"

# Of two nodes one continues.
freeze
: >"$PIDS"
port=$((20000 + RANDOM % 10000))
node() { # NUMBER
    timeout 60 dtrun --nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port" \
        --rdzv-id x --rdzv-conf "is_host=$(($1 == 0)),last_call_timeout=20" --max-restarts 3 \
        --no-python \
        sh -c 'if [ "$WORLD_SIZE" = 2 ] && [ "$GROUP_RANK" = 1 ]; then
                echo $$ >"$PIDS"
                exec dd if=/dev/zero of=disk/full bs=1k count=1
            fi
            [ "$WORLD_SIZE" = 2 ] || { echo "alone after $TORCHELASTIC_RESTART_COUNT"; exit; }
            exec sleep 50' >"node$1.out" 2>"node$1.err"
}
node 0 &
first=$!
node 1 &
second=$!
wait $second
is $? 1 'the node with the stuck worker fails' || diag "$(cat node?.err)"
wait $first
is "$? $(cat node0.out)" '0 alone after 0' 'the other node continues' ||
    diag "$(cat node?.err)"
worker=$(cat "$PIDS")
thaw
ok 'nothing is left of it in the end' wait_for 10 gone "$worker"

# ---- torchrun, for comparison -------------------------------------------------------------------
take_down
if ! "${PYTHON:-false}" -c 'import torch.distributed.elastic.utils.process_state' 2>/dev/null; then
    skip 1 'no Python with a PyTorch that has this here (make setup, or set DTCTL_TEST_PYTHON)'
    done_testing
fi
cp "$STUCK" sleeper # its child outlives torchrun, and is found by that name
run timeout 120 "$PYTHON" -m torch.distributed.run --standalone --max-restarts 3 --no-python \
    "$WORK/sleeper" 60
like "$status $err" '^0 .*stuck in uninterruptible sleep .*UNHEALTHY' \
    'torchrun stops such a worker, starts none again, and ends with 0'
for pid in $(pgrep -f "^$WORK/sleeper 60"); do kill "$pid"; done
done_testing
