#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From the command to the moment the last rank has started, on two namespace hosts with real sshd:
# `dtctl train` on a cluster that is up, beside torchrun started on both hosts over ssh. The workers
# of both do the same: they print the time and end. Interleaved; median of REPEATS. Then a task that
# is skipped, because nothing has changed, with an input of FILES files, beside `dtctl version`.
source "${0%/*}/../tests/lib.sh"
hosts_up 2
REPEATS=5 FILES=10000
[ -n "$PYTHON" ] || { echo 'bench_start needs a python3 with torch in DTCTL_PYTHON' >&2; exit 1; }

hosts_config
run dtctl up
[ "$status" -eq 0 ] || { echo "up failed: $err" >&2; exit 1; }

now_ns() { date +%s%N; }
# Milliseconds from $1 (ns) to the latest of the stamps on standard input.
until_last_ms() {
    local start=$1
    grep -oE '[0-9]{19}' | sort -n | tail -n 1 |
        awk -v s="$start" '{ printf "%d\n", ($1 - s) / 1e6 }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

one_dtctl() {
    local start
    start=$(now_ns)
    dtctl train -- date +%s%N 2>/dev/null | until_last_ms "$start"
}

one_torchrun() {
    local start rank address
    address=$(host_address 1)
    start=$(now_ns)
    for rank in 0 1; do
        ssh_to $((rank + 1)) "$PYTHON -m torch.distributed.run --nnodes 2 --nproc-per-node 1 \
            --node-rank $rank --master-addr $address --master-port 29511 --no-python date +%s%N" \
            >"torchrun.$rank" 2>/dev/null &
    done
    wait
    cat torchrun.0 torchrun.1 | until_last_ms "$start"
}

for _ in $(seq "$REPEATS"); do
    one_dtctl >>dtctl.ms
    one_torchrun >>torchrun.ms
done
ours=$(median <dtctl.ms) theirs=$(median <torchrun.ms)
printf '{"bench":"start","what":"train on 2 hosts over SSH until the last rank has started"'
printf ',"dtctl_ms":%d,"torchrun_ms":%d,"ratio":%s,"repeats":%d}\n' "$ours" "$theirs" \
    "$(awk -v a="$theirs" -v b="$ours" 'BEGIN { printf "%.1f", a / b }')" "$REPEATS"

mkdir data && (cd data && seq "$FILES" | split -l 1 -a 3 -)
skipped() { dtctl train --if-changed --input data=data -- true; }
ms_of() { # COMMAND…
    local start
    start=$(now_ns)
    "$@" >/dev/null 2>&1
    echo $((($(now_ns) - start) / 1000000))
}
skipped >/dev/null 2>&1
for _ in $(seq "$REPEATS"); do
    ms_of skipped >>skip.ms
    ms_of dtctl version >>version.ms
done
run skipped
printf '{"bench":"start","what":"a task that is skipped, %d files","dtctl_ms":%d' "$FILES" \
    "$(median <skip.ms)"
printf ',"version_ms":%d,"repeats":%d}\n' "$(median <version.ms)" "$REPEATS"
{
    like "$err" 'is reused, nothing has changed' 'the task was skipped'
    ok 'both started on both hosts' test "$ours" -gt 0 -a "$theirs" -gt 0
    done_testing
} >&2
