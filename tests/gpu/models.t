#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whole steps of the models that are shipped, narrow ones, by the kernels that are shipped on the
# stand-in for the driver: convolutions, batch norm and pooling of the ResNets, attention of the
# transformers. The losses are those of the CPU backend, also of two ranks, in bf16 and in tf32, and
# checkpoints with running statistics go from one to the other.
# shellcheck disable=SC2317 # functions that ok calls
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"

# Small images, and steps so small that rounding does not grow: batch norm of few numbers is steep.
small_shapes 128 80 40
common=(print_every=1 threads=1 eval=false epochs=1 seed=3 "data=$WORK/shapes40")
STEPS_MIN=5 # of which losses are compared

# same NAME BOUND KEY=VALUE…: with $cpu_only on processors alone
same() {
    local name=$1 bound=$2
    shift 2
    ok "$name: the CPU backend trains" train "$name.cpu" "$BIN/dttrain" -- "$@" "${cpu_only[@]}"
    ok "$name: the kernels for GPUs train" train "$name.gpu" on_gpu "$cuda" -- "$@"
    like "$(cat "$name.gpu/out")" 'kernels cuda sm_80' "$name: the start names the kernels"
    ok "$name: the losses are the same" close "$name.gpu" "$name.cpu" "$bound"
}
cpu_only=()
resnet18=('model=resnet18(stem=cifar,width=2)' batch=8 lr=0.002)
vit=('model=vit(dim=16,depth=2,heads=2,mlp=2,patch=4)' batch=4 lr=0.02)
same resnet18 1e-4 "${resnet18[@]}"
ok 'resnet18-again: activations are computed again' train resnet18-again on_gpu \
    env EMU_GRAPH_REPORT=2 "$cuda" -- "${resnet18[@]}" recompute=blocks
ok 'resnet18-again: convolutions leave sums for the batch norms behind them' \
    grep -q 'kernel batchnorm_tiles$' resnet18-again/out
is "$(losses resnet18-again)" "$(losses resnet18.gpu)" \
    'resnet18-again: the losses are the same to the last bit'
same resnet50 1e-3 'model=resnet50(stem=cifar,width=2)' batch=8 lr=0.0001
same vit 1e-5 "${vit[@]}"
# In bf16 kernels for GPUs also keep activations in it, and so does the reference; of processors
# fast ones alone do.
cpu_only=(kernels=reference)
same vit-bf16 1e-3 "${vit[@]}" dtype=bf16
linformer=('model=linformer(dim=16,depth=1,heads=2,mlp=2,patch=4,keys=2)' batch=8 lr=0.02)
same linformer-bf16 1e-3 "${linformer[@]}" dtype=bf16
cpu_only=()
# Processors have no tf32, so float judges it. A product is off by 2^-10 at most, about 1e-3; batch
# norm of few numbers makes more of it, also of small steps.
tf32() { # NAME BOUND KEY=VALUE…
    local name=$1 bound=$2
    shift 2
    ok "$name-tf32: the kernels for GPUs train" train "$name-tf32" on_gpu "$cuda" -- "$@" dtype=tf32
    ok "$name-tf32: the losses are those of float" close "$name-tf32" "$name.cpu" "$bound"
    ok "$name-tf32: the losses are not those of float to the last digit" \
        fails close "$name-tf32" "$name.cpu" 1e-6
}
tf32 vit 1e-3 "${vit[@]}"
calm=("${resnet18[@]}" optimizer=sgd momentum=0 clip_norm=1 lr=0.001)
ok 'calm: the CPU backend trains' train calm.cpu "$BIN/dttrain" -- "${calm[@]}"
tf32 calm 5e-3 "${calm[@]}"
cpu_only=(kernels=reference)
same calm-bf16 2e-2 "${calm[@]}" dtype=bf16
cpu_only=()
ok 'vit-f16: the kernels for a T4 train' train vit-f16 on_gpu env EMU_CC=75 "$cuda" -- "${vit[@]}" \
    dtype=f16
like "$(cat vit-f16/out)" 'kernels cuda sm_75' 'vit-f16: the start names the kernels'
ok 'vit-f16: the losses are those of float' close vit-f16 vit.cpu 1e-2
more=("${resnet18[@]}" "data=$WORK/shapes80") # the first steps may overflow
ok 'resnet18-f16: the kernels for GPUs train' train resnet18-f16 on_gpu "$cuda" -- \
    "${more[@]}" dtype=f16
