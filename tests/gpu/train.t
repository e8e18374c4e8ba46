#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program that is shipped, with the kernels that are shipped, on the stand-in for the driver:
# training gives the CPU backend's losses, alone and on two ranks; checkpoints go from one to the
# other; and everything that is wrong with a driver or a GPU is one sentence.
# shellcheck disable=SC2317 # functions that ok and run call
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"

# settings KEY=VALUE…: flags
settings() {
    flags=()
    local s
    for s; do flags+=(--set "train.$s"); done
}
# train FOLDER COMMAND…: in a folder of its own, with $flags
train() {
    mkdir -p "$1"
    (cd "$1" && shift && "$@" "${flags[@]}" >out 2>&1) || { diag "$(tail -n 5 "$1/out")" && false; }
}

# ---- what is wrong is said ----------------------------------------------------------------------
settings model=mlp hidden=16 epochs=1 batch=8 train_size=8 test_size=8 device=gpu threads=1
# refused TEXT DESCRIPTION VARIABLE…
refused() {
    local text=$1 what=$2
    shift 2
    run env "$@" "$cuda" "${flags[@]}"
    is "$status" "${want:-2}" "$what: refused" || diag "$err"
    like "$err$out" "$text" "$what: says why"
}
emulated=(LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1)
want=1 refused 'stand-in of dtctl.s tests' 'the stand-in, and no word of it' LD_LIBRARY_PATH="$GPU"
want=1 refused 'too old: CUDA 12\.4, and 13\.0 is needed' 'an old driver' \
    "${emulated[@]}" EMU_DRIVER=12040
refused 'sm_70\) is not supported by CUDA 13' 'a V100' "${emulated[@]}" EMU_CC=70
refused 'local rank 1, and the node has 1 GPU' 'more ranks than GPUs' "${emulated[@]}" \
    RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
run "$BIN/dttrain" "${flags[@]}"
like "$err" 'this dttrain computes on processors' 'dttrain says that it has no kernels for GPUs'
if ! ldconfig -p | grep -q libcuda.so.1; then
    want=1 refused "no driver of NVIDIA's here" 'no driver' HOME="$HOME"
    settings model=mlp hidden=16 epochs=1 batch=8 train_size=8 test_size=8 threads=1
    ok 'without a driver auto computes on the processor' train none "$cuda"
fi

# ---- the same losses ----------------------------------------------------------------------------
small_shapes 20 80 120
common=(print_every=1 threads=1 eval=false epochs=1 batch=4 seed=3 lr=0.02)
small=("${common[@]}" "data=$WORK/shapes80")
# same NAME BOUND KEY=VALUE…: one rank here and there
same() {
    local name=$1 bound=$2
    shift 2
    settings "${small[@]}" "$@"
    ok "$name on the processor" train "$name.cpu" "$BIN/dttrain"
    ok "$name on the GPU" train "$name.gpu" on_gpu "$cuda"
    like "$(cat "$name.gpu/out")" 'kernels cuda sm_80' "$name: computed by the kernels for GPUs"
    ok "$name: 20 steps have the same losses" close "$name.gpu" "$name.cpu" "$bound"
}
same mlp 1e-4 model=mlp hidden=8
settings "${common[@]}" train_size=12 test_size=8 batch=1 model=mlp hidden=8
ok 'images of 32x32 on the processor' train made.cpu "$BIN/dttrain"
ok 'images of 32x32 on the GPU' train made.gpu on_gpu "$cuda"
ok 'images of 32x32 have the same losses' close made.gpu made.cpu 1e-4
like "$(cat mlp.gpu/out)" 'GPU 0 is emulated \(tests only\) \(sm_80\).*driver of CUDA 13\.0' \
    'the start names the GPU and its driver'
like "$(cat made.gpu/out)" 'images of 32x32, in the memory of the GPU' 'images live on the GPU'
small=(print_every=1 threads=1 epochs=2 batch=4 seed=3 lr=0.02 "data=$WORK/shapes20")
same reflected 1e-4 model=mlp hidden=8 flip=true crop_pad=2 crop_fill=reflect eval_views=shift
ok 'evaluations of shifted images have the same losses' \
    close reflected.gpu reflected.cpu 1e-4 eval 2
small=("${common[@]}" "data=$WORK/shapes80")

