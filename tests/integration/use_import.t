#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl import: files of other tools become a dtctl.toml that dtctl itself accepts, in the parser
# and in a dry run, with every field that has no equivalent by its line; wrong files are refused.
# shellcheck disable=SC2016,SC2317 # the configuration has dollars as they are; called by name
source "${0%/*}/../lib.sh"
samples=$SRC/tests/integration/use_import

# imports FORMAT FILE: the configuration is in dtctl.toml, the remarks in $err
imports() {
    run dtctl import "$1" "$samples/$2"
    is "$status" 0 "$2 is read" || diag "$err"
    printf '%s\n' "$out" >dtctl.toml
    remarks=$err
    run dtctl config check
    is "$status:$out" '0:the configuration is fine' "$2: dtctl accepts what came out" ||
        diag "$err$(cat dtctl.toml)"
}
# has LINES…: these lines are in dtctl.toml
has() {
    local line
    for line; do
        ok "  $line" grep -qxF -- "$line" dtctl.toml
    done
}
# names_all PATTERN FILE: each word that PATTERN finds in the sample is in dtctl.toml
names_all() {
    local word missing=
    while read -r word; do
        grep -qF -- "$word" dtctl.toml || missing+=" $word"
    done < <(grep -oP -- "$1" "$samples/$2")
    is "$missing" '' "$2: every field is a setting or is named"
}
# remarks_on LINE NAME TEXT
remarks_on() {
    like "$remarks" ":$1: [^"$'\n'"]*$2[^"$'\n'"]*: [^"$'\n'"]*$3" "line $1 is remarked on: $2"
}
# dry_run WANT: dtctl train --dry-run on local nodes shows this command
dry_run() {
    rm -rf .dtctl
    dtctl up --provider local >up.log 2>&1 || diag "$(cat up.log)"
    run dtctl train --dry-run
    is "$status" 0 'dtctl train --dry-run accepts it' || diag "$err$(cat dtctl.toml)"
    like "$err" "$1" 'the dry run shows the command'
}

# ---- Slurm --------------------------------------------------------------------------------------
imports sbatch vision.sbatch
has 'name = "vision"' 'nodes = 2' 'nproc_per_node = 8' 'max_time = "1830m"' 'max_restarts = 3' \
    'notice_signal = "USR1"' 'command = ["train.py", "--epochs", "90", "--name", "two words"]' \
    'NCCL_DEBUG = "INFO"' 'LOGLEVEL = "INFO"' 'OMP_NUM_THREADS = "4"' '# line 3: --nodes=2'
remarks_on 9 '--partition=gpu-large' 'hosts.list'
remarks_on 10 '--mem=0' 'memory'
remarks_on 12 '--mail-type' 'script'
remarks_on 13 'signal=B:USR1' 'shell of the script alone'
remarks_on 17 'module load' 'setup.run'
remarks_on 22 'echo "head node' 'only prints'
remarks_on 21 'head_node_ip' 'not needed'
remarks_on 26 'tee train.log' 'dtctl logs'
remarks_on 34 'report.py' 'tasks.NAME'
remarks_on 35 'SBATCH --exclusive' 'first command'
unlike "$remarks" '--output' 'a field that needs nothing is not remarked'
has '# Not needed here:' '# line 11: --output=logs/%x-%j.out'
ok 'the head of the file has the remarks' \
    grep -q '^# line 34: python report.py train.log: left out: a run ends' dtctl.toml
names_all '^#SBATCH --?\K[a-z-]+' vision.sbatch
missing=
for line in {2..14} 17 {19..24} 26 34 35; do # the others are empty, or belong to line 26
    grep -q "line $line: " dtctl.toml || missing+=" $line"
done
is "$missing" '' 'every line of the script is named'
touch train.py
dry_run 'command  python3 -u train.py --epochs 90 --name .two words.'
like "$err" 'nodes    2, 8 processes each' 'the dry run has the nodes and processes'

imports sbatch mpi.sbatch
has 'provider = "hosts"' 'list = ["gpu[01-04]"]' 'nodes = "2:4"' 'nproc_per_node = 4' \
    'max_time = "90m"' "shell = '''" 'source /opt/env/bin/activate' 'export SLURM_PROCID=$RANK' \
    'exec ./solver --rank $SLURM_PROCID --data "$DATA/in*" '\''$5'\'
remarks_on 5 '--no-such-flag' 'does not know'
remarks_on 6 'activate' 'every rank'

imports sbatch lists.sbatch
has 'nodes = 4' 'nproc_per_node = 8' 'NCCL_DEBUG = "WARN"' \
    'exec python3 -u train.py --width=4096 --data "two words"'
remarks_on 21 'CONTAINER' 'only bash knows'

