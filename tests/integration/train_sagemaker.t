#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compat.sagemaker: programs for SageMaker's containers run as they are. AWS's own toolkit
# (sagemaker-training) and simple-sagemaker's worker_lib are the peers; `make setup` fetches both.
source "${0%/*}/../lib.sh"

command -v python3 >/dev/null || skip_all 'there is no python3'
PEERS=${DTCTL_TEST_SAGEMAKER:-}
mkdir -p data/deep
for i in $(seq -w 20); do echo "$i" >"data/f$i"; done
mv data/f20 data/deep
run dtctl up --nodes 6
is "$status" 0 'six nodes are up'
on=(--set compat.sagemaker=true)

# ---- a container's own program, with paths written in it ----------------------------------------
cat >diy.py <<'E2'
import json, os, subprocess
with open("/opt/ml/input/config/resourceconfig.json") as f:
    config = json.load(f)
index, count = config["hosts"].index(config["current_host"]), len(config["hosts"])
first, last = round(index * 1000 / count), round((index + 1) * 1000 / count)
with open(f"/opt/ml/model/part-{index}", "w") as f:
    f.write(f"{first} {last}\n")
files = [n for _, _, names in os.walk("/opt/ml/input/data/train") for n in names]
listed = json.load(open("/opt/ml/input/data/train-manifest"))[1:]
shard = subprocess.run(["dtrun", "shard-range", "1000"], capture_output=True, text=True).stdout
print("SAME", shard.split() == [str(first), str(last)])
print("FILES", len(files), sorted(os.path.basename(n) for n in listed) == sorted(files))
E2
run dtctl train "${on[@]}" --input train=data --set inputs.train.mode=ShardedByS3Key -- diy.py
is "$status" 0 'a program with /opt/ml in it runs'
unlike "$out$err" '/opt/ml is' 'the tree is mounted' ||
    diag 'this machine grants no mount namespace; the rest is about links or variables'
is "$(grep -cE 'FILES [34] True' <<<"$out")" 6 'of 20 files each of 6 nodes has 3 or 4, as listed'
is "$(grep -c 'SAME True' <<<"$out")" 6 'dtrun shard-range prints what the program computes'
results=$(dirname "$(find .dtctl/default/runs -path '*/output/model/part-0')")
is "$(cat "$results"/part-* | paste -sd' ')" \
    '0 167 167 333 333 500 500 667 667 833 833 1000' 'the model folders of all nodes come back'
ok 'others see /opt/ml as before' test ! -e /opt/ml/input/data/train
echo 'import os; print("OPT", *sorted(os.listdir("/opt")), open("/opt/link").read())' >opt.py
# shellcheck disable=SC2016 # for the inner shell
other='mount -t tmpfs tmpfs /opt && mkdir /opt/tool && echo seen >/opt/tool/file &&
    ln -s tool/file /opt/link && exec "$@"'
if unshare --mount bash -c "$other" x true 2>/dev/null; then
    run unshare --mount bash -c "$other" x dtctl train --nodes 1 "${on[@]}" -- opt.py
    like "$out" 'OPT link ml tool seen' 'the rest of /opt stays as it is'
else
    skip 1 'no mount namespace can be made here'
fi

# ---- results, state, failure --------------------------------------------------------------------
cat >state.py <<'E2'
import os, sys
kept = os.path.join(os.environ["SSM_INSTANCE_STATE"], "n")
n = int(open(kept).read()) + 1 if os.path.exists(kept) else 0
open(kept, "w").write(str(n))
open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "n." + os.environ["RANK"]), "w").write(str(n))
print("STATE", n, os.environ["SM_CURRENT_HOST"])
if n == 0:
    open("/opt/ml/output/failure", "w").write("the data are bad\n" + "x" * 2000)
    sys.exit(7)
E2
run dtctl train "${on[@]}" --nodes 1 -- state.py
is "$status" 1 'a program that fails ends the run'
like "$out$err" 'the data are bad' 'the text of output/failure is the reason'
like "$(cat .dtctl/default/runs/state-*/summary.json)" '"message":"the data are bad' \
    'the summary has the reason'
