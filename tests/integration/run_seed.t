#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The two jobs of simple-sagemaker's article on ImageNet, small, from one file: archives in a bucket
# become one tar per class, three nodes train on their shards of them with metrics and state, the
# results of every node are here and in the bucket, and a second `dtctl run` repeats nothing.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

SKIP_MS_MAX=100 # of a run in which everything is done, by the article's successor
s3_start PAGE=7

# ---- the bucket: train.tar and val.tar of class folders ------------------------------------------
dtctl data make-shapes images --images 120 --test-images 30 --image-size 16 >made.log 2>&1
ok 'images are made' test -d images/train || diag "$(cat made.log)"
mkdir raw
tar -C images/train -cf raw/train.tar . && tar -C images/test -cf raw/val.tar .
mapfile -t classes < <(cd images/train && printf '%s\n' *)
ok 'both archives are in the bucket' dtdata put raw s3://bucket/raw/

# ---- the file -----------------------------------------------------------------------------------
mkdir project && cd project || exit 1
cat >prepare.sh <<'END'
set -e
for part in train val; do
    mkdir -p "$HOME/x/$part" "$DTCTL_OUTPUT_DIR/$part"
    tar -C "$HOME/x/$part" -xf "$DTCTL_INPUT_RAW/$part.tar"
    for class in "$HOME/x/$part"/*; do
        tar -C "$class" -cf "$DTCTL_OUTPUT_DIR/$part/${class##*/}.tar" .
    done
    echo "$part: $(ls "$DTCTL_OUTPUT_DIR/$part" | wc -l) classes"
done
rm -r "$HOME/x"
END
cat >train.sh <<'END'
set -e
tars=$(ls "$DTCTL_INPUT_TRAIN" | wc -l) all=$(ls "$DTCTL_INPUT_VAL" | wc -l)
echo "rank $RANK of $WORLD_SIZE has $tars of $all classes after $DTCTL_TASK_PREPARE"
from=$(cat "$DTCTL_STATE_DIR/epoch" 2>/dev/null || echo 0)
for ((epoch = from; epoch < from + 3; epoch++)); do
    printf 'Epoch: [%d][0/9]\tLoss %d.5e+00 (9)\tAcc@1 1\n' "$epoch" $((6 - epoch))
    echo $((epoch + 1)) >"$DTCTL_STATE_DIR/epoch"
done
ls "$DTCTL_INPUT_TRAIN" >"$DTCTL_OUTPUT_DIR/classes-$RANK"
echo weights >"$DTCTL_MODEL_DIR/model-$RANK.pth"
END
cat >dtctl.toml <<'END'
[outputs]
s3 = "s3://bucket/project"
[tasks.prepare]
command = ["bash", "prepare.sh"]
once = true
[tasks.prepare.inputs.raw]
source = "s3://bucket/raw/"

[tasks.train]
command = ["bash", "train.sh"]
after = ["prepare"]
nodes = 3
nproc_per_node = 1
state.keep = "task"
[tasks.train.inputs.train]
source = "run:prepare/output/train"
mode = "ShardedByS3Key"
[tasks.train.inputs.val]
source = "run:prepare/output/val"
mode = "FullyReplicated"
[tasks.train.metrics]
loss = 'Epoch:.*Loss\s+([e\-+0-9\\.]*) \('
END
run dtctl up --nodes 3
is "$status" 0 'three nodes are up' || diag "$err"

# ---- both jobs ----------------------------------------------------------------------------------
run dtctl run
is "$status" 0 'both tasks end well' || diag "$out" "$err"
n=${#classes[@]}
like "$out" "train: $n classes" 'the first makes one tar per class'
is "$(grep -cE "rank [012] of 3 has [34] of $n classes after prepare-" <<<"$out")" 3 \
    'each node has its part of the classes to train on, and all to evaluate on'
results=$(dtctl path train)
every=$(printf '%s.tar\n' "${classes[@]}" | sort | xargs)
is "$(cat "$results"/classes-* | sort | xargs)" "$every" \
    'together the nodes had every class once'
is "$(cd "$results" && echo model/*)" 'model/model-0.pth model/model-1.pth model/model-2.pth' \
    'the models of all nodes are here'
is "$(cd "$results" && cat state/*/epoch | xargs)" '3 3 3' 'the state of every node is here'
is "$(grep -oE '"value":[0-9.]+' "$results/../metrics.jsonl" | sort -u | xargs)" \
    'value:4.5 value:5.5 value:6.5' 'the metric of the article has its values'
address=$(dtctl path train --s3)
results='"path":"(model/model-|output/classes-|state/.*epoch)'
is "$(dtdata list "$address" | grep -cE "$results")" 9 \
    'the results of all nodes are in the bucket'

# ---- again --------------------------------------------------------------------------------------
reads=$(s3_ask /-/log | grep -c 'GET /bucket/raw/t')
began=$(date +%s%N)
run dtctl run
took=$((($(date +%s%N) - began) / 1000000))
is "$status" 0 'a second run ends well'
is "$(grep -o "task '[a-z]*' is done" <<<"$err" | cut -d"'" -f2 | xargs)" 'prepare train' \
    'finished runs are reused for both tasks' || diag "$err"
is "$(s3_ask /-/log | grep -c 'GET /bucket/raw/t')" "$reads" 'no archive is read again'
diag "$took ms with everything done; $SKIP_MS_MAX is the goal"
run dtctl train --task train --force
is "$status" 0 'the second task alone runs again' || diag "$err"
like "$out" 'Epoch: \[5\]' 'the task begins with the state of the run before'
unlike "$err" 'upload +bucket +[0-9.]+ MB' 'no content of the first task travels again'
dtctl down -y --force >down.log 2>&1
done_testing
