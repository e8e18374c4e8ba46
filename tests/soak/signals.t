#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal at any system call of train, up, down, push and fetch: SIGINT, SIGTERM or SIGKILL at the
# N-th call, N swept over the whole command. A signal always has its effect, no agent lives when the
# record says that the run is over, and whatever is left can be stopped, fetched or made again.
#
#     SOAK_AT='train INT 345' tests/soak/signals.t      one point alone
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called through wait_for
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-30} SOAK_SEED=${SOAK_SEED:-1}
NTH=$BUILD/release/tests/tools/nth_call
HANG_SECONDS_MAX=40
VERBS=(train detach push fetch up down)
SIGNALS=(INT TERM KILL)
rounds=0 faults=0
declare -A calls hits

nth() { # N SIGNAL dtctl-ARGUMENT…: leaves $status, and what the tool says in $calls_made and $at
    local n=$1 signal=$2
    shift 2
    timeout -k 5 "$HANG_SECONDS_MAX" "$NTH" -n "$n" -s "$signal" -- dtctl "$@" \
        >out/nth.out 2>out/nth.err 3>out/nth.report </dev/null
    status=$?
    read -r calls_made at < <(sed 's/calls=//; s/at=//' out/nth.report)
}

fault() { # WHAT
    faults=$((faults + 1)) bad=1
    diag "$verb $signal $n (call ${at-}): $1; status $status"
    diag "$(tail -n 15 out/nth.err)"
    diag "repeat: SOAK_AT='$verb $signal $n' $SCRIPT"
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
newest() { find .dtctl/default/runs -mindepth 1 -maxdepth 1 2>/dev/null | sort | tail -n 1; }

# ---- one command each ---------------------------------------------------------------------------
check_run() { # what a train that was hit has left
    local run
    run=$(newest)
    if [ ! -e "$run/run.toml" ] || is_over "$run"; then
        wait_for 5 no_agents || fault "an agent works, and the record says '$(field "$run" state)'"
    fi
    if [ -e "$run/run.toml" ]; then
        [ "$status" != 0 ] || [ "$at" = -1 ] || [ "$(field "$run" state)" = finished ] ||
            fault "it ends with 0, and the run is $(field "$run" state)"
        after stop "${run##*/}"
    fi
    wait_for 10 no_agents || fault 'an agent works after stop'
    [ ! -e "$run/run.toml" ] || is_over "$run" ||
        timeout -k 5 "$HANG_SECONDS_MAX" dtctl fetch "${run##*/}" >out/after.out 2>&1
    [ ! -e "$run/run.toml" ] || is_over "$run" || fault "the run stays $(field "$run" state)"
    rm -rf .dtctl/default/runs
    pkill -9 -f "$WORK/.dtctl/default/nodes/.* --node"
}

hit_train() {
    nth "$n" "$signal" train -- sh -c 'sleep 0.1; echo $RANK >$DTCTL_OUTPUT_DIR/r'
    check_run
}

hit_detach() {
    nth "$n" "$signal" train --detach -- sleep 60
    local run
    run=$(newest)
    [ "$status" = 0 ] && ! agents && fault 'it ends with 0, and nothing runs'
    check_run
}

hit_push() {
    nth "$n" "$signal" push files --to there
    after push files --to there
    diff -r files .dtctl/default/nodes/node1/there/files >out/diff 2>&1 ||
        fault "what was pushed differs: $(head -n 1 out/diff)"
    rm -rf .dtctl/default/nodes/node*/there
}

hit_fetch() {
    local run
    dtctl train --detach -- sh -c 'seq 1000 >$DTCTL_OUTPUT_DIR/out$RANK' >out/run 2>out/nth.err ||
        fault 'no run to fetch'
    run=.dtctl/default/runs/$(cat out/run)
    wait_for 20 no_agents
    nth "$n" "$signal" fetch "${run##*/}"
    [ "$status" != 0 ] || [ "$(field "$run" fetched)" = true ] ||
        fault 'it ends with 0, and nothing is here'
    after fetch "${run##*/}"
    [ "$(find "$run/output" -name 'out*' -type f -size +3000c | wc -l)" = 2 ] ||
        fault 'results are missing'
    rm -rf .dtctl/default/runs
}

hit_up() {
    dtctl down -y >out/down.log 2>&1
    rm -rf .dtctl
    nth "$n" "$signal" up
    after up
    after exec -- true
}

hit_down() {
    nth "$n" "$signal" down -y
    wait_for 5 no_agents # what a killed dtctl has begun
    [ ! -e .dtctl/default/cluster.toml ] || after down -y
    [ ! -e .dtctl/default/nodes/node0/bin ] || fault 'something is left on a node'
    after up
}

# ---- the sweep ----------------------------------------------------------------------------------
one() { # VERB SIGNAL N
    verb=$1 signal=$2 n=$3 bad='' at=
    "hit_$verb"
    [ "$status" -ne 124 ] || fault 'it hangs'
    [[ $status == @(0|1|2|3|4|130|137|143) ]] || fault 'it crashed'
    if [ "$at" != -1 ]; then
        hits[$verb $signal $at]=1
        # A run that was over already, and is whole here, is no failure.
        [ "$signal" = KILL ] || [ "$status" != 0 ] || [[ $verb == @(train|fetch) ]] ||
            fault 'the signal had no effect'
    fi
    rounds=$((rounds + 1))
    [ -z "$bad" ]
}

mkdir -p files out
for i in 1 2 3; do seq $((i * 3000)) >files/$i; done
"$NTH" -n 0 -- true 3>out/nth.report 2>/dev/null || skip_all 'ptrace is not permitted here'
dtctl up >out/up.log 2>&1 || bail_out 'no cluster'

if [ -n "${SOAK_AT-}" ]; then
    read -r verb signal n <<<"$SOAK_AT"
    ok "$SOAK_AT" one "$verb" "$signal" "$n"
    done_testing
fi

declare -A bad_of
RANDOM=$SOAK_SEED
for verb in "${VERBS[@]}"; do # how many calls there are
    one "$verb" INT 1000000 || bad_of[$verb]=1
    calls[$verb]=$calls_made
    offset[${#offset[@]}]=$RANDOM
done
until=$((SECONDS + SOAK_SECONDS)) k=0
while [ "$SECONDS" -lt "$until" ]; do
    for i in "${!VERBS[@]}"; do
        [ "$SECONDS" -lt "$until" ] || break
        verb=${VERBS[i]}
        # Steps of the golden ratio: any number of rounds is spread evenly over the command.
        n=$(((offset[i] + k * calls[$verb] * 40503 / 65536) % calls[$verb] + 1))
        one "$verb" "${SIGNALS[(k + i) % 3]}" "$n" || bad_of[$verb]=1
    done
    k=$((k + 1))
done
for verb in "${VERBS[@]}"; do
    result $((1 - ${bad_of[$verb]-0})) "$verb: a signal at any of its ${calls[$verb]} calls"
done
echo "# signals: seed=$SOAK_SEED rounds=$rounds states=${#hits[@]} faults=$faults"
dtctl down -y --force >out/down.log 2>&1
done_testing
