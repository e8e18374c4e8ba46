#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dttrain against PyTorch on the same weights and images: the losses of 10 steps,
# and the model it writes loaded into the same ResNet in PyTorch.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_torch.py"
tool=$BUILD/release/tests/tools/nn_logits
[ -x "$tool" ] || tool=$(find "$BUILD" -path '*/tests/tools/nn_logits' -type f | head -n 1)

# train DIR STEM OPTIMIZER LR KEY=VALUE…: the run that train_torch.py makes, by dttrain.
# shellcheck disable=SC2317 # called through ok
train() {
    local dir=$1 stem=$2 optimizer=$3 lr=$4 key sets=()
    shift 4
    for key in "$@" dataset=cifar10 "data=$dir" "resume=$dir/weights.safetensors" seed=0 \
        "stem=$stem" "optimizer=$optimizer" "lr=$lr" batch=32 label_smoothing=0.1 \
        flip=false normalize=imagenet print_every=1 checkpoint_every_epochs=0; do
        sets+=(--set "train.$key")
    done
    env -u RANK DTCTL_OUTPUT_DIR="$dir/$optimizer" DTCTL_MODEL_DIR="$dir/$optimizer" \
        DTCTL_STATE_DIR="$dir/$optimizer/state" dttrain "${sets[@]}"
}

mkdir imagenet
# Learning rates are low: after that batch norm multiplies rounding errors within a few steps, in
# PyTorch's own float against its own double as well.
cases=("sgd 0.0000005 1 weight_decay=1e-4 momentum=0.9 nesterov=true"
    "adam 0.0000005 1 weight_decay=1e-4") # each update of others: train_update.t
trains=() compares=()
for case in "${cases[@]}"; do
    read -r optimizer lr epochs rest <<<"$case"
    trains+=(-- train imagenet "$optimizer" "$lr" "$epochs" "$optimizer.losses")
    compares+=(-- compare "$optimizer.losses" "imagenet/$optimizer/metrics.jsonl" 1e-4)
done
ok 'PyTorch makes weights and images, and trains' \
    "$PYTHON" "$helper" make imagenet imagenet 5 "${trains[@]}"
for case in "${cases[@]}"; do
    read -r optimizer lr epochs rest <<<"$case"
    # shellcheck disable=SC2086 # several words
    ok "$optimizer: dttrain trains" train imagenet imagenet "$optimizer" "$lr" \
        "epochs=$epochs" $rest
done
run "$PYTHON" "$helper" "${compares[@]:1}" \
    -- logits imagenet imagenet/adam/model.safetensors imagenet "$tool"
diag "$out" "$err"
for optimizer in sgd adam; do
    like "$out" "compare $optimizer.losses: good" \
        "$optimizer: every loss and the evaluation agree to 1e-4"
done
like "$out" 'logits imagenet: good' 'the model that dttrain wrote gives the same logits in PyTorch'

done_testing