imports sbatch whole.sbatch
has 'for i in 1 2 3; do' '    ./step "$i"' 'done'
remarks_on 3 'script' 'every rank runs all of it'
printf '#!/bin/bash\n#SBATCH -N1\nsrun -n2 sh -c "echo rank \\$SLURM_PROCID"\n' >echo.sbatch
run dtctl import sbatch echo.sbatch -o dtctl.toml --force
is "$status:$out" 0: '--to writes the file'
rm -rf .dtctl && dtctl up >up.log 2>&1
run dtctl train
is "$status:$(grep -o 'rank [01]' <<<"$out$err" | sort -u | xargs)" '0:rank 0 rank 1' \
    'the configuration runs its program on two ranks' || diag "$out$err$(cat dtctl.toml)"

# ---- SageMaker ----------------------------------------------------------------------------------
imports sagemaker imagenet.json
names_all '^ {4,8}"\K[A-Za-z]+(?=": )' imagenet.json
has 'provider = "aws"' 'instance_type = "g5.12xlarge"' 'nodes = 2' 'root_gb = 340' \
    'fallback = ["spot"]' 'idle = "30m"' 'max_time = "24h"' 'name = "imagenet-2026-11-20"' \
    'command = ["train.py"]' 'nproc_per_node = "gpu"' '[inputs.train]' \
    'source = "s3://data/imagenet/train/"' 'mode = "ShardedByS3Key"' 'order = "shuffle:7"' \
    's3 = "s3://jobs/results"' 'keep = "task"' 'sagemaker = true' 'loss = "loss: ([0-9.]+)"' \
    'schedule = "cosine"' 'lr = "3e-5"' 'team = "vision"' 'NCCL_DEBUG = "WARN"'
remarks_on 4 'TrainingImage' 'setup.run'
remarks_on 8 'MetricDefinitions' 'missing closing parenthesis'
remarks_on 20 'dataparallel_enabled' 'torch.distributed'
remarks_on 23 "InputDataConfig" 'FastFile: .*deliver = .stream.'
remarks_on 36 'InputDataConfig' 'ManifestFile'
remarks_on 55 'DebugHookConfig' 'by itself'
remarks_on 57 'TomorrowsField' 'does not know'
# Buckets cannot be listed here: the same job without them.
grep -v 's3://' dtctl.toml | sed '/^\[inputs/,/^$/d' >local.toml && mv local.toml dtctl.toml
dry_run 'command  python3 -u train.py --epochs 10 --lr 3e-5 --schedule cosine'

# ---- ParallelCluster ----------------------------------------------------------------------------
imports pcluster cluster.yaml
names_all '^[A-Za-z]+(?=:)' cluster.yaml
has 'provider = "aws"' 'name = "train"' 'nodes = 2' 'region = "us-east-2"' 'ssh_user = "ubuntu"' \
    'instance_type = "g4dn.metal"' 'fallback = ["spot"]' 'spot_max_price = 3.5' 'efa = "auto"' \
    'subnet = "subnet-0bbb0bbb"' 'placement_group = "on"' 'public_address = "none"' \
    'root_gb = 200' 's3 = "s3://lab-data/imagenet/"' 'idle = "15m"' 'project = "vision"'
remarks_on 5 'HeadNode' 'no head node'
remarks_on 15 'QueueUpdateStrategy' 'no Slurm'
remarks_on 23 'InstanceType' 'g5.48xlarge is left out'
remarks_on 25 'MaxCount' 'do not come and go'
remarks_on 30 'ComputeResources' "'more' is left out"
remarks_on 42 'CustomActions' 'setup.run'
remarks_on 50 'SlurmQueues' "'debug' is left out"
remarks_on 55 'SharedStorage' 'FsxLustre at /shared'
remarks_on 66 'Unheard' 'does not know'
printf '[train]\ncommand = ["true"]\n' >>dtctl.toml
dry_run 'command  true'

# ---- SkyPilot -----------------------------------------------------------------------------------
imports sky task.yaml
names_all '^ {0,2}\K[a-z_]+(?=:( |$))' task.yaml
has 'provider = "aws"' 'name = "vit"' 'nodes = 2' 'region = "us-west-2"' 'fallback = ["spot"]' \
    'instance_type = "p4d.24xlarge"' 'root_gb = 500' 'idle = "20m"' 'team = "vision"' \
    'pip install -r requirements.txt' 'nproc_per_node = "gpu"' 'EPOCHS = "30"' 'cd vit' \
    'exec python3 -u train.py --epochs $EPOCHS --data /data/imagenet' '[inputs.imagenet]' \
    'source = "s3://lab-data/imagenet"'
remarks_on 2 'workdir' 'run dtctl train in ~/vit'
remarks_on 21 'envs.HF_TOKEN' 'no value'
remarks_on 24 'file_mounts' 'DTCTL_INPUT_IMAGENET'
remarks_on 25 'file_mounts./checkpoints' 'DTCTL_OUTPUT_DIR'
remarks_on 35 'MASTER_ADDR' 'not needed'
sed -i '/^\[inputs/,/^$/d' dtctl.toml
dry_run 'command  bash -c .*cd vit'

