#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Results, state and figures belong to their run and to their node: one folder for one run, state
# that goes back, parts that are lost and said to be, a layout that no other file changes.
# shellcheck disable=SC2016,SC2012,SC2086 # the workers' shell expands; plain names; words
source "${0%/*}/../lib.sh"

native() { # FLAGS…: a small training
    run dtctl train --nproc-per-node 1 --set train.model=mlp --set train.hidden=16 \
        --set train.train_size=512 --set train.test_size=128 --set train.batch=16 \
        --set train.threads=1 "$@"
}

# ---- refused before anything is made ------------------------------------------------------------
refused() { # PATTERN DESCRIPTION COMMAND…: status 2, and no cluster
    local pattern=$1 what=$2
    shift 2
    run "$@"
    is "$status" 2 "$what"
    like "$err" "$pattern" '  the error says why'
}
touch one
while read -r flag pattern; do
    refused "$pattern" "train $flag" dtctl train $flag -- true
done <<'END'
--input=x=nowhere 'x': 'nowhere': No such file
--input=x=.:sharted is no mode .*'sharded'
--input=x=one:sharded only a folder can be sharded
--input=x=gs://b/k 'x': 'gs://b/k' is not available: an input is a path
--input=x=run:a/output has no run of task 'a'
--file=nowhere --file 'nowhere': No such file
--resume=nowhere train.resume
--replace-nodes provider local makes no machines
--env=RANK=1 'RANK' is different for every rank
--rdzv-conf=foo 'foo' is not KEY=VALUE
--rdzv-conf=bogus=1 'bogus' is no setting of the rendezvous
--rdzv-conf=join_timeout=abc join_timeout: 'abc' is not a number
--signals-to-handle=FOO FOO
END
refused "'a' is given twice" 'two inputs of one name' \
    dtctl train --input a=one --input a=. -- true
refused "no command follows '--'" 'an empty command' dtctl train --
refused 'value is empty' 'exec -w with nothing' dtctl exec -w '' true
refused 'value is empty' 'fetch --path with nothing' dtctl fetch --path ''
refused 'extend|duration|4x' 'extend with nonsense' dtctl extend 4x
printf '[hosts]\nlist = ["a"]\n' >hosts.toml
refused 'provider = "hosts"' 'hosts without their provider' dtctl -f hosts.toml up
refused "'nowhere' is not there" 'an ssh configuration that is not there' \
    env DTCTL_SSH_CONFIG=nowhere dtctl up
mkdir dangling && ln -s nowhere dangling/dtctl.toml
refused 'dtctl.toml' 'a link to no file' env -C dangling dtctl up
ok 'no refused command makes a cluster' test ! -e .dtctl

# ---- an output that cannot be written -----------------------------------------------------------
dtctl up --nodes 3 >up.out 2>&1 || bail_out "no cluster: $(cat up.out)"
for words in 'config show' 'exec echo hi' 'status'; do
    dtctl $words >/dev/full 2>full.err
    is "$?" 1 "$words to a full disk is no success"
    like "$(cat full.err)" 'cannot write the result: No space' \
        '  the error says why the result was not written'
done
dtctl config show 2>pipe.err | true
is "$(cat pipe.err)" '' 'a reader that leaves is no error'

# ---- one folder, one run ------------------------------------------------------------------------
native --nodes 1 --name first --output held --set train.epochs=1
is "$status" 0 'a training into a given folder succeeds'
first=$(newest_id)
is "$(cat held/.dtctl-run)" "$first" 'the folder is marked as its own'
like "$(cat held/summary.json)" "\"run\":\"$first\"" "the trainer's summary names its run"
native --nodes 1 --name second --output held --resume never
is "$status" 2 'a second run into that folder is refused'
like "$err" "'held' holds the results of run '$first'" 'the error names the run that has the folder'
is "$(cat held/.dtctl-run)" "$first" 'the folder still belongs to the first run'
like "$(ls .dtctl/default/runs)" "^$first\$" 'the refused run has no record'
dtctl train --nodes 1 --name slow --output both -d -- \
    sh -c 'sleep 0.5; echo a >$DTCTL_OUTPUT_DIR/f' >/dev/null 2>&1
