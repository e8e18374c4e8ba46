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
done_testing
