# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# sweep.sh: runs dtctl commands on a cluster of two local nodes; nth_call (tests/tools) makes one
# call of each fail; checks the state afterwards. Sourced after lib.sh by a script that defines:
#
#     at_round K   sets how=(options of nth_call), kind, its name, and spared, how many of the first
#                  calls are never hit, for the K-th round
#     at_kind KIND the same for a name
#     judge        looks at $verb, $status and $at of the command that was hit; may call fault
#
#     SOAK_AT='train INT 345' tests/soak/signals.t      one point alone
# shellcheck disable=SC2016,SC2034,SC2154 # the workers' shell expands; variables are the script's

SOAK_SECONDS=${SOAK_SECONDS:-30} SOAK_SEED=${SOAK_SEED:-1}
NTH=$BUILD/release/tests/tools/nth_call
HANG_SECONDS_MAX=40
VERBS=(train detach push fetch up down)
rounds=0 faults=0 spared=0
declare -A calls hits bad_of

nth() { # PROGRAM ARGUMENT…: hits its call $n; leaves $status, $calls_made and $at
    timeout -k 5 "$HANG_SECONDS_MAX" "$NTH" -n "$((n + spared))" "${how[@]}" -- "$@" \
        >out/nth.out 2>out/nth.err 3>out/nth.report </dev/null
    status=$?
    read -r calls_made at < <(sed 's/calls=//; s/at=//' out/nth.report)
}

fault() { # WHAT
    faults=$((faults + 1)) bad=1
    diag "$verb $kind $n (call ${at-}): $1; status $status"
    diag "$(tail -n 15 out/nth.err)"
    diag "repeat: SOAK_AT='$verb $kind $n' $SCRIPT"
}

after() { # ARGUMENT…: a later dtctl, which must succeed
    timeout -k 5 "$HANG_SECONDS_MAX" dtctl "$@" >out/after.out 2>out/after.err </dev/null && return
    fault "afterwards 'dtctl $*' fails with $?"
    diag "$(tail -n 5 out/after.err)"
    return 1
}

agents() { pgrep -f "$WORK/.dtctl/default/nodes/.* --node" >/dev/null; }
no_agents() { ! agents; }
field() { sed -n "s/^$2 = \"\{0,1\}\([^\"]*\).*/\1/p" "$1/run.toml" 2>/dev/null | head -n 1; }
is_over() { [[ $(field "$1" state) == @(finished|failed|stopped|lost) ]]; }
# On the nodes, too: they refuse a `down` that would lose results of which nothing is known here.
forget_runs() { rm -rf .dtctl/default/runs .dtctl/default/nodes/*/runs; }
newest() { find .dtctl/default/runs -mindepth 1 -maxdepth 1 2>/dev/null | sort | tail -n 1; }

# ---- one command each ---------------------------------------------------------------------------
check_run() { # what a train that was hit has left
    local run
    run=$(newest)
    if [ ! -e "$run/run.toml" ] || is_over "$run"; then
        wait_for 5 no_agents || fault "an agent works, and the record says '$(field "$run" state)'"
    fi
    if [ -e "$run/run.toml" ]; then
        [ "$status" != 0 ] || [ "$verb" = detach ] || [ "$(field "$run" state)" = finished ] ||
            fault "it ends with 0, and the run is $(field "$run" state)"
        after stop "${run##*/}"
    fi
    wait_for 10 no_agents || fault 'an agent works after stop'
    [ ! -e "$run/run.toml" ] || is_over "$run" ||
        timeout -k 5 "$HANG_SECONDS_MAX" dtctl fetch "${run##*/}" >out/after.out 2>&1
    [ ! -e "$run/run.toml" ] || is_over "$run" || fault "the run stays $(field "$run" state)"
    forget_runs
    pkill -9 -f "$WORK/.dtctl/default/nodes/.* --node"
}

hit_train() {
    nth dtctl train -- sh -c 'sleep 0.1; echo $RANK >$DTCTL_OUTPUT_DIR/r'
    check_run
}