slow=$(newest_id)
run dtctl train --nodes 1 --name quick --output both -- sh -c 'echo b >$DTCTL_OUTPUT_DIR/f'
is "$status" 0 'two runs that end in one folder succeed'
run dtctl logs -f "$slow"
is "$(cat both/f "both/$slow/f" | paste -sd' ')" 'b a' 'the later one gets a folder in it'
like "$(cat ".dtctl/default/runs/$slow/run.toml")" "output_dir = \".*both/$slow\"" \
    'the record names the folder'
native --nodes 1 --output /proc/x
is "$status" 2 'a folder that cannot be made is found before the run'
like "$err" "--output: .*cannot create folder '/proc/x'" 'the error names the folder'

# ---- figures of the run alone -------------------------------------------------------------------
cp held/summary.json foreign.json
native --nodes 1 --name bad --output mine --resume never --set train.dataset=packed \
    --set train.data=/nonexistent
is "$status" 1 'a training that fails is reported'
unlike "$out" 'top-1|  model ' 'the last screen of a failed training has no figures and no model'
mkdir -p stale && cp foreign.json stale/summary.json
native --nodes 1 --name bad2 --output stale --resume never --set train.dataset=packed \
    --set train.data=/nonexistent --json
unlike "$out" '"accuracy"' 'the summary of a failed training has no figure of an earlier one'

# ---- resuming -----------------------------------------------------------------------------------
native --nodes 1 --name again --output cont --set train.epochs=1000 -d
again=$(newest_id)
wait_for 30 grep -q '"step":20,' ".dtctl/default/nodes/node0/runs/$again/output/metrics.jsonl"
dtctl stop "$again" >/dev/null 2>&1
run dtctl fetch "$again"
native --nodes 1 --name again --dry-run --set train.epochs=2000
like "$err" "resumes +$again at epoch [0-9]+, step [0-9]+" \
    'plan shows the checkpoint that a run resumes from'
native --nodes 1 --name again --set train.epochs=2000 --set train.seed=77
is "$status" 2 'another seed is refused'
like "$err" "'$again' was trained with seed [0-9]+, train.seed is 77.*resume_other" \
    'the error names the flag that allows another seed'
native --nodes 1 --name again --set train.epochs=0
like "$err" 'train.epochs' 'no epochs is refused'
native --nodes 1 --name again --set train.train_size=256 --set train.epochs=2000
is "$status" 1 'other data is an error of the trainer'
like "$out$err" 'another experiment: 512 images and seed' \
    "the trainer's error says that the data differs"
native --nodes 1 --name again --resume "$again" --output cont --set train.train_size=256 \
    --set train.epochs=2000 --set train.resume_other=true -d
is "$status" 0 'with the flag a run resumes, also into the same folder'
dtctl stop >/dev/null 2>&1
run dtctl fetch
is "$(cat cont/.dtctl-run)" "$(newest_id)" 'the folder belongs to the resumed run'
native --nodes 1 --name again --resume "$again"
is "$status" 2 'the earlier one has none there any more'
like "$err" "'$again' cannot be resumed: .*holds the results of run" \
    'the error names the run that has the folder'

# ---- state of a command -------------------------------------------------------------------------
mkdir seen
SEEN=$WORK/seen
keep='n=$(cat $DTCTL_STATE_DIR/n 2>/dev/null); echo "found <$n>"
    echo "$DTCTL_NODE" >$DTCTL_STATE_DIR/n; touch $SEEN/$RANK
    until [ "$(ls $SEEN | wc -l)" -ge "$WORLD_SIZE" ]; do sleep 0.05; done # else the first ends all
    test -n "$n"'
