#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stages of a pipeline on GPUs (train.pipeline): micro-batches travel by NCCL or through the hosts,
# and the losses are those of a pipeline on processors; also with copies of the pipeline, several
# stages of a rank, sharded updates, running statistics, bf16, and the scale of the loss of f16. A
# checkpoint goes to one processor and back, and the loss of a rank ends all others by name.
# shellcheck disable=SC2317 # functions that ok calls
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"

small_shapes 24 120
common=(print_every=1 threads=1 epochs=1 batch=4 seed=3 lr=0.02 pipeline=2 "data=$WORK/shapes24")
STEPS_MIN=6 # of which losses are compared
vit='model=vit(dim=16,depth=2,heads=2,mlp=2,patch=4)'
four=("$BIN/dtrun" --standalone --nproc-per-node 4 --no-python)
links='micro-batches( and gradients)? travel from GPU to GPU by NCCL'
evaluations() { # FOLDER: loss and accuracy of each
    sed -n 's/.*"event":"eval".*"loss":\([^,}]*\).*"acc1":\([^,}]*\).*/\1 \2/p' \
        "$1"/dttrain-output/metrics.jsonl
}
cpu_only=()
# same NAME BOUND RANKS KEY=VALUE…: here and there; with $cpu_only on processors alone
same() {
    local name=$1 bound=$2 ranks=$3
    shift 3
    local run=("$BIN/dtrun" --standalone --nproc-per-node "$ranks" --no-python)
    ok "$name: a pipeline of processors trains" \
        train "$name.cpu" "${run[@]}" "$BIN/dttrain" -- "$@" "${cpu_only[@]}"
    ok "$name: a pipeline of GPUs trains" train "$name" on_gpu "${run[@]}" "$cuda" -- "$@"
    ok "$name: the losses are the same" close "$name" "$name.cpu" "$bound"
    is "$(evaluations "$name" | wc -l)" 1 "$name: the pipeline evaluates" ||
        diag "$(tail -n 3 "$name/out")"
    # shellcheck disable=SC2016 # for awk
    ok "$name: the evaluation is the same" awk -v bound="$bound" '
        { d = $1 - $3; exit (d < 0 ? -d : d) > bound * $3 || $2 != $4 }' \
        <(paste <(evaluations "$name") <(evaluations "$name.cpu"))
}

same plain 1e-5 2 "$vit"
like "$(cat plain/out)" ": stages of a pipeline pass micro-batches on; $links 2" \
    'plain: the start says how micro-batches travel'
same copies 1e-5 4 "$vit" batch=2 zero=true bucket_bytes=4096
like "$(cat copies/out)" 'micro-batches and gradients travel from GPU' \
    'copies: the start names both'
same stages 1e-5 2 "$vit" pipeline_schedule=interleaved:2 microbatches=4
like "$(cat stages/out)" "kernel by kernel: each rank has several stages; $links" \
    'stages: the start says why it waits for every step'
same circle 1e-5 3 "$vit" batch=3 pipeline=3 pipeline_schedule=interleaved:2 microbatches=3
same hosts 1e-5 4 "$vit" batch=2 collectives=host
like "$(cat hosts/out)" 'micro-batches and gradients travel through the memory of the hosts' \
    'hosts: the start says so'
# In bf16 kernels for GPUs also keep activations in it, and so does the reference; of processors
# fast ones alone do.
cpu_only=(kernels=reference)
same bf16 1e-3 2 "$vit" dtype=bf16 pipeline_schedule=gpipe
cpu_only=()
# A T4 keeps floats, and so do the other ranks of its pipeline.
# shellcheck disable=SC2016 # for the shells of the ranks
older='[ $RANK = 0 ] || export EMU_CC=75; exec "$0" "$@"'
ok 'bf16: a pipeline of T4s trains' train t4 on_gpu env EMU_CC=75 "${two[@]}" "$cuda" -- "$vit" \
    dtype=bf16
ok 'bf16: a T4 behind a newer GPU trains' train older on_gpu "${two[@]}" bash -c "$older" "$cuda" \
    -- "$vit" dtype=bf16
ok 'bf16: the losses are those of floats in memory' close older t4 1e-4
ok 'bf16: they are not those of bfloat16 in memory' fails close older bf16 1e-4
# Batch norm of few numbers is steep, so these steps are small.
resnet=('model=resnet18(stem=cifar,width=2)' batch=4 microbatches=2 optimizer=sgd momentum=0
    lr=0.0005 clip_norm=1)
same resnet 1e-4 2 "${resnet[@]}"

# ---- the scale of the loss ----------------------------------------------------------------------
calm=("$vit" optimizer=sgd momentum=0 lr=0.001) # a step that overflows may be missing
ok 'f16: a pipeline of processors takes small steps' train calm.cpu "${two[@]}" "$BIN/dttrain" -- \
    "${calm[@]}"
ok 'f16: a pipeline of T4s trains' train calm on_gpu env EMU_CC=75 "${two[@]}" "$cuda" -- \
    "${calm[@]}" dtype=f16
ok 'f16: the losses are those of float' close calm calm.cpu 2e-2
ok 'f16: several stages of a rank are refused' fails train refused on_gpu "${two[@]}" "$cuda" -- \
    "${calm[@]}" dtype=f16 pipeline_schedule=interleaved:2
like "$(cat refused/out)" 'dtype is f16, and each rank has several stages.*dtype bf16' \
    'f16: the refusal says why'
ok 'f16: more micro-batches than losses that a step keeps are refused' fails train many on_gpu \
    "${two[@]}" "$cuda" -- "${calm[@]}" dtype=f16 batch=65 microbatches=65
like "$(cat many/out)" 'dtype is f16, and a step has too many micro-batches' \
    'f16: this refusal says why, too'
ok 'graph: a pipeline is refused' fails train graph on_gpu "${two[@]}" "$cuda" -- "$vit" graph=on
like "$(cat graph/out)" 'train.graph is on, and stages of a pipeline pass micro-batches on' \
    'graph: the refusal says why'

# ---- checkpoints --------------------------------------------------------------------------------
ok 'a processor trains two epochs' train whole "$BIN/dttrain" -- "$vit" pipeline=1 epochs=2
ok 'a pipeline of GPUs trains an epoch' train turns on_gpu "${two[@]}" "$cuda" -- "$vit"
ok 'a processor trains another one' train turns "$BIN/dttrain" -- "$vit" pipeline=1 epochs=2
like "$(cat turns/out)" 'resuming from .*epoch 1, step 6' \
    'the processor resumes where the pipeline has ended'
ok 'the losses are those of one run' close turns whole 1e-4
ok 'a processor trains the first epoch' train back "$BIN/dttrain" -- "$vit" pipeline=1
ok 'a pipeline of GPUs trains the second epoch' train back on_gpu "${two[@]}" "$cuda" -- "$vit" \
    epochs=2
ok 'the losses of the pipeline are those of one run' close back whole 1e-4

# ---- a rank is lost -----------------------------------------------------------------------------
ok 'the run of a stage that was killed midway ends well' train killed on_gpu \
    "${four[@]}" --max-restarts 1 bash -c "$(dies 3000)" "$cuda" -- "$vit" \
    "data=$WORK/shapes120" batch=2 checkpoint_every_steps=2
for rank in 0 2 3; do
    like "$(cat killed/out)" "rank $rank, .*: rank 1 .* ended in the middle of a collective" \
        "rank $rank names the rank that was killed"
done
like "$(cat killed/out)" 'resuming from .*step' 'the next attempt resumed from a checkpoint'
done_testing
