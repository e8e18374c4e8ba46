#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Vision transformers between PyTorch and dttrain: files of timm, Hugging Face and torchvision,
# positions of other image sizes, and the model file back in PyTorch.
source "${0%/*}/../lib.sh"

[ -n "$PYTHON" ] || skip_all 'no python3 with PyTorch here (make setup installs one)'
helper="$SRC/tests/integration/train_vit.py"
tool=$BUILD/release/tests/tools/nn_logits
[ -x "$tool" ] || tool=$(find "$BUILD" -path '*/tests/tools/nn_logits' -type f | head -n 1)

vit='vit(dim=24,depth=2,heads=3,mlp=2,patch=8)'
linformer='linformer(dim=24,depth=2,heads=3,patch=8,keys=5,pool=mean)'
sets=(--set "train.model=$vit" --set train.train_size=200 --set train.test_size=100
    --set train.epochs=1 --set train.ema=0.5 --set train.batch=40)
ok 'dttrain trains a vision transformer' env -u RANK DTCTL_OUTPUT_DIR=out DTCTL_MODEL_DIR=out \
    DTCTL_STATE_DIR=out/state dttrain "${sets[@]}"

cases=("timm $vit 32" "hugging_face $vit 32" "torchvision $vit 32" "larger $vit 64"
    "smaller $vit 16" "linformer $linformer 32")
checks=()
for case in "${cases[@]}"; do
    read -r kind model size <<<"$case"
    checks+=(-- logits "$kind" "$model" "$size" "$tool")
done
run "$PYTHON" "$helper" "${checks[@]:1}" -- oblong "$vit" "$tool" \
    -- load "$vit" out/model.safetensors
diag "$out" "$err"
for case in "${cases[@]}"; do
    like "$out" "logits ${case%% *}: good" \
    "weights of ${case%% *} give the same logits as in PyTorch"
done
like "$out" 'holds 13 positions, which are no class token and a square' \
    'positions of no square are refused with the reason'
is "$status" 0 'PyTorch loads the model that dttrain trained strictly'
run env -u RANK dttrain --set 'train.model=vit(width=5)'
is "$status" 2 'an unknown field is refused'
like "$err" "model 'vit' has no field 'width', it has dim, depth, heads, mlp, patch" \
    'the error names the unknown field'
done_testing