run dtctl train --name keep --env "SEEN=$SEEN" -- sh -c "$keep"
is "$status" 1 'a command on three nodes fails and leaves state'
keep_run=$(newest_id)
is "$(cat "$(newest_run)"/output/state/node{0,1,2}/n | paste -sd' ')" 'node0 node1 node2' \
    'state is sorted by node'
run dtctl train --name keep --nodes 2 --env "SEEN=$SEEN" -- sh -c "$keep"
is "$status" 0 'the run is resumed'
like "$out" 'found <node0>' 'node0 finds its own state'
like "$out" 'found <node1>' 'node1 finds its own state'
like "$err" "resumes +$keep_run with the state of 2 nodes" 'plan shows the number of states'
like "$err" 'state of node node2 stays in .*not in this run' 'plan shows the state that is not used'
run dtctl train --name none --resume "$(newest_id)" -- true
is "$status" 0 'the state of a run that was named is used'
run dtctl train --name none --resume never -- true
run dtctl train --name none --resume "$(newest_id)" -- true
is "$status" 2 'a run without state cannot be resumed'
like "$err" 'cannot be resumed: it left no state' 'the error says that the run left no state'

run dtctl train --name bare --nodes 1 -- false
run dtctl train --name bare --nodes 1 -- false
is "$status" 1 'a command that left no state fails again'
unlike "$err" 'is not resumed' 'a command without a state is not worth a note'

# A run without a follower may have failed meanwhile, with a state that only its node has.
alone='cat "$DTCTL_STATE_DIR/n"; echo x >"$DTCTL_STATE_DIR/n"; exit 1'
lone=$(dtctl train -d --name lone --nodes 1 -- sh -c "$alone" 2>/dev/null)
# shellcheck disable=SC2317 # called through wait_for
has_failed() { dtctl ps -a 2>/dev/null | grep "$lone" | grep -q failed; }
ok 'a run without a follower fails' wait_for 20 has_failed
run dtctl train --name lone --nodes 1 -- sh -c "$alone"
like "$err" "run $lone .* is not resumed: .*dtctl fetch $lone" \
    'the next run says why it is not resumed'
dtctl fetch "$lone" >fetch.out 2>&1
rm -rf .dtctl/default/runs/"$(newest_id)"
run dtctl train --name lone --nodes 1 -- sh -c "$alone"
like "$out" '^x' 'the run is resumed once its state is fetched' || diag "$err$(cat fetch.out)"

# ---- layout -------------------------------------------------------------------------------------
spread='cd $DTCTL_OUTPUT_DIR; echo $DTCTL_NODE >mine.$DTCTL_NODE; echo same >same
    mkdir d node1; for f in log d/x node1/log; do echo $DTCTL_NODE >$f; done'
run dtctl train --name spread --nodes 2 -- sh -c "$spread"
is "$status" 0 'files that differ between nodes are fetched'
o=$(newest_run)/output
is "$(cat "$o/mine.node0" "$o/mine.node1" "$o/same" | paste -sd' ')" 'node0 node1 same' \
    'move nothing else'
is "$(cat "$o"/node0/{log,d/x,node1/log} | paste -sd' ')" 'node0 node0 node0' \
    'files that differ are below their node'
is "$(find "$o" -type f ! -name .dtctl-run | wc -l)" 9 'all files are there'
like "$out" 'apart +3 files differ' 'the last screen counts the files that differ'
like "$(cat "$(newest_run)/summary.json")" '"merge":"auto","state":"state/NODE","differing":3' \
    'the summary has the files that differ'
