#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Updates that dttrain makes against PyTorch's, in float64 and from the same checkpoint:
# optimizers, weight decay, accumulation, clipping, bfloat16.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_update.py"

mkdir data
ok 'images are made' "$PYTHON" "$helper" data data

names=() checks=()
# updates NAME COUNT KEY=VALUE…: a run with a checkpoint of each step, and a check of so many of its
# last updates, of each where PyTorch takes little time for them.
updates() {
    local name=$1 count=$2 key sets=()
    shift 2
    for key in dataset=cifar10 data=data epochs=1 "$@" seed=0 flip=false eval=false print_every=1 \
        checkpoint_every_steps=1 keep_last=1000; do
        sets+=(--set "train.$key")
    done
    ok "$name: dttrain trains" env -u RANK DTCTL_OUTPUT_DIR="$name" DTCTL_MODEL_DIR="$name" \
        DTCTL_STATE_DIR="$name/state" dttrain "${sets[@]}"
    names+=("$name")
    checks+=(-- "$name" "updates=$count" "$@")
}

mlp=(model=mlp "hidden=64,32" batch=16)
updates sgd 6 "${mlp[@]}" optimizer=sgd lr=0.05 momentum=0.9 nesterov=true weight_decay=0.5 \
    decay=weights clip_norm=1 accumulate=3 label_smoothing=0.1
updates adam 9 "${mlp[@]}" optimizer=adam lr=0.001 weight_decay=0.1 accumulate=2
updates adamw 19 "${mlp[@]}" optimizer=adamw lr=0.001 weight_decay=5 decay=weights clip_norm=0.5
updates resnet 1 model=resnet18 stem=imagenet batch=40 optimizer=sgd lr=0.02 momentum=0.9 \
    weight_decay=0.01 decay=weights clip_norm=2 accumulate=2
# Schedules; the update of each step is made with PyTorch's rate.
small=(model=mlp hidden=8 batch=80 optimizer=sgd lr=0.05 momentum=0.9)
updates step 15 "${small[@]}" epochs=4 schedule=step step_epochs=2 gamma=0.3 ema=0.9
updates multistep 15 "${small[@]}" epochs=4 schedule=multistep milestones=1,3 gamma=0.5
updates exponential 11 "${small[@]}" epochs=3 schedule=exponential gamma=0.7 ema=0.99
updates cosine 15 "${small[@]}" epochs=4 schedule=cosine min_lr=0.01 warmup_epochs=0.5
updates linear 11 "${small[@]}" epochs=3 schedule=linear min_lr=0.02 warmup_epochs=0.75
updates onecycle 15 "${small[@]}" epochs=4 schedule=onecycle
updates triangle 15 "${small[@]}" epochs=4 schedule=triangle peak=0.25
# Gradients (an update of plain SGD is one) and optimizers, odd sizes and a partial last batch.
vit='vit(dim=30,depth=2,heads=3,mlp=2,patch=8)' linformer='linformer(dim=24,depth=2,heads=3,patch=8'
updates vit-gradient 1 "model=$vit" batch=75 accumulate=3 optimizer=sgd lr=1 momentum=0
updates vit-sgd 4 "model=$vit" batch=75 optimizer=sgd lr=0.05 momentum=0.9 nesterov=true \
    weight_decay=0.1 decay=weights label_smoothing=0.1
updates vit-adam 4 "model=$vit" batch=75 optimizer=adam lr=0.001 weight_decay=0.01
updates vit-adamw 2 "model=$vit" batch=75 accumulate=2 optimizer=adamw lr=0.001 weight_decay=0.5 \
    decay=weights clip_norm=1
updates linformer-gradient 1 "model=$linformer,keys=5,pool=mean)" batch=75 accumulate=3 \
    optimizer=sgd lr=1 momentum=0
updates linformer-adamw 4 "model=$linformer,keys=21)" batch=75 optimizer=adamw lr=0.001 \
    weight_decay=0.5 decay=weights
# Products in bfloat16, beside PyTorch's. Its convolutions in bfloat16 take minutes where the
# processor has none: there test_nn_step compares those of a ResNet with the reference kernels.
updates bf16-mlp 6 "${mlp[@]}" dtype=bf16 optimizer=sgd lr=0.05 momentum=0.9
updates bf16-vit 1 "model=$vit" dtype=bf16 batch=75 optimizer=sgd lr=0.05 momentum=0
updates bf16-linformer 1 "model=$linformer,keys=5)" dtype=bf16 batch=75 optimizer=sgd lr=0.05 \
    momentum=0
if grep -qw avx512_bf16 /proc/cpuinfo; then
    updates bf16-resnet 2 model=resnet18 stem=imagenet batch=40 dtype=bf16 optimizer=sgd lr=0.02 \
        momentum=0
else
    skip 2 "PyTorch's convolutions in bfloat16 take minutes here"
fi

run "$PYTHON" "$helper" check "${checks[@]:1}"
diag "$out" "$err"
for name in "${names[@]}"; do
    like "$out" $'(^|\n)'"$name: good" "$name: PyTorch makes the same updates"
done
done_testing
