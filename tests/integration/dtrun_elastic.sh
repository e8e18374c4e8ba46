# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# dtrun_elastic.sh: an elastic PyTorch program under torchrun and under dtrun, in turn: it
# writes its state after every step and continues from there with any number of workers, while nodes
# leave and come.
# shellcheck source=tests/integration/dtrun_compare.sh
source "${BASH_SOURCE[0]%/*}/dtrun_compare.sh"

# Three agents, one of which leaves; or two, to which one comes. The first hosts the rendezvous.
# shellcheck disable=SC2317 # wait_for calls these
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
# shellcheck disable=SC2317
has_come_to() { # STEP NODES; or there is nothing left to wait for
    [ "$(cat "$COMPARE_DIR/progress" 2>/dev/null)" = "$1" ] || ! kill -0 "${agents[0]}"
}
allow() { echo "$1" >"$COMPARE_DIR/steps.new" && mv "$COMPARE_DIR/steps.new" "$COMPARE_DIR/steps"; }
agent() { # WHO
    # shellcheck disable=SC2046 # two words
    $(launcher "$1") --nnodes 2:3 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port" \
        --rdzv-id x --max-restarts 9 --rdzv-conf last_call_timeout=8,read_timeout=20 \
        "$program" elastic >>"$1/out" 2>>"$1/err" &
    agents+=($!)
}
elastic() { # NODES THEN WHO…: sets status_, out_ and count_ of ours and theirs
    local who pid i agents began from=$1 to=$2
    local -A come=([theirs]=50 [ours]=200) finish=([theirs]=30 [ours]=200) # seconds; some never do
    shift 2
    for who; do
        rm -rf "${WORK:?}/$who" && mkdir -p "$WORK/$who"
        COMPARE_DIR=$WORK/$who agents=() port=$((24000 + RANDOM % 6000))
        allow 10
        agent "$who"
        wait_for 60 listening
        for ((i = 1; i < from; i++)); do agent "$who"; done
        wait_for "${come[$who]}" has_come_to "10 $from"
        began=${EPOCHREALTIME/./}
        if [ "$to" -lt "$from" ]; then kill "${agents[-1]}"; else agent "$who"; fi
        wait_for "${come[$who]}" has_come_to "10 $to"
        began=$(((${EPOCHREALTIME/./} - began) / 1000))
        diag "$(launcher "$who"): from $from to $to nodes in $began ms"
        allow 20
        wait_for "${finish[$who]}" has_come_to "20 $to" || kill -KILL "${agents[@]}" 2>/dev/null
        wait "${agents[0]}"
        status=$?
        printf -v "status_$who" %s $((status > 0))
        for pid in "${agents[@]}"; do kill "$pid" 2>/dev/null; done
        wait "${agents[@]}" 2>/dev/null
        # torchrun's workers outlive an agent that is killed, those that have only just begun, too.
        while read -r pid; do
            kill -KILL "$pid" 2>/dev/null
        done < <(grep -lzsxF "COMPARE_DIR=$COMPARE_DIR" /proc/[0-9]*/environ | cut -d/ -f3)
        printf -v "out_$who" %s "$(grep -h samples "$who/out")"
        printf -v "count_$who" %s "$(sed -n 's/^count //p' "$who/out")"
    done
    # PyTorch may abort when it ends (tests/torch.sh), and the group then ends a second time.
    for who; do
        [ "$who" = theirs ] || torch_aborted "$who/err" || continue
        local -n out=out_$who count=count_$who
        out=${out%%$'\n'*} count=${count%%$'\n'*}
    done
}
