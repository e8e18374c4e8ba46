#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A step as one captured graph (train.graph): the same losses to the last bit as kernel by kernel,
# alone and on two ranks; where steps are not captured, the start says why; and the losses of the
# step change, or its run fails, without any node of the graph and any edge between its streams.
# shellcheck disable=SC2317 # functions that ok calls
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"
SEEDS=3 # orders in which a missing edge may show

small_shapes 34
common=(print_every=1 threads=1 eval=false epochs=1 seed=3 "data=$WORK/shapes34" model=mlp hidden=8
    batch=4 lr=0.05 device=gpu)
same_losses() { # A B STEPS
    is "$(losses "$1")" "$(losses "$2")" "$1: the same losses to the last bit"
    is "$(losses "$1" | wc -l)" "$3" "$1: $3 steps"
}
# both NAME STEPS COMMAND… -- KEY=VALUE…: captured, and kernel by kernel
both() {
    local name=$1 steps=$2
    shift 2
    ok "$name: captured" train "$name" "$@" graph=on
    like "$(cat "$name/out")" 'a step is one CUDA graph' "$name: the start says so"
    ok "$name: kernel by kernel" train "$name.off" "$@" graph=off
    like "$(cat "$name.off/out")" 'kernel by kernel: train.graph is off' \
        "$name: the start says that"
    same_losses "$name" "$name.off" "$steps"
}
both alone 9 on_gpu "$cuda" --
both clipped 18 on_gpu "$cuda" -- optimizer=adamw clip_norm=0.5 ema=0.9 epochs=2 hidden=8,8
both parts 5 on_gpu "$cuda" -- accumulate=2
both slow 9 on_gpu "$cuda" -- lookahead=0.9 lookahead_every=3
pair=(on_gpu "${two[@]}" "$cuda" --)
both pair 5 "${pair[@]}" hidden=32 bucket_bytes=4096
both parted 5 "${pair[@]}" hidden=32 bucket_bytes=4096 zero=true clip_norm=0.5
both rounded 5 "${pair[@]}" wire=bf16

# ---- a checkpoint in the middle, and the end of a run that diverges -----------------------------
ok 'checkpoints in an epoch' train saved on_gpu "$cuda" -- checkpoint_every_steps=4 check_every=3
same_losses saved alone 9
for graph in on off; do
    ok "graph $graph: a run that diverges fails" fails \
        train "diverged.$graph" on_gpu "$cuda" -- lr=1000 hidden=16,16,16,16,16,16 \
        momentum=0.99 epochs=2 "graph=$graph"
    like "$(cat diverged.$graph/out)" 'no longer a finite number at step [0-9]+ ' \
        "graph $graph: the step is named"
done

# Weights of which only images of class 9 have a gradient that is not finite: by the time that the
# host looks, the gradients of later steps have taken its place.
bytes() { # HEX…: little endian
    local word
    for word; do printf '%b' "\\x${word:6:2}\\x${word:4:2}\\x${word:2:2}\\x${word:0:2}"; done
}
steep() {
    local header='{' tensor name shape from to
    for tensor in 'fc1.weight 1,192 0 768' 'fc1.bias 1 768 772' 'fc2.weight 10,1 772 812' \
        'fc2.bias 10 812 852'; do
        read -r name shape from to <<<"$tensor"
        header+="\"$name\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[$from,$to]},"
    done
    header="${header%,}}"
    bytes "$(printf %08x ${#header})" 00000000
    printf %s "$header"
    head -c 768 /dev/zero
    bytes 02081cea 7f61b1e6 7f61b1e6 7f61b1e6 7f61b1e6 7f61b1e6 7f61b1e6 7f61b1e6 7f61b1e6 \
        7f61b1e6 ff61b1e6 # 1e-37, nine times 3e38, -3e38
    head -c 40 /dev/zero
}
steep >steep.safetensors
overflow=(hidden=1 batch=1 lr=0 "resume=$WORK/steep.safetensors")
named() { grep -o 'the gradient of .* at step [0-9]*' "$1/out"; }
for mode in on off pair zero; do
    command=() set=()
    [ $mode = on ] || [ $mode = off ] || command=("${two[@]}")
    [ $mode != off ] || set=(graph=off)
    # With parts of its own a rank is named for them, else for all of them.
    [ $mode != pair ] || set=(zero=false)
    [ $mode != zero ] || set=(zero=true)
    ok "$mode: a gradient overflows on processors" fails train "steep.$mode.cpu" "${command[@]}" \
        "$BIN/dttrain" -- device=cpu "${overflow[@]}" "${set[@]}"
    ok "$mode: a gradient overflows on GPUs" fails train "steep.$mode" on_gpu "${command[@]}" \
        "$cuda" -- "${overflow[@]}" "${set[@]}"
    like "$(named "steep.$mode")" "'fc1.bias' on rank [01] .* at step [0-9]+$" \
        "$mode: the parameter and the step are named"
    is "$(named "steep.$mode" | head -n 1)" "$(named "steep.$mode.cpu" | head -n 1)" \
        "$mode: they are those of processors"
