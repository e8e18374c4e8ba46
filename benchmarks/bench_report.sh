#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl report of a run of 64 ranks with a million values: seconds, and bytes of the page; beside
# wc of the same lines, the floor. One JSON line.
set -euo pipefail
POINTS=${POINTS:-1000000} RANKS=${RANKS:-64} ROUNDS=${ROUNDS:-5}
work=$(mktemp -d "${TMPDIR:-/tmp}/bench_report.XXXXXX")
trap 'rm -rf "$work"' EXIT
export HOME=$work PATH=${DTCTL_BIN:-$PWD/bin}:$PATH
cd "$work"
dtctl -q up --nodes 1 >/dev/null
dtctl -q train --name bench --nproc-per-node 1 -- true >/dev/null
run=$(echo .dtctl/default/runs/bench-*)
awk -v made="$(date +%s)000" -v points="$POINTS" -v ranks="$RANKS" 'BEGIN {
    for (i = 0; i < points; i++)
        printf "{\"time_ms\":%.0f,\"node\":\"node0\",\"rank\":%d,\"name\":\"loss\",\"value\":%g}\n",
            made + i, i % ranks, 1 + i % 9
}' >"$run/metrics.jsonl"
dtctl -q down >/dev/null
seconds() { # COMMAND…
    local began=$EPOCHREALTIME
    "$@" >/dev/null
    awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}
median() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
took=$(for _ in $(seq "$ROUNDS"); do seconds dtctl report bench; done | median)
floor=$(for _ in $(seq "$ROUNDS"); do seconds wc "$run/metrics.jsonl"; done | median)
printf '{"bench":"report","points":%d,"ranks":%d,"seconds":%s,"floor_s":%s,"bytes":%d}\n' \
    "$POINTS" "$RANKS" "$took" "$floor" "$(stat -c %s "$run/report.html")"