# ---- checkpoints go both ways -------------------------------------------------------------------
# hands_over NAME FIRST… -- SECOND…: an epoch by the one, the next by the other
hands_over() {
    local name=$1 first=() second=()
    shift
    while [ "$1" != -- ]; do first+=("$1") && shift; done
    shift
    second=("$@")
    settings "${common[@]}" "data=$WORK/shapes20" model=mlp hidden=8 epochs=1
    ok "$name: the first epoch" train "$name" "${first[@]}"
    settings "${common[@]}" "data=$WORK/shapes20" model=mlp hidden=8 epochs=2
    ok "$name: the second epoch" train "$name" "${second[@]}"
    like "$(cat "$name/out")" 'resuming from .*epoch 1, step 5' "$name: goes on where it was"
    ok "$name: the losses are those of one run" close "$name" whole 1e-4
}
settings "${common[@]}" "data=$WORK/shapes20" model=mlp hidden=8 epochs=2
ok 'two epochs on the processor' train whole "$BIN/dttrain"
hands_over to-cpu on_gpu "$cuda" -- "$BIN/dttrain"
hands_over to-gpu "$BIN/dttrain" -- on_gpu "$cuda"

# ---- two ranks ----------------------------------------------------------------------------------
settings "${small[@]}" model=mlp hidden=8
ok 'two ranks on processors' train two.cpu "${two[@]}" "$BIN/dttrain"
# travel NAME BOUND KEY=VALUE…: by NCCL two ranks have the losses of two processors
travel() {
    local name=$1 bound=$2
    shift 2
    settings "${small[@]}" "$@"
    ok "$name: two ranks train on processors" train "$name.cpu" "${two[@]}" "$BIN/dttrain"
    settings "${small[@]}" "$@" collectives=nccl
    ok "$name: two ranks train by NCCL" train "$name.nccl" on_gpu "${two[@]}" "$cuda"
    like "$(cat "$name.nccl/out")" 'from GPU to GPU by NCCL 2\.28\.9 of .*libnccl' \
        "$name: the start names NCCL and its file"
    ok "$name: 10 steps by NCCL have the same losses" close "$name.nccl" "$name.cpu" "$bound"
}
travel buckets 1e-4 model=mlp hidden=32,32 bucket_bytes=4096
travel narrow 1e-2 model=mlp hidden=8 wire=bf16
travel zero 1e-4 model=mlp hidden=32,32 bucket_bytes=4096 zero=true
travel local 1e-4 model=mlp hidden=32,32 bucket_bytes=4096 local_steps=3
settings "${small[@]}" model=mlp hidden=8 collectives=host
ok 'two ranks through the hosts' train two.gpu on_gpu "${two[@]}" "$cuda"
like "$(cat two.gpu/out)" 'gradients travel through the memory of the hosts' 'the start says how'
ok '10 steps of two ranks have the same losses' close two.gpu two.cpu 1e-4
settings "${small[@]}" model=mlp hidden=32,32 bucket_bytes=4096 local_steps=3 \
    collectives=host
ok 'local steps of two ranks through the hosts' train local.gpu on_gpu "${two[@]}" "$cuda"
ok '10 local steps of two ranks have the same losses' close local.gpu local.cpu 1e-4
# shellcheck disable=SC2016 # for the shells of the ranks
mixed='[ $RANK = 0 ] && on=gpu || on=cpu; exec "$0" "$@" --set train.device=$on'
run on_gpu "${two[@]}" bash -c "$mixed" "$cuda" "${flags[@]}"
like "$err$out" 'rank 0 computes on a GPU and rank 1 on a CPU' 'a mix of ranks is refused'

# ---- what ends a run by NCCL --------------------------------------------------------------------
settings "${small[@]}" model=mlp hidden=8
mkdir alone && cp "$GPU/libcuda.so.1" alone
run env LD_LIBRARY_PATH="$PWD/alone" DTTRAIN_EMULATED=1 EMU_DEVICES=2 \
    "${two[@]}" "$cuda" "${flags[@]}"
like "$err$out" 'memory of the hosts: rank 0 has no NCCL: no libnccl\.so\.2 is here' \
    'the start says that there is no NCCL'
is "$status" 0 'a run without NCCL ends well'
# shellcheck disable=SC2016 # for the shells of the ranks
other='[ $RANK = 0 ] || export EMU_NCCL_VERSION=22203; exec "$0" "$@"'
run on_gpu "${two[@]}" bash -c "$other" "$cuda" "${flags[@]}"
like "$err$out" 'rank 0 has NCCL 2\.28\.9 .* and rank 1 has 2\.22\.3 .* do not work together' \
    'two versions are refused'
ok 'a run with two versions fails' [ "$status" -ne 0 ]
run "${two[@]}" "$BIN/dttrain" "${flags[@]}" --set train.collectives=nccl
like "$err$out" 'nccl is for GPUs' 'processors have no NCCL'
settings "${common[@]}" "data=$WORK/shapes120" epochs=6 model=mlp hidden=8 \
    checkpoint_every_steps=2
ok 'the run of a rank that was killed midway ends well' \
    train killed on_gpu "${two[@]}" --max-restarts 1 bash -c "$(dies 2000)" "$cuda"
like "$(cat killed/out)" 'resuming from .*step' 'the next attempt resumed from a checkpoint'
done_testing
