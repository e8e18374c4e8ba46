#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dttrain --plan beside the run itself: memory of each rank within 5 %, parameters, the step.
# Clock: the predicted step is printed beside the measured one, and may be off.
# shellcheck disable=SC2016 # Python expands
source "${0%/*}/../lib.sh"

cat >peak.py <<'END'
# COMMAND…: runs it, and writes the most memory that it had to peak.RANK
import os, subprocess, sys
p = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(p.pid, 0)
open("peak." + os.environ.get("RANK", "0"), "w").write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(status))
END
cat >beside.py <<'END'
# PLAN.json METRICS SUMMARY.json WORDS: ratios of the plan to the run, and what the run says of it
import json, re, sys
plan = json.load(open(sys.argv[1]))
first = plan["ranks"][0]["memory_bytes"]
own = first["all"] - first["transit"] - first["program"]
summary = json.load(open(sys.argv[3]))["memory_bytes"]
print("summary:", "like the plan" if summary == own else "%d, planned %d" % (summary, own))
n, unit = re.search(r"([0-9.]+) ([MG]B) planned once", open(sys.argv[4]).read()).groups()
said = float(n) * {"MB": 1e6, "GB": 1e9}[unit]
near = abs(said / own - 1) < 0.01
print("sentence:", "like the plan" if near else "%s %s of %d" % (n, unit, own))
for r in plan["ranks"]:
    ratio = r["memory_bytes"]["all"] / int(open("peak.%d" % r["rank"]).read())
    print("memory of rank %d: %.3f" % (r["rank"], ratio),
          "near" if 0.95 <= ratio <= 1.05 else "off")
steps = [json.loads(line) for line in open(sys.argv[2])]
rates = [s["images_per_s"] for s in steps if s["event"] == "train"]
print("# predicted step / measured step: %.2f" %
      (plan["predicted_step_ms"] / 1e3 / (plan["step_images"] / max(rates))))
END
sets=(--set train.epochs=1 --set train.train_size=48 --set train.test_size=16
    --set train.print_every=1 --set train.batch=16 --set train.check_every=0)
dirs=(DTCTL_OUTPUT_DIR=run DTCTL_MODEL_DIR=run DTCTL_STATE_DIR=run/state DTCTL_CACHE_DIR=run/cache)

beside() { # RANKS SETTING…: a plan, and the run
    local ranks=$1 s
    local -a more=()
    shift
    for s in "$@"; do more+=(--set "$s"); done
    rm -rf run peak.[0-9]*
    ok "a plan of $ranks ranks is right, $*" env -u RANK bash -c \
        'dttrain --plan --json --ranks "$0" --ranks-per-node "$0" "$@" >plan.json' \
        "$ranks" "${sets[@]}" "${more[@]}"
    if [ "$ranks" = 1 ]; then
        ok 'the run succeeds' env -u RANK "${dirs[@]}" python3 peak.py dttrain "${sets[@]}" \
            "${more[@]}"
    else
        ok 'the run succeeds' env "${dirs[@]}" dtrun --standalone --nproc-per-node "$ranks" \
            --no-python python3 peak.py dttrain "${sets[@]}" "${more[@]}"
    fi
    cp "$WORK/out/ok.log" said
    run python3 beside.py plan.json run/metrics.jsonl run/summary.json said
    diag "$out"
    unlike "$out" 'off' 'the memory of every rank is within 5 % of the plan'
    like "$out" 'memory of rank 0: .* near' 'the plan has rank 0'
    like "$out" 'summary: like the plan.*sentence: like the plan' \
        'the run reports the memory that the plan counts'
}

beside 1 train.model=resnet18
beside 1 'train.model=vit_tiny(patch=8,depth=2)' train.optimizer=sgd
beside 1 train.model=resnet18 train.stem=cifar train.recompute=blocks
beside 2 train.model=mlp train.zero=true train.wire=bf16
beside 2 train.model=resnet18 train.local_steps=4
beside 2 train.model=resnet18 train.pipeline=2