n=$(grep -c '"grad_norm":null' resnet18-f16/dttrain-output/metrics.jsonl)
ok "resnet18-f16: the gradients of the first steps overflow ($n)" test "$n" -ge 1 -a "$n" -le 3
ok 'the CPU backend trains without a change' train still "$BIN/dttrain" -- "${more[@]}" lr=1e-9
# shellcheck disable=SC2016 # for awk
ok 'resnet18-f16: that step has no update, and the next ones have' awk '
    { d = $1 - $2; d = d < 0 ? -d : d; off = d > 1e-2 * $2 }
    NR <= 2 && off { exit 1 } NR > 2 && off { moved = 1 } END { exit !moved || NR != 10 }' \
    <(paste <(losses resnet18-f16) <(losses still))
ok 'f16 is refused on processors' fails train f16.cpu "$BIN/dttrain" -- "${vit[@]}" dtype=f16
like "$(cat f16.cpu/out)" 'dtype is f16, and this run computes on processors.*dtype bf16' \
    'f16: the refusal says why'
ok 'tf32 is refused on processors' fails train tf32.cpu "$BIN/dttrain" -- "${vit[@]}" dtype=tf32
like "$(cat tf32.cpu/out)" \
    'dtype is tf32, which needs a GPU of sm_80 .*this run computes on processors .*dtype f32' \
    'tf32: the refusal says why'
ok 'tf32 is refused on a T4' fails train tf32.t4 on_gpu env EMU_CC=75 "$cuda" -- "${vit[@]}" \
    dtype=tf32
like "$(cat tf32.t4/out)" 'dtype is tf32, which needs .* and GPU 0 is emulated .*\(sm_75\)' \
    'tf32: the refusal names the GPU'
ok 'tf32: the refusals come before any file' test ! -e tf32.cpu/dttrain-output -a \
    ! -e tf32.t4/dttrain-output
same linformer 1e-5 "${linformer[@]}"

# ---- a GPU of 9.0 has products of its own -------------------------------------------------------
# hopper DTYPE BOUND PRODUCT MAPS: this product is in the graph of a step, and the losses are right;
# with MAPS 0 the driver makes no tensor maps
hopper() {
    local dtype=$1 bound=$2 product=$3 name=wide-$1-$4
    local wide=("data=$WORK/shapes128" model=mlp hidden=128 batch=128 epochs=10 lr=0.001)
    [ -e wide.cpu ] ||
        ok 'wide: the CPU backend trains' train wide.cpu "$BIN/dttrain" -- "${wide[@]}"
    ok "$name: an H100 trains" train "$name" on_gpu env EMU_CC=90 EMU_GRAPH_REPORT=2 \
        EMU_TENSOR_MAPS="$4" "$cuda" -- "${wide[@]}" "dtype=$dtype"
    like "$(cat "$name/out")" 'kernels cuda sm_90' "$name: the start names the kernels"
    ok "$name: the step has $product" grep -q "kernel $product$" "$name/out"
    ok "$name: the losses are those of float" close "$name" wide.cpu "$bound"
}
hopper bf16 1e-2 gemm_tma_bf16 1
hopper f16 1e-2 gemm_tma_half 1
hopper tf32 1e-3 gemm_tma_tf32 1
hopper bf16 1e-2 gemm_hopper_bf16 0

# ---- two ranks ----------------------------------------------------------------------------------
ok 'two ranks of the CPU backend train' train two.cpu "${two[@]}" "$BIN/dttrain" -- "${vit[@]}"
ok 'two ranks with GPUs train' train two.gpu on_gpu "${two[@]}" "$cuda" -- "${vit[@]}"
like "$(cat two.gpu/out)" 'from GPU to GPU by NCCL' 'gradients travel by NCCL'
ok 'the losses of two ranks are the same' close two.gpu two.cpu 1e-5
small=("${vit[@]}" optimizer=sgd momentum=0 lr=0.001) # a step that overflows in f16 may be missing
ok 'two ranks of the CPU backend take small steps' train small.cpu "${two[@]}" "$BIN/dttrain" -- \
    "${small[@]}"
ok 'two ranks with GPUs train in f16' train two.f16 on_gpu "${two[@]}" "$cuda" -- "${small[@]}" \
    dtype=f16
ok 'the losses of two ranks in f16 are those of float' close two.f16 small.cpu 2e-2
four=("$BIN/dtrun" --standalone --nproc-per-node 4 --no-python)
ok 'four ranks of the CPU backend train' train four.cpu "${four[@]}" "$BIN/dttrain" -- "${vit[@]}" \
    batch=2
