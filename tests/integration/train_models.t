#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's weights of every ResNet through dttrain's model file, without a step, and back. One
# Python writes all weights, a second one judges all models.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_torch.py"
tool=$BUILD/release/tests/tools/nn_logits
[ -x "$tool" ] || tool=$(find "$BUILD" -path '*/tests/tools/nn_logits' -type f | head -n 1)

cases=("resnet18 cifar" "resnet34 imagenet" "resnet50 imagenet" "resnet50 cifar")
# Weights of others: another type, names that DistributedDataParallel prefixed, no counts of
# batches, another number of classes.
kinds=(BF16 F16 F64)

writes=() judges=()
for case in "${cases[@]}"; do
    read -r name stem <<<"$case"
    dir=$name-$stem
    mkdir "$dir"
    writes+=(-- make "$dir" "$stem" 6 "$name")
    judges+=(-- logits "$dir" "$dir/out/model.safetensors" "$stem" "$tool" "$name")
done
for kind in "${kinds[@]}"; do
    mkdir "$kind"
    writes+=(-- foreign "$kind" "$kind")
    judges+=(-- same "$kind" "$kind/model.safetensors")
done
ok 'PyTorch writes weights' "$PYTHON" "$helper" "${writes[@]:1}"

for case in "${cases[@]}"; do
    read -r name stem <<<"$case"
    dir=$name-$stem sets=()
    for key in dataset=cifar10 "data=$dir" "resume=$dir/weights.safetensors" "stem=$stem" \
        "model=$name" epochs=0; do
        sets+=(--set "train.$key")
    done
    ok "$name, stem $stem: dttrain reads them and writes a model" env -u RANK \
        DTCTL_OUTPUT_DIR="$dir/out" DTCTL_MODEL_DIR="$dir/out" DTCTL_STATE_DIR="$dir/state" \
        dttrain "${sets[@]}"
done
for kind in "${kinds[@]}"; do
    sets=(--set train.dataset=cifar10 --set train.data=resnet18-cifar --set train.epochs=0
        --set "train.weights=$kind/foreign.safetensors")
    dirs=(DTCTL_OUTPUT_DIR="$kind" DTCTL_MODEL_DIR="$kind" DTCTL_STATE_DIR="$kind/state")
    run env -u RANK "${dirs[@]}" dttrain "${sets[@]}"
    is "$status" 1 "$kind: weights for other classes are refused"
    like "$err" 'for other classes: train.new_head' "$kind: the error names train.new_head"
    ok "$kind: dttrain takes the weights without their last layer" \
        env -u RANK "${dirs[@]}" dttrain \
        "${sets[@]}" --set train.new_head=true
done

run "$PYTHON" "$helper" "${judges[@]:1}"
diag "$out" "$err"
for case in "${cases[@]}"; do
    like "$out" "logits ${case/ /-}: good" "${case/ /, stem } has the same logits as in PyTorch"
done
for kind in "${kinds[@]}"; do
    like "$out" "same $kind: good" "$kind: the weights are equal to the last bit"
done
done_testing
