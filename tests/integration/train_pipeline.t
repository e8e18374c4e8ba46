#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl train --pipeline on provider local: one flag starts a pipeline over two nodes, with the
# model of one process; a hybrid run loses a rank and continues; plain data parallelism resumes from
# its checkpoint; impossible settings are refused before a run exists.
# shellcheck disable=SC2317 # called through wait_for
source "${0%/*}/../lib.sh"

train() { # NAME ARGUMENT…
    local name=$1
    shift
    dtctl train --name "$name" --set 'train.model=mlp(hidden=64,64,64)' --set train.batch=32 \
        --set train.train_size=512 --set train.test_size=64 --set train.epochs=2 \
        --set train.threads=1 --set train.resume=never "$@"
}
runs() { find .dtctl/default/runs -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
loss() { # NAME: its last loss, to six digits
    grep -o '"final_loss":[0-9.]*' .dtctl/default/runs/"$1"-*/output/summary.json |
        awk -F: '{ printf "%.5f", $NF }'
}
printed() { grep -q 'Epoch: \[1\]\[10/' "$WORK/out/$1.log"; }
rank_of() { # RANK: the process of this rank of a run below $WORK
    local p
    for p in $(pgrep dttrain); do
        if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null |
            grep -cxE "RANK=$1|DTCTL_STATE_DIR=$WORK/.*" | grep -qx 2; then
            echo "$p"
        fi
    done
}

dtctl up --nodes 2 >/dev/null 2>&1

# ---- refused ------------------------------------------------------------------------------------
run train odd --nodes 2 --pipeline 3
is "$status" 2 'three stages on two ranks are a configuration error'
like "$err" 'pipeline is 3, and 2 ranks cannot be divided by it .try: 3 ranks' \
    'the error has the remedy'
run train word --nodes 2 --pipeline 2 --set train.pipeline_schedule=zigzag
like "$err" "'zigzag' is neither gpipe, 1f1b nor.*simple is gpipe" 'words are explained'
run train parts --nodes 2 --pipeline 2 --set train.microbatches=5
like "$err" 'train.batch is 32, which train.microbatches, 5, does not divide' \
    'a batch that is no multiple is explained'
is "$(runs)" 0 'a refused run leaves no record'

# ---- a pipeline ---------------------------------------------------------------------------------
run train one --once
is "$status" 0 'one process trains'
run train two --nodes 2 --pipeline 2
is "$status" 0 'one flag makes a pipeline'
like "$out$err" '1 pipeline of 2 ranks, packed: 4 micro-batches of 8, 1f1b' \
    'the log describes the pipeline'
like "$(loss two)" '^[1-9]\.[0-9]{5}$' 'the pipeline ends with a loss'
is "$(loss two)" "$(loss one)" 'the loss is that of one process'
like "$(cat .dtctl/default/runs/two-*/output/summary.json)" \
    '"pipeline":2,"stages":2,"microbatches":4' 'the summary has its shape'
is "$(stat -c %s .dtctl/default/runs/two-*/output/model/model.safetensors)" \
    "$(stat -c %s .dtctl/default/runs/one-*/output/model/model.safetensors)" 'the model is whole'

# ---- data x pipeline, a killed rank -------------------------------------------------------------
train hybrid --nodes 2 --nproc-per-node 2 --pipeline 2 --max-restarts 1 --set train.epochs=60 \
    --set train.train_size=2048 --set train.checkpoint_every_steps=8 \
    --set train.placement_strategy=spread --set train.pipeline_schedule=interleaved:2 \
    --set train.zero=true >"$WORK/out/hybrid.log" 2>&1 &
follower=$!
ok 'two pipelines of two ranks train' wait_for 60 printed hybrid
victim=$(rank_of 2)
ok 'a rank is killed' kill -KILL "$victim"
ok 'the others begin again at a checkpoint' wait_for 60 \
    grep -qE 'resuming from .*: epoch [0-9]+, step [1-9]' "$WORK/out/hybrid.log"
ok 'the ranks train on' wait_for 60 grep -q 'Epoch: \[3\]' "$WORK/out/hybrid.log"
dtctl stop >/dev/null 2>&1
wait "$follower"
like "$(cat "$WORK/out/hybrid.log")" 'stopped by a signal: checkpoint of epoch' \
    'a stopped run has a checkpoint'

# ---- on in another mode -------------------------------------------------------------------------
run train plain --nodes 1 --nproc-per-node 2 --set train.epochs=5 --set train.train_size=2048 \
    --resume "$(basename .dtctl/default/runs/hybrid-*)"
is "$status" 0 'two data-parallel ranks resume from the checkpoint'
like "$out$err" 'resuming from .* epoch [1-9]' 'the ranks resume in its epoch'
dtctl down -y >/dev/null 2>&1
done_testing
