#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders that cannot be read to their end, and files of which nothing can be known: each such call
# fails in turn, on the operator's machine and on a node. No command takes for absent what it cannot
# see: it fails with a message, or its work is complete. Results that were not fetched stay.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by name
source "${0%/*}/../lib.sh"
NTH=$BUILD/release/tests/tools/nth_call
CALLS_MAX=900 # in one command
FOLDERS=getdents64 FACTS=stat,lstat,newfstatat,fstat,access
"$NTH" -n 0 -- true 3>report 2>/dev/null || skip_all 'ptrace is not permitted here'
mkdir files && seq 9 >files/nine
dtctl up >up.log 2>&1 || bail_out "no cluster: $(tail -n 3 up.log)"
node=$PWD/.dtctl/default/nodes/node0

hit() { # CALLS N COMMAND…: the N-th of these fails; leaves $status and $at, -1 after the last one
    timeout 60 "$NTH" -n "$2" -e EIO -c "$1" -- "${@:3}" >hit.out 2>hit.err 3>report </dev/null
    status=$?
    read -r _ at < <(sed 's/calls=//; s/at=//' report)
}
fault() { # WHAT
    bad="$bad; call $n: $1 (status $status)"
    diag "call $n ($at): $1; status $status: $(tail -n 3 hit.err)"
}
sweep() { # NAME CALLS PREPARE CHECK COMMAND…
    local n bad=''
    for ((n = 1; n <= CALLS_MAX; n++)); do
        "$3"
        hit "$2" "$n" "${@:5}"
        [ "$status" = 0 ] || grep -q error hit.err hit.out || fault 'it fails without a message'
        "$4"
        [ "$at" != -1 ] || break
    done
    is "$bad" '' "$1 sees a failure of ${2%%,*}"
    ok "$1 has such calls: $((n - 1))" [ "$n" -gt 1 ]
}

begin() { # a run with unfetched results
    id=$(dtctl train --detach -- bash -c 'seq 1000 >$DTCTL_OUTPUT_DIR/out$RANK' 2>begin.err) ||
        bail_out "no run: $(tail -n 3 begin.err)"
    wait_for 30 all_agents_ended
}
all_agents_ended() { ! pgrep -f "^[^ ]*dtrun.*$PWD/.dtctl/default/nodes/.* --node" >/dev/null; }
begin

nothing() { :; }
unfetch() {
    rm -rf ".dtctl/default/runs/$id/output" ".dtctl/default/runs/$id/incoming"
    sed -i '/^fetched/d' ".dtctl/default/runs/$id/run.toml"
}
fetched_whole() {
    [ "$status" != 0 ] || [ "$(cat .dtctl/default/runs/"$id"/output/out[01] | wc -l)" = 2000 ] ||
        fault 'results are missing'
}
for calls in $FOLDERS $FACTS; do sweep fetch "$calls" unfetch fetched_whole dtctl fetch "$id"; done

dtrun=$(find "$node/bin" -name 'dtrun*' -type f | head -n 1)
listed() { [ "$status" != 0 ] || grep -q "$id" hit.out || fault 'the run is not listed'; }
for calls in $FOLDERS $FACTS; do
    sweep 'the status of a node' "$calls" nothing listed "$dtrun" --node status --root "$node"
done

objects=$(find "$node/cas" -type f | sort)
kept() { [ "$(find "$node/cas" -type f | sort)" = "$objects" ] || fault 'content is gone'; }
sweep 'pruning of the content store' $FOLDERS nothing kept "$dtrun" --node prune --root "$node" \
    --older-than-ms 0

stays() { [ -e "$node/runs/$id/output/out0" ] || [ -e "$node/runs/$id/output/out1" ] ||
    fault 'unfetched results are gone'; }
rm -f "$node/runs/$id/fetched"
for calls in $FOLDERS $FACTS; do
    sweep 'cleaning of a node' "$calls" nothing stays "$dtrun" --node clean --root "$node" --all
done

unset n
dtctl down -y --force >down.log 2>&1
is $? 0 'down'
done_testing
