#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Local steps (train.local_steps) as a user has them: a rank that is killed under dtrun costs a
# restart; checkpoints on request end a round; --plan and --dry-run have the bytes of a step; modes
# that do not go together are refused before anything starts.
source "${0%/*}/../lib.sh"

command -v dtrun >/dev/null || skip_all 'there is no dtrun yet'

# start RANKS RESTARTS [KEY=VALUE…]: in the background, all files below $WORK/run.
start() {
    local key sets=()
    for key in model=mlp hidden=64 dataset=shapes train_size=4096 test_size=512 epochs=1000 \
        optimizer=adam lr=0.003 batch=8 print_every=1 threads=1 local_steps=8 "${@:3}"; do
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
checkpoints() { find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | wc -l; }
# shellcheck disable=SC2317 # called through wait_for
has_checkpoint() { [ "$(checkpoints)" -ge 1 ]; }
newest() { # the step of the newest checkpoint
    local path
    path=$(find "$WORK/run/state" -maxdepth 1 -name 'checkpoint-*' | sort | tail -n 1)
    echo $((10#${path##*-}))
}

# ---- a rank is killed, and the run is stopped ---------------------------------------------------
start 2 1 checkpoint_every_steps=8
ok 'two ranks train' wait_for 60 at_least 40
like "$(cat "$WORK/out/train.log")" \
    'rounds of 8 local steps, outer learning rate 0.7 and momentum 0.9' 'the log has the mode'
ok 'checkpoints are made' wait_for 60 has_checkpoint
is "$(($(newest) % 8))" 0 'the checkpoint is of the end of a round'
victim=$(pgrep -P "$(pgrep -P "$agent" | head -n 1)" dttrain | tail -n 1)
before=$(steps)
ok 'a rank is killed' kill -KILL "$victim"
ok 'the run resumes' wait_for 60 grep -q 'resuming from' "$WORK/out/train.log"
ok 'the training continues' wait_for 60 at_least "$((before + 40))"
kill -TERM "$agent"
wait "$agent"
like "$(cat "$WORK/out/train.log")" 'stopped by a signal: checkpoint of epoch [0-9]+, step [0-9]+' \
    'a stop leaves a checkpoint'
is "$(grep -o '"local_steps":[0-9]*' "$WORK/run/summary.json")" '"local_steps":8' \
    'the summary has the mode'
is "$(sed -nE 's/.*"event":"train","step":([0-9]+),.*/\1/p' "$WORK/run/metrics.jsonl" |
    awk 'NR > 1 && $1 != last + 1 { gaps++ } { last = $1 } END { print gaps + 0 }')" 1 \
    'metrics have every step, and one way back'

# ---- a checkpoint on request, inside a round ----------------------------------------------------
rm -rf "$WORK/run"
start 2 0 local_steps=100000 train_size=65536 checkpoint_every_epochs=0
ok 'a long round begins' wait_for 60 at_least 10
is "$(checkpoints)" 0 'no checkpoint is made inside a round'
pkill -USR1 -P "$(pgrep -P "$agent")" dttrain
ok 'SIGUSR1 ends the round with a checkpoint' wait_for 30 has_checkpoint
before=$(steps)
ok 'the next round goes on' wait_for 30 at_least "$((before + 20))"
kill -TERM "$agent"
wait "$agent"

# ---- before a run -------------------------------------------------------------------------------
run dttrain --plan --ranks 2 --network 1 --set train.model=mlp --set train.local_steps=100
is "$status" 0 'a plan with local steps is made'
like "$out" 'in each round of 100 steps' 'the plan has the length of a round'
like "$out" 'all-reduce of 3.4 MB in [0-9]+ buckets?, each of 2 ranks sends 3.4 MB' \
    'the plan has the bytes of a round'
like "$out" ': 34[.0-9]* kB of that for each step' 'the plan has the bytes of a step'
field() { grep -o "\"$1\":[0-9.]*" | head -n 1 | cut -d: -f2; }
plan() { # SETTING…: the predicted milliseconds of a step in a slow network
    dttrain --plan --json --ranks 2 --network 0.1 --set train.model=mlp "$@" |
        field predicted_step_ms
}
plain=$(plan) rounds=$(plan --set train.local_steps=100)
ok "local steps are predicted to be faster there ($rounds ms, $plain ms without)" \
    awk -v a="$rounds" -v b="$plain" 'BEGIN { exit !(a > 0 && a < b / 4) }'
run dttrain --plan --json --ranks 2 --set train.model=mlp --set train.local_steps=100
like "$out" '"local_steps":100,.*"step_sent_bytes":34[0-9]{3},' 'the plan as JSON has both'
for other in pipeline=2 zero=true ema=0.9 lookahead=0.9; do
    run dttrain --plan --ranks 2 --set train.local_steps=8 --set "train.$other"
    is "$status" 2 "train.$other with local steps is refused"
    like "$err" "train.${other%=*} does not go with train.local_steps" 'the error has both options'
done
dtctl up --nodes 2 >/dev/null 2>&1
run dtctl train --dry-run --nodes 2 --set train.model=mlp --set train.local_steps=50
is "$status" 0 'train --dry-run with local steps'
like "$out" 'in each round of 50 steps' 'train --dry-run has the length of a round'
run dtctl train --nodes 2 --set train.model=mlp --set train.local_steps=50 --set train.zero=true
is "$status" 2 'dtctl refuses what does not go together'
like "$err" 'train.zero does not go with train.local_steps' 'the error of dtctl has both options'
done_testing
