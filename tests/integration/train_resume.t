#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dttrain under dtrun: a run that is asked to stop leaves a checkpoint and resumes from it on
# another number of ranks; a rank that is killed costs a restart, not the run.
source "${0%/*}/../lib.sh"

command -v dtrun >/dev/null || skip_all 'there is no dtrun yet'

# start RANKS RESTARTS EPOCHS [KEY=VALUE…]: in the background, all files below $WORK/run.
start() {
    local key sets=()
    for key in model=mlp hidden=64 dataset=shapes train_size=4096 test_size=512 "epochs=$3" \
        optimizer=sgd lr=0.01 batch=8 print_every=1 threads=1 \
        checkpoint_every_steps="${EVERY:-20}" "${@:4}"; do
        sets+=(--set "train.$key")
    done
    env DTCTL_OUTPUT_DIR="$WORK/run" DTCTL_MODEL_DIR="$WORK/run" DTCTL_STATE_DIR="$WORK/run/state" \
        dtrun --standalone --nproc-per-node "$1" --max-restarts "$2" --no-python dttrain \
        "${sets[@]}" >"$WORK/out/train.log" 2>&1 &
    agent=$!
}
steps() { wc -l <"$WORK/run/metrics.jsonl"; }
# shellcheck disable=SC2317 # called through wait_for
at_least() { [ "$(steps)" -ge "$1" ]; }

start 2 0 1000
ok 'two ranks train' wait_for 60 at_least 30
kill -TERM "$agent"
wait "$agent"
isnt_zero=$?
is "$((isnt_zero != 0))" 1 'a stopped run is no success'
like "$(cat "$WORK/out/train.log")" 'stopped by a signal: checkpoint of epoch [0-9]+, step [0-9]+' \
    'the log names the checkpoint'
is "$(find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | wc -l)" 2 'the last two are kept'
is "$(find "$WORK/run/state" -maxdepth 1 -name '.checkpoint.new' | wc -l)" 0 \
    'no checkpoint is unfinished'
