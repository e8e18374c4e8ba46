#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A push of random content to FANOUT_NODES namespace hosts behind one shaped uplink: seconds and
# bytes on the wire, with nodes that pass the content on, and without; the floor is the push to one
# host. Then a task with one host's output as its input, where that host still has it, and where it
# has lost it.
source "${0%/*}/../tests/lib.sh"
NODES=${FANOUT_NODES:-8} MEGABYTES=${FANOUT_MB:-64} RATE=${FANOUT_RATE:-200mbit}
hosts_up "$NODES"
hosts_config
figures=0
quiet() { "$@" >command.log 2>&1 || bail_out "$* failed: $(tail -n 5 command.log)"; }
quiet dtctl up
tc qdisc replace dev dt0 root tbf rate "$RATE" burst 256k latency 100ms

sent() { awk '$1 == "dt0:" { print $10 }' /proc/net/dev; } # bytes from here to all hosts
measure() { # WHAT NODES dtctl-ARGUMENT…: JSON; the seconds remain in $seconds
    local what=$1 nodes=$2 begin=$EPOCHREALTIME before wire
    shift 2
    before=$(sent)
    quiet dtctl "$@"
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
    wire=$(($(sent) - before))
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
measure 'one node' 1 push --node node1 one
floor=$seconds
fresh all
measure 'all nodes' "$NODES" push all
measure 'all nodes, again' "$NODES" push all
fresh each
DTCTL_CLUSTER_FANOUT=off measure 'all nodes, fan-out off' "$NODES" push each

output() { # TASK: of one process on the first host
    quiet dtctl train --name "$1" --once -- \
        sh -c "head -c ${MEGABYTES}M /dev/urandom >\$DTCTL_OUTPUT_DIR/data"
}
task() { # WHAT TASK
    measure "$1" "$NODES" train --nproc-per-node 1 --input "in=run:$2/output" -- true
}
output held
task "all nodes, one host's results" held
output lost
rm -rf "$WORK"/node1/root/.dtctl/nodes/node1/runs/lost-*
task 'all nodes, results that are here alone' lost
{
    is "$figures" 6 'every command ended with 0'
    done_testing
} >&2
