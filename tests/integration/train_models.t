#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's weights of every ResNet through dttrain's model file, without a step, and back.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_torch.py"
tool=$BUILD/release/tests/tools/nn_logits
[ -x "$tool" ] || tool=$(find "$BUILD" -path '*/tests/tools/nn_logits' -type f | head -n 1)

for case in "resnet18 cifar" "resnet34 imagenet" "resnet50 imagenet" "resnet50 cifar"; do
    read -r name stem <<<"$case"
    dir=$name-$stem
    mkdir "$dir"
    ok "$name, stem $stem: PyTorch makes weights" "$PYTHON" "$helper" make "$dir" "$stem" 6 "$name"
    sets=()
    for key in dataset=cifar10 "data=$dir" "resume=$dir/weights.safetensors" "stem=$stem" \
        "model=$name" epochs=0; do
        sets+=(--set "train.$key")
    done
    ok "$name, stem $stem: dttrain reads them and writes a model" env -u RANK \
        DTCTL_OUTPUT_DIR="$dir/out" DTCTL_MODEL_DIR="$dir/out" DTCTL_STATE_DIR="$dir/state" \
        dttrain "${sets[@]}"
    run "$PYTHON" "$helper" logits "$dir" "$dir/out/model.safetensors" "$stem" "$tool" "$name"
    diag "$out" "$err"
    is "$status" 0 "$name, stem $stem: the same logits in PyTorch"
done

# Weights of others: another type, names that DistributedDataParallel prefixed, no counts of
# batches, another number of classes.
for kind in BF16 F16 F64; do
    ok "$kind: PyTorch writes weights" "$PYTHON" "$helper" foreign resnet18-cifar "$kind"
    sets=(--set train.dataset=cifar10 --set train.data=resnet18-cifar --set train.epochs=0
        --set train.weights=resnet18-cifar/foreign.safetensors)
    dirs=(DTCTL_OUTPUT_DIR="$kind" DTCTL_MODEL_DIR="$kind" DTCTL_STATE_DIR="$kind/state")
    run env -u RANK "${dirs[@]}" dttrain "${sets[@]}"
    is "$status" 1 "$kind: weights for other classes are refused"
    like "$err" 'for other classes: train.new_head' "$kind: the error names train.new_head"
    ok "$kind: dttrain takes the weights without their last layer" \
        env -u RANK "${dirs[@]}" dttrain \
        "${sets[@]}" --set train.new_head=true
    run "$PYTHON" "$helper" same resnet18-cifar "$kind/model.safetensors"
    diag "$out" "$err"
    is "$status" 0 "$kind: the weights are equal to the last bit"
done
done_testing
