#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A push of random content to FANOUT_NODES namespace hosts behind one shaped uplink: seconds and
# bytes on the wire, with nodes that pass the content on, and without; the floor is the push to one
# host.
source "${0%/*}/../tests/lib.sh"
NODES=${FANOUT_NODES:-8} MEGABYTES=${FANOUT_MB:-64} RATE=${FANOUT_RATE:-200mbit}
hosts_up "$NODES"
hosts_config
figures=0
quiet() { "$@" >command.log 2>&1 || bail_out "$* failed: $(tail -n 5 command.log)"; }
quiet dtctl up
tc qdisc replace dev dt0 root tbf rate "$RATE" burst 256k latency 100ms

measure() { # WHAT NODES dtctl-ARGUMENT…: JSON; the seconds remain in $seconds
    local what=$1 nodes=$2 begin=$EPOCHREALTIME wire
    shift 2
    quiet dtctl --json push "$@"
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
    wire=$(sed -nE 's/.*"event":"pushed".*"bytes_wire":([0-9]+).*/\1/p' command.log)
    figures=$((figures + 1))
    printf '{"bench":"fanout","what":"%s","nodes":%d,"megabytes":%d,"rate":"%s","seconds":%s,' \
        "$what" "$nodes" "$MEGABYTES" "$RATE" "$seconds"
    printf '"wire_bytes":%d,"ratio":%s}\n' "${wire:-0}" \
        "$(awk -v a="$seconds" -v b="${floor:-$seconds}" 'BEGIN { printf "%.2f", a / b }')"
}
fresh() { # FILE
    head -c "${MEGABYTES}M" /dev/urandom >"$1"
}
fresh one
measure 'one node' 1 --node node1 one
floor=$seconds
fresh all
measure 'all nodes' "$NODES" all
measure 'all nodes, again' "$NODES" all
fresh each
export DTCTL_CLUSTER_FANOUT=off
measure 'all nodes, fan-out off' "$NODES" each
{
    is "$figures" 4 'every command ended with 0'
    done_testing
} >&2