step=$(find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | sort | tail -n 1)
step=$((10#${step##*-}))
# shellcheck disable=SC2016 # no expansion is meant
epoch=$(sed -n 's/.*checkpoint of epoch \([0-9]*\),.*/\1/p' "$WORK/out/train.log")

figure=$(grep -o '"final_loss":[^,]*' "$WORK/run/summary.json")
ok 'only whole epochs have a figure' test "$((epoch > 0))" = "$([ "${figure#*:}" = null ]; echo $?)"

start 3 1 "$((epoch + 5))" # far more steps than pass until the kill
ok 'three ranks resume' wait_for 60 grep -q "resuming from .* step $step\$" "$WORK/out/train.log"
before=$(steps)
ok 'three ranks train' wait_for 60 at_least "$((before + 45))"
victim=$(pgrep -P "$agent" | tail -n 1)
[ -z "$victim" ] || kill -KILL "$victim"
wait "$agent"
is "$?" 0 'one rank is killed, and the run finishes'
like "$(cat "$WORK/run/summary.json")" '"state":"finished"' 'the summary says finished'
is "$(grep -c 'resuming from' "$WORK/out/train.log")" 2 'the run resumed from a checkpoint twice'
ok 'the model is written' test -s "$WORK/run/model.safetensors"

# ---- a stop while the data set is decoded -------------------------------------------------------
rm -rf "$WORK/run"
env DTCTL_OUTPUT_DIR="$WORK/run" DTCTL_CACHE_DIR="$WORK/cache" dttrain --set train.model=mlp \
    --set train.dataset=shapes --set train.train_size=2000000 >"$WORK/out/decode.log" 2>&1 &
pid=$!
ok 'a large data set is decoded' wait_for 60 grep -q 'decoding training data' "$WORK/out/decode.log"
kill -TERM "$pid"
# shellcheck disable=SC2317 # called through wait_for
has_ended() { ! kill -0 "$pid" 2>/dev/null; }
ok 'a signal ends the run that soon' wait_for 10 has_ended
wait "$pid"
is "$?" 143 'the exit status is that of SIGTERM'
like "$(cat "$WORK/out/decode.log")" 'stopped by a signal before the first step' \
    'the log says that no step was made'

# ---- a stop while another rank has no data yet --------------------------------------------------
rm -rf "$WORK/run"
# shellcheck disable=SC2016 # for the shells of the ranks
env DTCTL_OUTPUT_DIR="$WORK/run" DTCTL_CACHE_DIR="$WORK/cache" dtrun --standalone \
    --nproc-per-node 2 --no-python bash -c '[ $RANK = 0 ] || { touch "$0" && exec sleep 600; }
        exec "$@"' "$WORK/out/sleeps" dttrain --set train.model=mlp --set train.dataset=shapes \
    --set train.train_size=64 >"$WORK/out/alone.log" 2>&1 &
pid=$!
ok 'rank 1 sleeps and reads no data' wait_for 30 [ -e "$WORK/out/sleeps" ]
sleep 2 # rank 0 reads its own
ok 'rank 0 waits for it' kill -TERM "$pid"
ok 'a signal ends that wait soon' wait_for 10 has_ended
wait "$pid"
like "$(cat "$WORK/out/alone.log")" 'waiting for rank 1 to have its data: stopped by a signal' \
    'the log says which rank was waited for'

# ---- a checkpoint on request --------------------------------------------------------------------
checkpoints() { find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | wc -l; }
# shellcheck disable=SC2317 # called through wait_for
has_checkpoint() { [ "$(checkpoints)" -ge 1 ]; }
rm -rf "$WORK/run"
EVERY=1000000 start 2 0 1000 checkpoint_every_epochs=0
wait_for 60 at_least 10
is "$(checkpoints)" 0 'no checkpoint is due for long'
guard=$(pgrep -P "$agent")
before=$(steps)
pkill -USR1 -P "$guard" dttrain
ok 'SIGUSR1 makes a checkpoint' wait_for 30 has_checkpoint
step=$(find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | sort | tail -n 1)
step=$((10#${step##*-}))
ok "the checkpoint is of that moment (step $step, $before were done)" test "$step" -gt "$before"
ok 'the training continues' wait_for 30 at_least "$((before + 20))"
kill -TERM "$agent"
wait "$agent"

# ---- each rank with a part of the data -----------------------------------------------------------
records() { # COUNT: as CIFAR-10 has them, labels in turn, pixels by chance
    local i
    for ((i = 0; i < $1; i++)); do
        printf '%b' "\\x0$((i % 10))"
        head -c 3072 /dev/urandom
    done
}
for rank in 0 1; do
    mkdir -p "$WORK/part/$rank"
    for file in data_batch_{1..5} test_batch; do
        records 16 >"$WORK/part/$rank/$file.bin"
    done
done
# shellcheck disable=SC2317 # called through run
parts() { # EPOCHS
    env DTCTL_OUTPUT_DIR="$WORK/sharded" DTCTL_MODEL_DIR="$WORK/sharded" \
        DTCTL_STATE_DIR="$WORK/sharded/state" dtrun --standalone --nproc-per-node 2 --no-python \
        sh -c "exec dttrain --set train.data=$WORK/part/\$RANK --set train.dataset=cifar10 \
        --set train.model=mlp --set train.hidden=16 --set train.epochs=$1 --set train.batch=8 \
        --set train.threads=1 ${*:2}"
}
run parts 1
is "$status" 0 'two ranks train, each on its part'
run parts 2
is "$status" 0 'two ranks resume from their checkpoint'
like "$out$err" 'resuming from .*checkpoint-0000000005: epoch 1' 'the log names the checkpoint'
cp "$WORK/part/1/data_batch_1.bin" "$WORK/part/0/data_batch_2.bin"
run parts 3
is "$((status != 0))" 1 'other data for the rank that reads it is refused'
like "$out$err" 'another experiment: 80 images of other content' \
    'the error says that the data differs'
run parts 3 --set train.resume_other=true --set train.optimizer=sgd
is "$((status != 0))" 1 'a checkpoint of another optimizer is refused'
like "$out$err" 'rank 0 cannot resume: .*optimizer' 'the rank that did not read it has the reason'
run parts 3 --set train.resume_other=true
is "$status" 0 'other data is accepted with the flag'
done_testing