hit_detach() {
    nth dtctl train --detach -- sleep 60
    local run
    run=$(newest)
    [ "$status" = 0 ] && ! agents && fault 'the command ends with 0, and nothing runs'
    check_run
}

hit_push() {
    nth dtctl push files --to there
    after push files --to there
    wait_for 10 no_agents || fault 'the node still receives'
    diff -r files .dtctl/default/nodes/node1/there/files >out/diff 2>&1 ||
        fault "pushed files differ: $(head -n 1 out/diff)"
    rm -rf .dtctl/default/nodes/node*/there
}

hit_fetch() {
    local run
    dtctl train --detach -- sh -c 'seq 1000 >$DTCTL_OUTPUT_DIR/out$RANK' >out/run 2>out/nth.err ||
        fault 'no run to fetch'
    run=.dtctl/default/runs/$(cat out/run)
    wait_for 20 no_agents
    nth dtctl fetch "${run##*/}"
    [ "$status" != 0 ] || [ "$(field "$run" fetched)" = true ] ||
        fault 'the command ends with 0, and nothing was fetched'
    after fetch "${run##*/}"
    [ "$(find "$run/output" -name 'out*' -type f -size +3000c | wc -l)" = 2 ] ||
        fault 'results are missing'
    forget_runs
}

hit_up() {
    dtctl down -y >out/down.log 2>&1
    rm -rf .dtctl
    nth dtctl up
    after up
    after exec -- true
}

hit_down() {
    nth dtctl down -y
    wait_for 5 no_agents # what a killed dtctl has begun
    [ ! -e .dtctl/default/cluster.toml ] || after down -y
    [ ! -e .dtctl/default/nodes/node0/bin ] || fault 'something is left on a node'
    after up
}

# ---- the sweep ----------------------------------------------------------------------------------
one() { # VERB N, with $how and $kind set
    verb=$1 n=$2 bad='' at=
    "hit_$verb"
    [ "$status" -ne 124 ] || fault 'the command hangs'
    [[ $status == @(132|134|135|136|139) ]] && fault 'the command crashed'
    [ "$at" = -1 ] || hits[$verb $kind $at]=1
    judge
    rounds=$((rounds + 1))
    [ -z "$bad" ]
}

sweep_begin() {
    mkdir -p files out
    for i in 1 2 3; do seq $((i * 3000)) >files/$i; done
    "$NTH" -n 0 -- true 3>out/nth.report 2>/dev/null || skip_all 'ptrace is not permitted here'
    dtctl up >out/up.log 2>&1 || bail_out 'no cluster'
}

sweep_one() { # VERB KIND N: one point alone
    at_kind "$2"
    ok "$*" one "$1" "$3"
    done_testing
}

sweep() { # NAME
    local i k=0 until count salt=()
    RANDOM=$SOAK_SEED
    until=$((SECONDS + SOAK_SECONDS))
    for i in "${!VERBS[@]}"; do salt[i]=$RANDOM; done
    while [ "$SECONDS" -lt "$until" ]; do
        for i in "${!VERBS[@]}"; do
            verb=${VERBS[i]}
            [ "$SECONDS" -lt "$until" ] || break
            at_round $((k + i))
            if [ -z "${calls[$verb $kind]-}" ]; then # how many calls there are
                one "$verb" 1000000 || bad_of[$verb]=1
                calls[$verb $kind]=$calls_made
            fi
            count=${calls[$verb $kind]}
            [ "$count" -gt 0 ] || continue
            # Steps of the golden ratio: any number of rounds is spread evenly over the command.
            one "$verb" $(((salt[i] + k * count * 40503 / 65536) % count + 1)) || bad_of[$verb]=1
        done
        k=$((k + 1))
    done
    for verb in "${VERBS[@]}"; do
        result $((1 - ${bad_of[$verb]-0})) "$verb: $2"
    done
    echo "# $1: seed=$SOAK_SEED rounds=$rounds states=${#hits[@]} faults=$faults"
    dtctl down -y --force >out/down.log 2>&1
    done_testing
}