done

# ---- where steps are not captured ---------------------------------------------------------------
ok 'a driver without capture' train without on_gpu env EMU_GRAPHS=0 "$cuda" --
like "$(cat without/out)" \
    'kernel by kernel: the driver captures no graph: CUDA_ERROR_NOT_SUPPORTED' 'the start says why'
same_losses without alone 9
ok 'graph=on is refused there' fails \
    train refused on_gpu env EMU_GRAPHS=0 "$cuda" -- graph=on
like "$(cat refused/out)" 'train.graph is on, and the driver .* \(try: train.graph auto\)' \
    'the refusal says why'
# shellcheck disable=SC2016 # for the shells of the ranks
other='[ $RANK = 0 ] || export EMU_GRAPHS=0; exec "$0" "$@"'
ok 'one rank of two without capture' train mixed on_gpu "${two[@]}" bash -c "$other" "$cuda" --
like "$(cat mixed/out)" 'kernel by kernel: rank 1 cannot capture a graph' 'no rank captures'
ok 'gradients through the hosts' train hosts "${pair[@]}" collectives=host
like "$(cat hosts/out)" 'kernel by kernel: the hosts pass the gradients on' 'the start says it'

# ---- every node and every edge counts -----------------------------------------------------------
# The kernels of a step are a noted number: more of them make small models slow.
ok 'a step of two ranks is reported' \
    train report on_gpu env EMU_GRAPH_REPORT=1 "${two[@]}" "$cuda" -- batch=8 clip_norm=0.1
report=$(grep -o 'a graph of .*' report/out | head -n 1)
is "$report" 'a graph of 18 nodes, 17 kernels, 2 edges' 'launches of a step as noted'
IFS=' ' read -r _ _ _ nodes _ _ _ edges _ <<<"$report"
# missed VARIABLE NUMBER SEED: without it the run ends well and has the losses of `report`
missed() {
    rm -rf lost
    train lost on_gpu env "$1=$2" EMU_SEED="$3" EMU_NCCL_SECONDS=5 "${two[@]}" "$cuda" -- batch=8 \
        clip_norm=0.1 >/dev/null || return 1
    [ "$(losses lost)" = "$(losses report)" ]
}
for ((n = 0; n < nodes; n++)); do
    ok "the losses need node $n" fails missed EMU_LOSE_NODE "$n" 1
done
for ((n = 0; n < edges; n++)); do
    found=0
    for ((seed = 1; seed <= SEEDS && !found; seed++)); do
        missed EMU_LOSE_EDGE "$n" "$seed" || found=1
    done
    ok "the losses need edge $n between streams" [ $found = 1 ]
done

# ---- every event of the host's code counts ------------------------------------------------------
# Kernel by kernel, each place that records an event or waits for one is left out in turn. Steps of
# many parts, and many layers, take more buffers for copies than there are.
small_shapes 80
layers=8,8,8,8
events=("data=$WORK/shapes80" graph=off "hidden=$layers" batch=1 accumulate=40 bucket_bytes=4096
    eval=true)
# outcome FOLDER: losses, parameters, and the evaluation without its time
outcome() {
    losses "$1"
    cksum <"$1/dttrain-output/model/model.safetensors"
    grep -o '"event":"eval".*"images"' "$1/dttrain-output/metrics.jsonl"
}
ok 'a run whose places of events are counted' \
    train places on_gpu env EMU_CALL_REPORT=1 "${two[@]}" "$cuda" -- "${events[@]}"
places=$(($(grep -c 'event place' places/out) / 2)) # of each rank
is "$places" 8 'places that record events or wait for them'
# unseen PLACE SEED: without its calls the run ends well, with the outcome of `places`
unseen() {
    rm -rf lost
    train lost on_gpu env "EMU_LOSE_CALL=$1" EMU_SEED="$2" EMU_NCCL_SECONDS=5 "${two[@]}" "$cuda" \
        -- "${events[@]}" >/dev/null || return 1
    [ "$(outcome lost)" = "$(outcome places)" ]
}
ok 'the outcome of a run is always the same' unseen -1 2
for ((n = 0; n < places; n++)); do
    found=0
    for ((seed = 1; seed <= SEEDS && !found; seed++)); do
        unseen "$n" "$seed" || found=1
    done
    ok "the outcome needs the events of place $n" [ $found = 1 ]
done
done_testing