# Whichever node's part came later, the layout is the same. (A pipe in its place cannot be fetched.)
files() { (cd "$o" && find . -type f ! -name .dtctl-run | sort); }
whole=$(files)
later=$(dtctl train -d --name later --nodes 2 -- sh -c "$spread" 2>/dev/null)
o=.dtctl/default/runs/$later/output
# shellcheck disable=SC2317 # called through wait_for
over() { [ "$(dtctl ps -a --json | grep "$later" | grep -c '"finished"')" -gt 0 ]; }
wait_for 20 over
cp -a ".dtctl/default/runs/$later" before
for n in 0 1; do
    part=.dtctl/default/nodes/node$n/runs/$later/output
    rm -r ".dtctl/default/runs/$later"
    cp -a before ".dtctl/default/runs/$later"
    mv "$part" "$part.hidden" && mkfifo "$part"
    run dtctl fetch "$later"
    is "$status $(cat "$o/d/x")" "3 node$((1 - n))" "a fetch without node$n brings the other part"
    rm "$part" && mv "$part.hidden" "$part"
    run dtctl fetch "$later"
    is "$status" 0 'a later fetch brings all parts' || diag "$err"
    is "$(files)" "$whole" 'the files are the same as from one fetch'
done
run dtctl train --name spread --nodes 1 --merge by-node -- sh -c "$spread"
is "$(cat "$(newest_run)/output/node0/mine.node0")" node0 \
    'with --merge by-node each node has a folder'

# ---- only what rank 0 has -----------------------------------------------------------------------
first="$spread"'; echo $DTCTL_NODE >$DTCTL_STATE_DIR/s; echo $DTCTL_NODE >$DTCTL_MODEL_DIR/m
    echo $DTCTL_NODE >$OLDPWD/work.$DTCTL_NODE'
run dtctl train --name first --nodes 2 --merge rank0 --set outputs.work=true -- sh -c "$first"
is "$status" 0 'a run of which only rank 0 counts succeeds' || diag "$err"
o=$(newest_run)/output
is "$(files | paste -sd' ')" "./d/x ./log ./mine.node0 ./model/m ./node1/log ./same \
./state/node0/s ./state/node1/s ./work/work.node0" 'output, model and new files come from one node'
is "$(cat "$o"/{log,d/x,node1/log,model/m} | paste -sd' ')" 'node0 node0 node0 node0' \
    'the files are those of the node of rank 0'
unlike "$out" 'apart|left' 'the last screen names no file of the others'
is "$(find .dtctl/default/nodes -path "*/runs/$(newest_id)/fetched" | wc -l)" 2 \
    'the files of the others do not count as unfetched'
run dtctl train --name first --nodes 2 --merge rank0 --fetch logs,state -- sh -c "$first"
like "$out" 'left +output and model, 6 files' 'files of rank 0 can be left on its node'
like "$out" 'left +1 new file .*: work.node0 ' 'new files of the others do not count'
run dtctl fetch
o=$(newest_run)/output
is "$(files | wc -l) $(cat "$o/log")" '8 node0' 'a later fetch brings those of rank 0'

# ---- what a script leaves in its folder ---------------------------------------------------------
mkdir code && cat >code/job.sh <<'END'
echo weights >model.pth
mkdir -p sub
echo "$DTCTL_NODE" >sub/part
END
run env -C code dtctl train -c left -- sh job.sh # a cluster of its own: two nodes
is "$status" 0 'a script that writes into its folder succeeds'
like "$out" 'left +4 new files .* on the nodes only: (model.pth|sub/part), .*fetch job.* --work' \
    'the last screen names what stays'
left=$(basename "$(ls -d code/.dtctl/left/runs/*)")
like "$(cat "code/.dtctl/left/runs/$left/run.toml")" 'work_left = 4' \
    'the record counts the files left'
run env -C code dtctl fetch -c left --work
is "$status" 0 'files left on the nodes can be fetched'
w=code/.dtctl/left/runs/$left/output
is "$(cat "$w"/work/model.pth "$w"/node{0,1}/work/sub/part | paste -sd' ')" 'weights node0 node1' \
    'fetched files are where the results are'