# ---- files, formats and errors ------------------------------------------------------------------
cp dtctl.toml kept.toml
run dtctl import sagemaker "$samples/imagenet.json" -o dtctl.toml
is "$status" 1 'a file that is there is not replaced'
like "$err" "'dtctl.toml' is there already \(--force replaces it\)" 'the error has the remedy'
ok 'the file is as before' cmp dtctl.toml kept.toml
run dtctl import sagemaker "$samples/imagenet.json" -o dtctl.toml --dry-run
ok 'a dry run writes nothing' cmp dtctl.toml kept.toml
like "$out" 'g5.12xlarge' 'a dry run prints the configuration'
run dtctl import sagemaker "$samples/imagenet.json" -o dtctl.toml --force
is "$status" 0 '--force replaces it'
ok 'the file is the new one' grep -q '^\[inputs.train\]' dtctl.toml

ln -s dtctl.toml link.toml
run dtctl import sagemaker "$samples/imagenet.json" -o link.toml --force
is "$status:$(readlink link.toml)" 0:dtctl.toml '--force writes through a link'
printf '\xEF\xBB\xBF' | cat - "$samples/imagenet.json" >mark.json
run dtctl import sagemaker mark.json
is "$status" 0 'the mark of UTF-8 is passed over'
printf 'run: [x]\n' >list.yaml
run dtctl import sky list.yaml -o lost.toml
is "$status" 2 'a file whose program is lost is refused'
like "$err" 'list.yaml: line 1: run is no text' 'the error has the line'
ok 'no file is written' test ! -e lost.toml

run dtctl import sagemaker "$samples/imagenet.json" --json
is "$(wc -l <<<"$out")" 1 '--json prints one event'
like "$out" '"event":"imported".*"format":"sagemaker".*"line":57,"name":"TomorrowsField"' \
    'the event has the remarks'
echo '{"a": ' >cut.json
run dtctl import sagemaker cut.json
is "$status" 2 'JSON that ends early is refused'
like "$err" 'cut.json: json: line 2: unexpected character' 'the error has the line'
echo '{"a": 1}' >other.json
run dtctl import sagemaker other.json
is "$status" 2 'other JSON is refused'
like "$err" 'no CreateTrainingJob request' 'the error says so'
printf 'a: 1\nb: [\n' >cut.yaml
for format in pcluster sky; do
    run dtctl import $format cut.yaml
    is "$status" 2 "$format: YAML that ends early is refused"
    like "$err" 'cut.yaml: line 3: did not find expected node content' "$format: the line is named"
done
printf 'srun ./a\n' >nohead.sbatch
run dtctl import sbatch nohead.sbatch
is "$status" 2 'a script without #! is refused'
like "$err" "nohead.sbatch: line 1: a batch script begins with '#!'" 'the error has the line'
run dtctl import sbatch none.sbatch
is "$status" 2 'a file that is not there is refused'
run dtctl import slurm nohead.sbatch
is "$status" 2 'a format that does not exist'
like "$err" "import takes sbatch.*, not 'slurm'" 'the error lists the formats'
head -c 1100000 /dev/zero >big.sbatch
run dtctl import sbatch big.sbatch
is "$status" 2 'a file above 1 MiB is refused'

# ---- a named pipe -------------------------------------------------------------------------------
mkfifo pipe.sbatch
opened() { readlink "/proc/$1/fd/"* | grep -q '/pipe\.sbatch$'; }
ended() { [ ! -d "/proc/$1" ]; }
# stopped SIGNAL STATUS DESCRIPTION COMMAND…
stopped() {
    "${@:4}" >stopped.out 2>stopped.err 9>&- &
    local pid=$!
    wait_for 30 opened $pid
    kill -"$1" $pid
    ok "$3: $1 ends the wait for a writer" wait_for 30 ended $pid
    kill -KILL $pid 2>/dev/null
    wait $pid
    is $? "$2" "$3: the status is that of $1"
}
stopped TERM 143 import dtctl import sbatch pipe.sbatch
like "$(cat stopped.err)" 'stopped by a signal' 'the error names the reason'
stopped INT 130 import dtctl import sbatch pipe.sbatch
stopped TERM 143 --config dtctl --config pipe.sbatch status
exec 9<>pipe.sbatch
stopped TERM 143 'a writer without a word' dtctl import sbatch pipe.sbatch
exec 9>&-
cat "$samples/vision.sbatch" >pipe.sbatch &
run dtctl import sbatch pipe.sbatch
is "$status:$(grep -c . <<<"$out")" "0:$(dtctl import sbatch "$samples/vision.sbatch" 2>/dev/null |
    grep -c .)" 'a pipe with a writer is read whole'
run dtctl import sbatch <(sleep 0.2; cat "$samples/vision.sbatch")
is "$status" 0 '<(command) is read'
done_testing
