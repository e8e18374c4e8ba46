#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The network and the recipe of airbench94, dttrain beside PyTorch in float64: whitening, every
# update with its augmentation, groups and slow weights, the evaluation of six views, and the model
# file in the same network.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_airbench.py"

mkdir data
ok 'images are made' "$PYTHON" "$SRC/tests/integration/train_update.py" data data
keys=(recipe=cifar10-94 'model=airbench(width=4)' batch=80 epochs=3 lr=0.2 seed=5 lookahead_epochs=1
    lookahead_every=3 lookahead_power=1.5 first_layer_epochs=2 whiten_images=100 eval_every_epochs=1
    eval_batch=64)
sets=(--set train.dataset=cifar10 --set train.data=data --set train.print_every=1
    --set train.checkpoint_every_steps=1 --set train.keep_last=1000)
for key in "${keys[@]}"; do sets+=(--set "train.$key"); done
ok 'dttrain trains' env -u RANK DTCTL_OUTPUT_DIR=run DTCTL_MODEL_DIR=run DTCTL_STATE_DIR=run/state \
    dttrain "${sets[@]}"
checks=(whitening updates statistics slow evaluation settled strict)
run "$PYTHON" "$helper" "$(IFS=, && echo "${checks[*]}")" run "${keys[@]}"
diag "$out" "$err"
for what in "${checks[@]}"; do
    like "$out" $'(^|\n)'"$what: good" "$what is as in PyTorch"
done
done_testing