# wire WIRE: bytes of transit, and half of the bytes of the parameters
wire() {
    dttrain --plan --ranks 2 --json --set train.model=mlp --set "train.wire=$1" 2>/dev/null |
        python3 -c 'import json, sys
memory = json.load(sys.stdin)["ranks"][0]["memory_bytes"]
print(memory["transit"], memory["parameters"] // 2)'
}
read -r plain half <<<"$(wire f32)"
read -r narrow _ <<<"$(wire bf16)"
is $((narrow - plain)) "$half" 'gradients in bfloat16 on the wire take two bytes for each parameter'

# ---- as text ------------------------------------------------------------------------------------
run dttrain --plan --ranks 4 --ranks-per-node 2 --network 1 --set train.model=mlp \
    --set train.pipeline=2
is "$status" 0 'a plan is printed as text'
like "$out" 'ranks    4, 2 on a node: 2-fold data parallel, pipelines of 2 ranks and 2 stages' \
    'the plan has the shape of the run'
like "$out" 'fc1 +786688' 'the plan has the layers'
like "$out" 'predicted, not measured: [0-9.]+ ms a step' 'the prediction is labelled'
like "$out" 'stage 1: all-reduce of 3.1 MB in [0-9]+ bucket.*each of 2 ranks sends 3.1 MB' \
    'the plan has the bytes of a collective'
like "$out" '1 Gbit/s between them' 'the plan names the network'
cpus=$(python3 -c 'import os; print(len(os.sched_getaffinity(0)))')
crowd=(--ranks-per-node $((4 * cpus)) --set train.threads=1 --set train.model=mlp)
run dttrain --plan --ranks $((4 * cpus)) "${crowd[@]}"
like "$out" "threads of $((4 * cpus)) ranks share the processors of a node: 4\.0 for each" \
    'the plan says that ranks share processors'
run dttrain --plan --ranks "$cpus" "${crowd[@]}"
unlike "$out" 'share the processors' 'ranks with a processor each share none'
ok 'ranks that share processors compute for longer' python3 -c '
import json, sys
plan = json.loads(sys.argv[1])
layers = sum(l["forward_ms"] + l["backward_ms"] for l in plan["layers"])
assert plan["threads_per_cpu"] == 4, plan["threads_per_cpu"]
assert plan["ranks"][0]["compute_ms"] > 3.99 * layers, (plan["ranks"][0], layers)
' "$(dttrain --plan --json --ranks $((4 * cpus)) "${crowd[@]}")"
run dttrain --plan --set train.model=vit_tiny --set train.image_size=32 --set train.recompute=blocks
like "$out" 'and [0-9.]+ MFLOP, 2[0-9] %, for activations that are computed again' \
    'the plan has the work of recomputation'
run dttrain --plan --set train.model=mlp --set train.recompute=blocks
is "$status" 2 'recomputation of a model without blocks is refused'
like "$err" "train.recompute is blocks, and the model 'mlp.* has none" 'the error names the model'
run dttrain --plan --set train.model=mlp
like "$out" 'on GPUs.*from data sheets, never measured' 'figures of GPUs are labelled'
for gpu in T4 L4 A10G L40S A100 H100 H200; do
    like "$out" "$gpu +[0-9.]+ ms" "the plan has $gpu"
done
# gpus DTYPE: of a model that their products bound
gpus() {
    run dttrain --plan --set 'train.model=mlp(hidden=1024,1024)' --set train.batch=4096 \
        --set "train.dtype=$1"
    is "$status" 0 "a plan in $1" || diag "$err"
    sed -n 's/^\(T4\|H100\) .* ms .* \(b*t*f[0-9]*\).*/\1 in \2/p' <<<"$out" >>types
    h100[$1]=$(awk '$1 == "H100" { print $2 }' <<<"$out")
}
declare -A h100
for dtype in f32 tf32 bf16 f16; do gpus $dtype; done
is "$(sort types | uniq -c | awk '{ print $2, $4, $1 }' | paste -sd,)" \
    'H100 bf16 1,H100 f16 1,H100 f32 1,H100 tf32 1,T4 f16 1,T4 f32 3' \
    'a GPU without units for a type takes float'
ok 'products in 16 bits are faster than in tf32, those than in float; bfloat16 moves less' awk \
    -v f32="${h100[f32]}" -v tf32="${h100[tf32]}" -v bf16="${h100[bf16]}" -v f16="${h100[f16]}" \
    'BEGIN { exit !(f32 > 1.2 * tf32 && tf32 > 1.2 * f16 && f16 > 1.1 * bf16) }'
# fitting DTYPE: GPUs whose memory is enough
fitting() {
    dttrain --plan --json --set 'train.model=vit(dim=192,depth=12,heads=3,patch=4)' \
        --set train.image_size=32 --set train.batch=3000 --set "train.dtype=$1" | python3 -c '
import json, sys
print(*[g["name"] for g in json.load(sys.stdin)["gpus_never_measured"] if g["fits"]])'
}
is "$(fitting f32)" 'L40S A100 H100 H200' 'a model has room on large GPUs'
is "$(fitting bf16)" 'L4 A10G L40S A100 H100 H200' \
    'with activations in bfloat16 it has room on smaller ones, but not on a T4, which has floats'
# h100_ms RANKS: of a step of one pipeline
h100_ms() {
    run dttrain --plan --ranks "$1" --ranks-per-node "$1" --set train.model=vit_tiny \
        --set train.image_size=32 --set train.batch=1024 --set "train.pipeline=$1" \
        --set train.microbatches=16
    awk '$1 == "H100" { print $2 }' <<<"$out"
}
ok 'four stages on GPUs take more than a quarter of the time of one, and less than a half' awk \
    -v one="$(h100_ms 1)" -v four="$(h100_ms 4)" \
    'BEGIN { exit !(four > one / 4 && four < one / 2) }'
ok 'a plan writes nothing' test ! -e dttrain-output

# ---- without the data, and refused --------------------------------------------------------------
run dttrain --plan --set train.model=mlp --set train.data=/nowhere
is "$status" 1 'a plan of unknown data fails'
like "$err" 'try: train.image_size and train.classes' 'the error names the settings that it needs'
run dttrain --plan --set train.model=mlp --set train.data=/nowhere --set train.image_size=64 \
    --set train.classes=7
is "$status" 0 'sizes stand in for data that is elsewhere'
like "$out" '7 classes, images of 64x64' 'the model is for those sizes'
like "$out" 'without the data, which is not on this computer' 'the plan says what it leaves out'
run dttrain --plan --ranks 3 --set train.pipeline=2
like "$err" 'train.pipeline is 2, and 3 ranks cannot be divided by it' \
    'impossible ranks are refused'
run dttrain --plan --ranks 0
is "$status" 2 'no ranks are refused'

# ---- dtctl --------------------------------------------------------------------------------------
dtctl up --nodes 2 >/dev/null 2>&1
run dtctl train --dry-run --nodes 2 --set train.model=mlp
is "$status" 0 'train --dry-run of the native trainer'
like "$out" 'ranks    2, 1 on a node' 'train --dry-run shows the plan of its ranks'
run dtctl train --dry-run --json --nodes 2 --set train.model=mlp
like "$out" '"event":"forecast".*"predicted_step_ms":' 'train --dry-run --json has it as an event'
for wrong in 'model=' 'model=vit(dim=7,heads=3)' 'recompute=blocks'; do
    run dtctl train --dry-run --set train.model=mlp --set "train.$wrong"
    like "$status $err" '^2 .*no run can have these settings' "train.$wrong is refused by a dry run"
done
run dtctl train --dry-run --set train.model=mlp --set train.outer_lr=1
like "$status $err" '^0 .*does nothing without train.local_steps.*train.outer_lr' \
    'an outer optimizer without rounds is told'
run dtctl train --dry-run --set train.model=mlp --set train.outer_lr=1 --set train.local_steps=4
unlike "$status $err" 'does nothing|^[1-9]' 'with rounds it counts'
mkdir empty
run dtctl train --dry-run --set train.model=mlp --set train.dataset=imagefolder --input data=empty
like "$status $err" '^0 .*the needs of the run are not known' \
    'data that cannot be read here is only told'
done_testing