like "$(cat "code/.dtctl/left/runs/$left/run.toml")" 'work_left = 0' 'no file is left'
printf '[outputs]\nwork = true\n' >code/dtctl.toml
run env -C code dtctl train -c left -- sh job.sh
w=$(ls -d code/.dtctl/left/runs/*/ -t | head -n 1)
is "$(cat "$w/output/work/model.pth")" weights '[outputs] work brings it at once'
unlike "$out" 'left +[0-9]' 'the last screen counts no file left'

# ---- parts that are lost ------------------------------------------------------------------------
part() {
    dtctl train --name part -d -- \
        sh -c 'echo $DTCTL_NODE >$DTCTL_OUTPUT_DIR/$DTCTL_NODE' >/dev/null 2>&1
}
# shellcheck disable=SC2317 # called through wait_for
over() { # RUN: on every node
    [ "$(grep -l '"state":"finished"' .dtctl/default/nodes/*/runs/"$1"/status.json | wc -l)" = 3 ]
}
part
written=$(newest_id)
wait_for 20 over "$written"
n=0
for folder in incoming/node0/whole output; do # before they are moved, and where they end
    n=$((n + 1))
    run "$BUILD/release/tests/tools/nth_call" -n $n -e EIO -c syncfs -- dtctl fetch 3>written.report
    is "$status" 1 "results that the disk did not take in $folder are not fetched"
    like "$err" "cannot write the disk of '.*/$folder': (I/O|Input/output) error" \
        'the error names the folder'
    like "$(cat ".dtctl/default/runs/$written/run.toml")" 'fetched = false' \
        'the record says that the results were not fetched'
done
run dtctl fetch
is "$status" 0 'the results can be fetched later'
is "$(cat ".dtctl/default/runs/$written"/output/node* | paste -sd' ')" 'node0 node1 node2' \
    'the results are whole'
part
lost=$(newest_id)
wait_for 20 over "$lost"
rm -rf ".dtctl/default/nodes/node1/runs/$lost"
run dtctl fetch
is "$status" 4 'a part that is gone is no success'
like "$err" "node 'node1': it does not have the run any more" 'the node is named'
like "$out" 'lost +the part of the results that node1 had' 'the last screen names the lost part'
is "$(cat ".dtctl/default/runs/$lost"/output/node* | paste -sd' ')" 'node0 node2' 'the others came'
run dtctl fetch
is "$status" 4 'a second fetch fails, too'
like "$err" "run '$lost' that node1 had is lost" 'the error of the second fetch names the lost part'
like "$(dtctl ps -a | grep "$lost")" 'part lost' 'ps shows the lost part'
part
lost=$(newest_id)
wait_for 20 over "$lost"
rm -rf .dtctl/default/nodes/*/runs/"$lost"
run dtctl fetch
is "$status" 4 'a fetch fails when all parts are gone'
unlike "$err" 'never started' 'the run was started'
like "$(cat ".dtctl/default/runs/$lost/summary.json")" '"lost":\["node0","node1","node2"\]' \
    'the summary has who lost it'
run dtctl fetch
is "$status" 4 'a second fetch fails, too'
like "$err" "the results of run '$lost' are lost" 'the error says that the results are lost'
like "$(dtctl ps -a | grep "$lost")" 'lost +[0-9].* lost' 'ps shows the results as lost'
part
lost=$(newest_id)
wait_for 20 over "$lost"
dtctl up --nodes 2 -y --force >/dev/null 2>&1
run dtctl fetch "$lost"
is "$status" 4 'a node that left the cluster takes its part with it'
like "$err" "node 'node2': it is no longer in the cluster" \
    'the error says that the node left the cluster'
is "$(cat ".dtctl/default/runs/$lost"/output/node* | paste -sd' ')" 'node0 node1' \
    'the others still give theirs'
rm -rf ".dtctl/default/runs/$lost/output"
run dtctl fetch "$lost"
is "$(cat ".dtctl/default/runs/$lost"/output/node* | paste -sd' ')" 'node0 node1' \
    'results that vanished here are brought again'
done_testing
