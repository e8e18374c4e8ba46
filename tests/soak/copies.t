#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A kill walk over copies of states: three nodes and two spares of a detached run, whose keepers,
# publishers, workers and agents are killed at random instants, agents with their disks. After every
# kill each generation and each copy on every disk, lost ones too, is whole. A spare that takes a
# place begins with a state that is not older than the newest copy at the kill. The run continues.
#
#     SOAK_SEED=7 tests/soak/copies.t      the same walk again
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called through wait_for
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-25} SOAK_SEED=${SOAK_SEED:-1}
RANDOM=$((SOAK_SEED % 32768))
WAIT=60         # seconds for anything that takes a few on an idle machine
LOSSES_MAX=2    # of a run: spares
STATE_KIB=3500  # several pieces, and several in the last burst
nodes=.dtctl/default/nodes
faults=0 kills=0 losses=0 scenes=0 checked=0

# A state is the same figure in every file, and `big` is made of it.
cat >work.sh <<'END'
cd "$DTCTL_STATE_DIR" || exit 1
i=$(cat a 2>/dev/null)
echo "begins with ${i:-0}"
while :; do
    i=$((i + 1))
    yes "$i" | head -c $((STATE_KIB * 1024)) >.part && mv .part big
    echo "$i" >.part && mv .part a
    sleep "1.$((i % 5 + 2))"
done
END

fault() { # WHAT
    faults=$((faults + 1))
    diag "scene $scenes: $1"
    diag "repeat: SOAK_SEED=$SOAK_SEED SOAK_SECONDS=$SOAK_SECONDS $SCRIPT"
}
folder() { echo "$nodes/node$1/runs/$id"; } # NODE
agent() { sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$(folder "$1")/status.json"; }
# Its children have the name of the keeper, too: those that publish.
keeper_of() { # NODE OLDEST|NEWEST
    local pid found=
    for pid in $(pgrep -x dtrun-keeper); do
        grep -qa "$WORK/$nodes/node$1/bin/" "/proc/$pid/cmdline" 2>/dev/null || continue
        found+=" $pid"
    done
    [ -n "$found" ] || return 1
    if [ "$2" = oldest ]; then found=${found# } && echo "${found%% *}"; else echo "${found##* }"; fi
}
is_whole() { # GENERATION
    local figure
    figure=$(cat "$1/state/a" 2>/dev/null)
    [ -s "$1/list" ] && [ -n "$figure" ] &&
        yes "$figure" | head -c $((STATE_KIB * 1024)) | cmp -s - "$1/state/big"
}
check() { # every disk; one that is being removed meanwhile has no list any more
    local part
    for part in {$nodes/*/runs/"$id",gone-*}/{copies/*,generations}/[0-9]*; do
        [ -e "$part" ] || continue
        checked=$((checked + 1))
        is_whole "$part" || [ ! -e "$part" ] || fault "$part is half a generation"
    done
}
newest_copy() { # OWNER: the figure; 0: none
    local figure newest=0
    while read -r figure; do
        [ "$figure" -le "$newest" ] || newest=$figure
    done < <(cat $nodes/*/runs/"$id/copies/node$1"/[0-9]*/state/a 2>/dev/null)
    echo "$newest"
}
copied() { [ "$(newest_copy "$1")" -ge "$2" ]; }
begun() { grep -hc begins "$(folder "$1")"/attempt_*/*/stdout.log 2>/dev/null | grep -c '^1'; }
began() { [ "$(begun "$1")" -ge "$2" ]; } # NODE TIMES
members() { # nodes of the newest round
    local node
    for node in 0 1 2 3 4; do
        [ ! -e "$(folder $node)/status.json" ] ||
            ! grep -q '"state":"running"' "$(folder $node)/status.json" || echo $node
    done
}
all_run() { [ "$(members | wc -l)" = 3 ]; }
pause() { sleep "0.$((RANDOM % 10))$((RANDOM % 10))"; }

# spare_begins NODE TIMES…: sets $spare to the node that has begun more often than that.
spare_begins() {
    while [ $# -gt 0 ]; do
        spare=$1
        ! began "$1" $(($2 + 1)) || return 0
        shift 2
    done
    return 1
}

lose() { # a node with its disk
    local members node copy figure others=()
    mapfile -t members < <(members)
    [ ${#members[@]} = 3 ] || return 0
    for node in 0 1 2 3 4; do
        [[ " ${members[*]} " == *" $node "* || ! -e $(folder $node) ]] ||
            others+=("$node" "$(begun $node)")
    done
    node=${members[RANDOM % 3]}
    wait_for $WAIT copied "$node" 1 >/dev/null || { fault "node$node has no copy" && return 0; }
    pause
    copy=$(newest_copy "$node")
    mv "$(folder "$node")" "gone-$node-$id"
    kill -KILL "$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "gone-$node-$id/status.json")"
    losses=$((losses + 1))
    wait_for $WAIT spare_begins "${others[@]}" >/dev/null ||
        { fault "no spare takes the place of node$node" && return 0; }
    figure=$(sed -n 's/begins with //p' "$(folder "$spare")"/attempt_*/*/stdout.log | sort -n |
        tail -n 1)
    [ "$figure" -ge "$copy" ] ||
        fault "node$spare begins with $figure, and a copy of node$node had $copy"
}

step() {
    local members victim
    pause
    mapfile -t members < <(members)
    [ ${#members[@]} -gt 0 ] || return 0
    victim=${members[RANDOM % ${#members[@]}]}
    kills=$((kills + 1))
    case $((RANDOM % 8)) in
    0 | 1 | 2) kill -KILL "$(keeper_of "$victim" oldest)" 2>/dev/null ;;
    3 | 4) kill -KILL "$(keeper_of "$victim" newest)" 2>/dev/null ;;
    5) pkill -KILL -P "$(pgrep -P "$(agent "$victim")" -x dtrun-guard)" 2>/dev/null ;;
    *) [ $losses -ge $LOSSES_MAX ] || lose ;;
    esac
    check
}

run dtctl up --nodes 5
is "$status" 0 'five nodes are up'
end=$((SECONDS + SOAK_SECONDS))
while [ $SECONDS -lt $end ] && [ $faults = 0 ]; do
    scenes=$((scenes + 1)) losses=0
    run dtctl train --name walk --detach --nodes 3 --spares 2 --max-restarts 1000 \
        --set state.every=1s --set "state.replicas=$((1 + RANDOM % 2))" \
        --rdzv-conf heartbeat=1,silence=15,crash_loop=1000 --env STATE_KIB=$STATE_KIB \
        --file work.sh -- sh work.sh
    [ "$status" = 0 ] || { fault "no run: $err" && break; }
    id=$(basename "$(find .dtctl/default/runs -maxdepth 1 -name 'walk-*' | sort | tail -n 1)")
    wait_for $WAIT all_run >/dev/null || fault 'three nodes do not run'
    for node in $(members); do
        wait_for $WAIT copied "$node" 1 >/dev/null || fault "node$node has no copy"
    done
    for ((i = 0; i < 12 && SECONDS < end + 5 && faults == 0; i++)); do step; done
    [ $losses -gt 0 ] || lose
    check
    run dtctl stop "$id"
    rm -rf gone-*
    run dtctl gc -y --older-than 0s --force
done
is "$faults" 0 'every generation is whole, and every state comes back'
is "$(pgrep -f "$WORK/.dtctl/default/nodes/.* --node start" | wc -l)" 0 'nothing is left running'
echo "# copies: seed=$SOAK_SEED $scenes runs, $kills kills, $checked generations looked at"
run dtctl down -y --force
done_testing
