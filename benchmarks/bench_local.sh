#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Local steps (train.local_steps) beside gradients that are averaged in every step: two namespace
# hosts with one rank each, which send at LOCAL_RATE. Plain data parallelism has LOCAL_EPOCHS; its
# last evaluation loss and 1 % is the target. Each other run has three times as many epochs. Printed
# are the seconds of training to the target, the milliseconds of a step and the bytes that a host
# sent for each, checkpoints with them. "mean": the outer optimizer takes the mean of the ranks'
# parameters as it is.
#
#     LOCAL_RATE=100mbit LOCAL_STEPS='8 32 64' make bench B=local
source "${0%/*}/../tests/lib.sh"
RATE=${LOCAL_RATE:-100mbit} EPOCHS=${LOCAL_EPOCHS:-4} STEPS=${LOCAL_STEPS:-8 32 64}
MODEL=${LOCAL_MODEL:-mlp} SIZE=${LOCAL_SIZE:-8192}
hosts_up 2
hosts_config
bad=0
quiet() {
    "$@" >command.log 2>&1 && return
    bad=$((bad + 1))
    diag "$* failed: $(tail -n 5 command.log)"
}
cat >figures.py <<'END'
# NAME SUMMARY SENT TARGET: a line of JSON; TARGET empty: the last evaluation loss
import json, os, sys
name, path, sent, target = sys.argv[1:5]
s = json.load(open(path))
target = float(target) if target else s["final_loss"] * 1.01
seconds = spent = images = 0
reached = None
for e in s["epochs"]:
    spent += e["seconds"]
    if reached is None and e["test_loss"] <= target:
        reached, seconds = e["epoch"] + 1, spent
print(json.dumps({
    "bench": "local", "what": name, "rate": os.environ["RATE"],
    "model": s["model"], "target_loss": round(target, 4), "epochs_to_target": reached,
    "seconds_to_target": round(seconds, 2) if reached else None, "steps": s["steps"],
    "step_ms": round(1e3 * spent / s["steps"], 2),
    "sent_bytes_a_step": round(int(sent) / s["steps"]), "last_loss": round(s["final_loss"], 4)}))
END
export RATE
sent() { ip netns exec node1 cat /sys/class/net/eth0/statistics/tx_bytes; }
target=''
measure() { # NAME EPOCHS SETTING…: JSON; the first one sets the target
    local name=$1 epochs=$2 s before after summary
    local -a sets=()
    shift 2
    for s in "model=$MODEL" train_size="$SIZE" test_size=2048 threads=1 batch=32 optimizer=adamw \
        lr=0.001 print_every=1000 "epochs=$epochs" "$@"; do
        sets+=(--set "train.$s")
    done
    before=$(sent)
    quiet dtctl train --name "$name" --nodes 2 "${sets[@]}"
    after=$(sent)
    summary=$(dtctl path "$name")/summary.json
    python3 figures.py "$name" "$summary" $((after - before)) "$target" || bad=$((bad + 1))
    [ -n "$target" ] || target=$(sed -nE 's/.*"final_loss":([^,]*),.*/\1/p' "$summary" |
        awk '{ print $1 * 1.01 }')
}
quiet dtctl up
for i in 1 2; do
    quiet on "$i" tc qdisc replace dev eth0 root tbf rate "$RATE" burst 256k latency 400ms
done
measure plain "$EPOCHS"
measure bf16 "$EPOCHS" wire=bf16
for n in $STEPS; do
    measure "local-$n" $((3 * EPOCHS)) "local_steps=$n"
done
measure "local-$n-bf16" $((3 * EPOCHS)) "local_steps=$n" wire=bf16
n=${STEPS%% *}
measure "local-$n-mean" $((3 * EPOCHS)) "local_steps=$n" outer_lr=1 outer_momentum=0
{
    is "$bad" 0 'every command ended with 0'
    done_testing
} >&2