ok 'four ranks with GPUs train' train four.gpu on_gpu "${four[@]}" "$cuda" -- "${vit[@]}" batch=2
like "$(cat four.gpu/out)" 'from GPU to GPU by NCCL' 'gradients of four ranks travel by NCCL'
ok 'the losses of four ranks are the same' close four.gpu four.cpu 1e-5

# ---- running statistics in a checkpoint ---------------------------------------------------------
ok 'two epochs of the CPU backend' train whole "$BIN/dttrain" -- "${resnet18[@]}" epochs=2
ok 'one epoch by the kernels for GPUs' train mixed on_gpu "$cuda" -- "${resnet18[@]}"
ok 'the CPU backend resumes it' train mixed "$BIN/dttrain" -- "${resnet18[@]}" epochs=2 eval=true
like "$(cat mixed/out)" 'resuming from .*epoch 1, step 5' \
    'the CPU backend goes on where the GPU was'
ok 'the losses are those of one run' close mixed whole 1e-4

# ---- from float to tf32 and back ----------------------------------------------------------------
mlp=("data=$WORK/shapes40" model=mlp hidden=8 batch=8 lr=0.02)
ok 'three epochs in float' train float "$BIN/dttrain" -- "${mlp[@]}" epochs=3
ok 'an epoch in float' train turns "$BIN/dttrain" -- "${mlp[@]}"
ok 'an epoch in tf32' train turns on_gpu "$cuda" -- "${mlp[@]}" dtype=tf32 epochs=2
like "$(cat turns/out)" 'resuming from .*epoch 1, step 5' 'tf32 goes on where float was'
ok 'another in float' train turns "$BIN/dttrain" -- "${mlp[@]}" epochs=3
like "$(cat turns/out)" 'resuming from .*epoch 2, step 10' 'float goes on where tf32 was'
ok 'the losses are those of one run in float' close turns float 1e-2
ok 'the losses are not those of float to the last digit' fails close turns float 1e-6

# ---- the scale of the loss in a checkpoint ------------------------------------------------------
f16=("data=$WORK/shapes40" model=mlp hidden=8 batch=4 lr=1 dtype=f16)
# scale FOLDER STEP: of that checkpoint, and the updates since it changed
scale() {
    grep -ao '"loss_scale[a-z_]*":"[^"]*"' \
        "$1/dttrain-output/state/checkpoint-$(printf %010d "$2")/state.safetensors"
}
overflows() { # FOLDER: steps without an update
    grep -c '"grad_norm":null' "$1/dttrain-output/metrics.jsonl"
}
ok 'f16: two epochs' train scaled.whole on_gpu "$cuda" -- "${f16[@]}" epochs=2
ok 'f16: one epoch' train scaled on_gpu "$cuda" -- "${f16[@]}"
first=$(scale scaled 10) overflown=$(overflows scaled)
ok 'f16: the scale of the loss has changed in the first epoch' [ "$overflown" -ge 1 ]
like "$first" "\"loss_scale\":\"$((65536 >> overflown))\"" \
    'f16: the checkpoint has the scale of the loss'
for name in cpu two old; do cp -r scaled scaled.$name; done
ok 'f16: the second epoch' train scaled on_gpu "$cuda" -- "${f16[@]}" epochs=2
is "$(losses scaled)" "$(losses scaled.whole)" \
    'f16: the losses are those of one run to the last bit'
is "$(scale scaled 20)" "$(scale scaled.whole 20)" 'f16: so is the scale of the loss'
ok 'f16: the CPU backend goes on' train scaled.cpu "$BIN/dttrain" -- "${f16[@]}" dtype=f32 lr=0.01 \
    epochs=2
is "$(scale scaled.cpu 20)" "$first" 'f16: its checkpoint has the same scale'
for name in two cpu; do
    n=$(overflows scaled.$name) gpus=(on_gpu "$cuda")
    [ $name = cpu ] || gpus=(on_gpu "${two[@]}" "$cuda")
    ok "f16: $name goes on by GPUs" train scaled.$name "${gpus[@]}" -- "${f16[@]}" lr=0.01 \
        epochs=3
    is "$(overflows scaled.$name)" "$n" "f16: $name begins with the scale of the checkpoint"
done
LC_ALL=C sed -i 's/"loss_scale"/"older_scal"/' scaled.old/dttrain-output/state/*/state.safetensors
ok 'f16: a checkpoint without a scale' train scaled.old on_gpu "$cuda" -- "${f16[@]}" lr=0.01 \
    epochs=3
ok 'f16: it begins at 65536' [ "$(overflows scaled.old)" -gt "$overflown" ]
done_testing
