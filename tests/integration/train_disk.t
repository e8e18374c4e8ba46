#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full disk under the metrics and logs of dttrain: training continues, written data stays valid,
# and lost data is counted. Under required files it is an error, and so is a limit of their size.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
mounted=()
unshare --mount true 2>/dev/null || skip_all 'this machine lets nobody mount a small disk'
[ -n "${DISK_INSIDE-}" ] || DISK_INSIDE=1 TEST_WORK=$WORK exec unshare --mount "$SCRIPT"

small() { mkdir -p "$1" && mount -t tmpfs -o size="$2" tmpfs "$1" && mounted+=("$1"); }
train() { # NAME: two ranks; its folders are below NAME
    local key sets=()
    for key in dataset=shapes model=mlp hidden=16 epochs=2 train_size=1024 test_size=128 batch=8 \
        print_every=1 threads=1; do
        sets+=(--set "train.$key")
    done
    run env DTCTL_OUTPUT_DIR="$WORK/$1/output" DTCTL_MODEL_DIR="$WORK/$1/model" \
        DTCTL_STATE_DIR="$WORK/$1/state" DTCTL_CACHE_DIR="$WORK/cache" timeout 120 dtrun \
        --standalone --nproc-per-node 2 --no-python dttrain "${sets[@]}"
}
whole() { # FILE: nothing but whole lines of JSON, and some
    [ -s "$1" ] && [ "$(tail -c 1 "$1" | od -An -c | tr -d ' ')" = '\n' ] &&
        ! grep -qv '^{.*}$' "$1"
}

train plenty
is "$status" 0 'training with free disk space succeeds' || diag "$err"
lines=$(wc -l <plenty/output/metrics.jsonl)
unlike "$(cat plenty/output/summary.json)" metrics_lost 'nothing is lost'

small "$WORK/tight/output" 16k
train tight
is "$status" 0 'a full disk for metrics: training continues' || diag "$err"
like "$err" "metrics cannot be written.*node=[^ ]+ path=$WORK/tight/output/metrics.jsonl errno=28" \
    'the log names node, path and errno'
is "$(grep -c 'metrics cannot be written' <<<"$err")" 1 'the log has this once'
ok 'the metrics file is valid' whole tight/output/metrics.jsonl
kept=$(wc -l <tight/output/metrics.jsonl)
lost=$(sed -n 's/.*metrics were lost lines=\([0-9]*\).*/\1/p' <<<"$err")
ok "lost metrics are counted ($kept kept, $lost lost of $lines)" \
    test "$((kept + lost))" -ge "$lines" -a "$kept" -gt 0
ok 'the model is the same' cmp plenty/model/model.safetensors tight/model/model.safetensors

small "$WORK/none/state" 16k
train none
is "$status" 1 'no room for checkpoints is an error'
like "$err" 'No space left on device' 'the error has the reason'

limit=$(ulimit -S -f)
ulimit -S -f 100 # KiB
train large
ulimit -S -f "$limit"
is "$status" 1 'a file beyond the limit of its size is an error'
like "$err" 'dttrain: .*: File too large' 'the error has this reason'
for dir in "${mounted[@]}"; do umount "$dir"; done
done_testing
