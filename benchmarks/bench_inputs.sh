#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inputs from a bucket on namespace hosts whose links are shaped: from the command until the last
# rank has what it reads first. Replicated over INPUT_NODES nodes, copies that left the bucket too;
# sharded over one node and over three; streamed, until the first object has been read. The floor is
# the time that the bytes of one node take on its link. The bucket's own link is not shaped.
# shellcheck disable=SC2016 # workers expand their variables
source "${0%/*}/../tests/lib.sh"
source "$SRC/tests/s3.sh"
NODES=${INPUT_NODES:-8} MEGABYTES=${INPUT_MB:-128} MBIT=${INPUT_MBIT:-100}
hosts_up "$NODES"
hosts_config
s3_start ADDRESS=10.77.0.254
figures=0
quiet() { "$@" >command.log 2>&1 || bail_out "$* failed: $(tail -n 5 command.log)"; }
quiet dtctl up
for ((i = 1; i <= NODES; i++)); do
    tc qdisc replace dev "veth$i" root tbf rate "${MBIT}mbit" burst 256k latency 100ms
    ip netns exec "node$i" tc qdisc replace dev eth0 root tbf rate "${MBIT}mbit" burst 256k \
        latency 100ms
done

fresh() { # NAME: an object of a megabyte for each
    local i
    mkdir "$1"
    for ((i = 0; i < MEGABYTES; i++)); do head -c 1000000 /dev/urandom >"$1/$i"; done
    dtdata put "$1" "s3://bucket/$1" >put.log || bail_out "$(cat put.log)"
    s3_ask /-/forget >/dev/null
}
ready='date +ready=%s%N'
first='python3 -c "import os, time, urllib.request
url = open(os.environ[\"DTCTL_INPUT_SET_URLS\"]).read().split()[0]
assert len(urllib.request.urlopen(url).read()) == 1000000
print(f\"ready={time.time_ns()}\")"'

measure() { # WHAT NODES SHARE COMMAND dtctl-ARGUMENT…: JSON; SHARE: of the bytes that a node gets
    local what=$1 nodes=$2 share=$3 command=$4 begin seconds floor bytes
    shift 4
    fresh "$what"
    begin=$(date +%s%N)
    quiet dtctl train --nodes "$nodes" --nproc-per-node 1 --name "$what" "$@" -- sh -c "$command"
    seconds=$(sed -n 's/.*ready=\([0-9]*\).*/\1/p' command.log | sort -n | tail -n 1 |
        awk -v a="$begin" '{ printf "%.3f", ($1 - a) / 1e9 }')
    floor=$(awk -v m="$MEGABYTES" -v s="$share" -v r="$MBIT" \
        'BEGIN { printf "%.3f", m * s * 8 / r }')
    bytes=$(s3_ask /-/bytes | awk '{ sum += $2 } END { print sum + 0 }')
    figures=$((figures + 1))
    printf '{"bench":"inputs","what":"%s","nodes":%d,"megabytes":%d,"mbit":%d,"seconds":%s,' \
        "$what" "$nodes" "$MEGABYTES" "$MBIT" "${seconds:-0}"
    printf '"floor_s":%s,"speed_of_floor":%s,"copies_read":%s}\n' "$floor" \
        "$(awk -v a="$floor" -v b="${seconds:-1}" 'BEGIN { printf "%.2f", a / b }')" \
        "$(awk -v a="$bytes" -v m="$MEGABYTES" 'BEGIN { printf "%.2f", a / m / 1e6 }')"
}
input() { echo --input "set=s3://bucket/$1"; }
# shellcheck disable=SC2046 # words
{
    measure replicated "$NODES" 1 "$ready" $(input replicated)
    measure copied-by-one 1 1 "$ready" $(input copied-by-one)
    measure sharded-by-three 3 "$(awk 'BEGIN { print 1 / 3 }')" "$ready" \
        $(input sharded-by-three):sharded
    measure streamed-by-one 1 "$(awk -v m="$MEGABYTES" 'BEGIN { print 1 / m }')" "$first" \
        $(input streamed-by-one) --set inputs.set.deliver=stream
}
{
    is "$figures" 4 'every command ended with 0'
    done_testing
} >&2