run dtctl train "${on[@]}" --nodes 1 -- state.py
is "$status" 0 'the same command succeeds with that state'
like "$out" 'STATE 1 algo-1' 'checkpoints are state: the next run has them again'

# ---- refused ------------------------------------------------------------------------------------
run dtctl train "${on[@]}" --set train.model=mlp
is "$status" 2 'the native trainer has no such tree'
like "$err" 'compat.sagemaker: it is for commands' 'the error has the reason'

# ---- the program of a container ------------------------------------------------------------------
mkdir container tools
cat >container/train <<'E2'
#!/bin/sh
echo "CONTAINER $# $1 $(cat /opt/ml/input/config/hyperparameters.json 2>/dev/null)"
E2
chmod +x container/train
cp container/train tools/
run bash -c 'cd container && ln -s ../.dtctl && dtctl train --set compat.sagemaker=true --nodes 1 \
    --hp epochs=3'
is "$status" 0 "an executable 'train' in the folder runs without a command" || diag "$err"
like "$out" 'CONTAINER 1 train \{"epochs": ?"3"\}' \
    "its only word is 'train', and hyperparameters are in their file"
run env PATH="$WORK/tools:$PATH" dtctl train "${on[@]}" --nodes 1 -- train
like "$status $out" "^0 .*CONTAINER 1 train" "a program 'train' on PATH is called the same way"
run dtctl train "${on[@]}" --nodes 1 -- tools/train now
like "$status $out" '^0 .*CONTAINER 1 now' 'words of the command are left as they are'

# ---- the peers ----------------------------------------------------------------------------------
if [ -n "$PEERS" ]; then
    cat >job.py <<'E2'
import json, os
# The toolkit was started with dtctl's environment, and starts this script with its own.
with open(f"/proc/{os.getppid()}/environ") as f:
    ours = dict(v.split("=", 1) for v in f.read().split("\0") if "=" in v)
def value(text):
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text
theirs = {k: v for k, v in os.environ.items() if k.startswith("SM_")}
differ = [k for k in theirs if value(ours.get(k)) != value(theirs[k])]
for k in differ:
    print("DIFFERS", k, ours.get(k), theirs[k])
print("COMPARED", len(theirs), "SM_TRAINING_ENV" in theirs, len(differ))
E2
    hp=(--hp lr=3e-5 --hp batch_size=32 --hp kind=adam --hp amp=true --hp b=0.5)
    run dtctl train "${on[@]}" --nodes 2 --input train=data --input my-val=data/f01 "${hp[@]}" \
        --env SAGEMAKER_PROGRAM=job.py --file job.py -- "$PEERS/bin/train"
    is "$status" 0 "AWS's toolkit starts a script"
    is "$(grep -cE 'COMPARED [34][0-9] True 0' <<<"$out")" 2 \
        'the environment of the toolkit equals ours on both nodes'
    cat >fails.py <<'E2'
raise SystemExit(3)
E2
    run dtctl train "${on[@]}" --nodes 1 --env SAGEMAKER_PROGRAM=fails.py --file fails.py -- \
        "$PEERS/bin/train"
    is "$status" 1 'a script that fails under the toolkit ends the run'
    like "$out$err" 'ExecuteUserScriptError' "the toolkit's own report is the reason"
    cat >worker.py <<'E2'
import os
from worker_toolkit import worker_lib
c = worker_lib.WorkerConfig()
open(os.path.join(c.instance_state, "seen"), "w").write(c.current_host)
print("WORKER", c.num_nodes, c.host_rank, c.hps["task"], os.listdir(c.channel_data), c.job_name[:6])
E2
    lib=$(find "$PEERS/lib" -name worker_toolkit -type d | head -n 1)
    run dtctl train "${on[@]}" --nodes 2 --input data=data/deep --hp task=1 \
        --env "PYTHONPATH=${lib%/*}" -- worker.py
    is "$status" 0 "simple-sagemaker's worker_lib runs as it is"
    is "$(grep -cE "WORKER 2 [01] 1 \['f20'\] worker" <<<"$out")" 2 \
        'worker_lib finds every path and name'
else
    skip 5 "there is no toolkit of SageMaker (run 'make setup')"
fi
run dtctl down -y --force
is "$status" 0 'down succeeds'
done_testing
