#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run:TASK[@RUN]/PART as an input: the results of one run are the data of the next.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
train() { run dtctl train "$@"; }

# ---- the parts -----------------------------------------------------------------------------------
cat >make.sh <<'END'
mkdir -p "$DTCTL_OUTPUT_DIR/words"
for i in 1 2 3 4; do echo "$RANK $i" >"$DTCTL_OUTPUT_DIR/words/$RANK-$i.txt"; done
[ "$RANK" != 0 ] || echo weights >"$DTCTL_MODEL_DIR/model.bin"
echo "of $RANK" >"$DTCTL_STATE_DIR/place"
END
train --name download -- make.sh
is "$status" 0 'a first task succeeds'
first=$(newest_id download)
show='cd $DTCTL_INPUT_IN && find . -type f | sort | paste -sd" " >$DTCTL_OUTPUT_DIR/$RANK'
list() { cat "$(newest_run "$1")/output/${2-0}"; }
train --name all --input in=run:download/output --shell "$show"
is "$status" 0 'a run takes the output of another as input'
is "$(list all 2)" "$(for n in 0 1 2; do echo ./words/$n-{1..4}.txt; done | paste -sd' ')" \
    'the input has the files of all nodes, and neither model nor state'
like "$err" "input    in: 12 files, .*from run $first" 'the plan names the run'
train --name sub --input in=run:download/output/words:sharded --shell "$show"
is "$(cat "$(newest_run sub)"/output/[0-2] | tr ' ' '\n' | sort | uniq -c | grep -c ' 1 ')" 12 \
    'a folder of its results is sharded'
train --name one --input in=run:download/output/words/1-2.txt --nodes 1 --shell \
    'cat $DTCTL_INPUT_IN >$DTCTL_OUTPUT_DIR/$RANK'
is "$(list one)" '1 2' 'a file of its results is an input'
train --name model --nodes 1 --input "in=run:download@$first/model" --shell "$show"
is "$(list model)" ./model.bin 'the input has the model of the named run'
train --name state --nodes 1 --input in=run:download/state --shell "$show"
is "$(list state)" './node0/place ./node1/place ./node2/place' \
    'the input has the state, a folder per node'
train --name source --nodes 1 --input in=run:download/source --shell "$show"
like "$(list source)" './make.sh' 'the input has the source'
cat >dtctl.toml <<'END'
[inputs.in]
source = "run:download/output"
mode = "sharded"
exclude = ["*-1.txt"]
END
mkdir below
run env -C below dtctl -f ../dtctl.toml train --dry-run -- true
like "$err" 'input    in: 9 files' 'inputs are found from another folder'
rm dtctl.toml

# ---- results that are still on the nodes ---------------------------------------------------------
train --detach --name late --nodes 2 -- sh -c "until [ -e $WORK/go ]; do sleep 0.1; done; "'
    echo $RANK >$DTCTL_OUTPUT_DIR/$RANK'
late=$out
train --dry-run --input in=run:late/output -- true
like "$err" "results of run '$late' are not here, and a dry run does not fetch them" \
    'a dry run does not fetch'
train --input in=run:late/output -- true
is "$status" 1 'a run that is still going is refused as input'
like "$err" "run '$late' is still going" 'the error names the active run'
touch go
wait_for 30 sh -c "dtctl ps 2>&1 | grep $late | grep -q finished"
ok 'the results are not here' test ! -e ".dtctl/default/runs/$late/output/1"
train --name next --nodes 1 --input in=run:late/output --shell "$show"
is "$status" 0 'results that are only on the nodes are fetched'
is "$(list next)" './0 ./1' 'results that are only on the nodes are fetched first'

# ---- what is refused -----------------------------------------------------------------------------
train --name broken --nodes 1 -- false
refused() { # SOURCE WHY
    train --nodes 1 --input "in=$1" -- true
    is "$status" 2 "the input is refused: $1"
    like "$err" "$2" "  $2"
}
refused run:download 'is not run:TASK\[@RUN\]/PART'
refused run:@x/output 'is not run:TASK\[@RUN\]/PART'
refused run:download/outputs \
    "'outputs' is none of output, model, state, source .did you mean 'output'"
refused run:download/output/../x "'../x' is not a path below a folder"
refused run:absent/output "has no run of task 'absent'"
refused run:broken/output \
    "no run of task 'broken' has finished; the newest one, 'broken-.*', is 'failed'"
refused "run:broken@$(newest_id broken)/output" "is 'failed', not finished"
refused "run:all@$first/output" "is one of task 'download', not of 'all'"
refused run:download/model/absent "run '$first' left no model/absent"
refused run:all/model 'left no '
refused gs://bucket/x "'gs://bucket/x' is not available"

# ---- a model whose files differ between nodes ----------------------------------------------------
for merge in auto by-node; do
    train --name $merge --nodes 2 --merge $merge \
        --shell 'echo $RANK >$DTCTL_MODEL_DIR/own; echo s >$DTCTL_MODEL_DIR/same
            cd $DTCTL_OUTPUT_DIR && mkdir words && echo $RANK >words/own && echo s >words/same'
done
train --name use --nodes 1 --input in=run:auto/model --shell "$show"
is "$status $(list use)" '0 ./same' 'the model is the part that the nodes have in common'
like "$err" 'warning: an input lacks .* input=run:auto/model .*run:auto/output/node0/model' \
    'a warning says where the rest is'
train --name use --nodes 1 --input in=run:auto/output/words --shell "$show"
like "$err" 'warning: an input lacks .*run:auto/output/node0/words' \
    '  also of a folder of the output'
train --name use --nodes 1 --input in=run:auto/output --shell "$show"
unlike "$err" 'lacks' 'all of the output lacks nothing'
like "$err" 'warning: .* in a folder of each node input=run:auto/output folders=2 first=node0' \
    'a warning says where nodes differ'
refused run:by-node/model "left no model .try: run:by-node/output/node0/model"
train --name use --nodes 1 --input in=run:by-node/output/node1/model --shell "$show"
is "$(list use)" './own ./same' 'the model of one node is an input'

rm -r "$(newest_run sub)/output"
find .dtctl/default/nodes -path "*/runs/sub-*" -delete
train --nodes 1 --input in=run:sub/output -- true
ok 'results that are nowhere are refused' test "$status" != 0
like "$err" "run 'sub-[^']*'" 'the error names the run without results'
done_testing
