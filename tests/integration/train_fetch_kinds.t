#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# outputs.fetch and --fetch: kinds of results that stay on the nodes, are named, protected from
# every command that removes files of nodes, and come when they are asked for.
# shellcheck disable=SC2016,SC2012 # the workers' shell expands; plain names
source "${0%/*}/../lib.sh"

cat >work.sh <<'END'
echo $RANK >$DTCTL_OUTPUT_DIR/out.$RANK
echo weights >$DTCTL_MODEL_DIR/m
echo $RANK >>$DTCTL_STATE_DIR/s
echo "line of $RANK"
exit ${STATUS:-0}
END
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
train() { # NAME FLAGS…: a run; sets id and dir
    run dtctl train --name "$@" -- sh work.sh
    id=$(newest_id)
    dir=.dtctl/default/runs/$id
}
here() {
    (cd "$dir/output" && find . -type f ! -name .dtctl-run | LC_ALL=C sort | paste -sd' ')
}
marked() { find ".dtctl/default/nodes" -path "*/runs/$id/fetched" | wc -l; }
results() { dtctl ps --all | grep "$id" | grep -oE '(here|on nodes|lost|part lost).*'; }
all='./model/m ./out.0 ./out.1 ./state/node0/s ./state/node1/s'

# ---- refused ------------------------------------------------------------------------------------
run dtctl train --fetch logs,statte -- true
like "$status:$err" "2:.*--fetch.*'statte' is none of logs, output, model, state .*'state'" \
    'a word that is no kind is refused'
run dtctl train --fetch model --metric 'loss=loss ([0-9.]+)' -- true
like "$status:$err" "2:.*--fetch.*metric 'loss' cannot be read" 'metrics without logs are refused'
run dtctl fetch --path /etc/hostname --fetch logs
like "$status:$err" '2:.*--fetch is for the results of a run' '--fetch with --path is refused'

# ---- some kinds ---------------------------------------------------------------------------------
train some --fetch logs,model
is "$status" 0 'a run that leaves two kinds succeeds' || diag "$err"
like "$err" 'fetches +logs and model of the results, the rest stays' 'the plan says what comes'
is "$(here)" './model/m' 'only the model is here'
like "$out" 'line of 1' 'lines of ranks are shown'
like "$out" "left +output and state, 4 files, .* on the nodes only .try: dtctl fetch $id, or" \
    'the last screen names what is left'
like "$(cat "$dir/summary.json")" '"left":\["output","state"\]' 'summary.json says so, too'
is "$(results)" 'here, but output and state on nodes' 'ps says so, too'
like "$(dtctl ps --json)" "$id.*\"left\":\[\"output\",\"state\"\]" \
    'ps says so without --all, and as JSON'
like "$(dtctl path "$id" --json)" '"here":true.*"left":\["output","state"\]' 'path says so, too'
like "$(dtctl doctor 2>&1)" '1 with results still on nodes' 'doctor counts it'
is "$(marked)" 0 'no node takes its results for fetched'
run dtctl gc --older-than 0s --keep 0 -y
ok 'gc keeps the run' test -d ".dtctl/default/nodes/node1/runs/$id/state"
run dtctl down --dry-run
like "$out" "$id: its output and state are only on the nodes, and would be fetched first" \
    'down would fetch them'

# ---- kind by kind -------------------------------------------------------------------------------
run dtctl fetch "$id" --fetch state --dry-run
like "$out" "would fetch state of $id" 'a dry run names the kind'
run dtctl fetch "$id" --fetch state
is "$status" 0 'one kind can be fetched' || diag "$err"
is "$(here)" './model/m ./state/node0/s ./state/node1/s' 'the kind is here, and no other'
is "$(results)" 'here, but output on nodes' 'ps still names the other kind'
run dtctl fetch "$id" --fetch state
like "$status $out" '^0 results of .* are here: .*, and its output on the nodes only \(try: dt' \
    'a kind that is here is not fetched again'
run dtctl fetch "$id"
is "$status" 0 'fetch brings the rest' || diag "$err"
is "$(here)" "$all" 'all is here'
is "$(results)" 'here' 'ps shows no kind that is left'
is "$(marked)" 2 'the nodes have the mark'
run dtctl gc --older-than 0s --keep 0 -y
ok 'gc removes the run' test ! -e ".dtctl/default/nodes/node1/runs/$id"

# ---- logs ---------------------------------------------------------------------------------------
train quiet --fetch output,model,state
is "$status" 0 'a run without logs succeeds' || diag "$err"
unlike "$out" 'line of' 'lines of ranks are not shown'
is "$(find "$dir/nodes" -name '*.log' | wc -l)" 0 'no log has come'
is "$(here)" "$all" 'all other kinds have come'
like "$out" 'left +logs, 2 files, .* on the nodes only \(try: dtctl fetch [^ ]*\)' 'logs are left'
run dtctl logs "$id"
like "$status $out" '^0 .*line of 0' 'logs asks the nodes for them'
is "$(results)" 'here' 'ps has no kind that is left then'
is "$(marked)" 2 'the nodes have the mark then'
train mute --fetch model
run dtctl fetch "$id" --fetch logs
is "$status" 0 'logs can be fetched' || diag "$err"
ok 'the logs are files' grep -q 'line of 1' "$dir/logs/node1/1.out"
is "$(results)" 'here, but output and state on nodes' 'ps names the other kinds'
train none --set 'outputs.fetch=[]'
is "$status:$(here)" '0:' 'a run of which nothing comes succeeds'
is "$(results)" 'here, but logs, output, model and state on nodes' 'ps names all kinds'
run dtctl fetch "$id"
is "$status:$(here)" "0:$all" 'fetch brings them all'

train removed --fetch logs,output,model
dtctl state rm "$id" -y >/dev/null 2>&1
is "$(results)" 'here' 'a state that was removed from the nodes is not left there'

# ---- other commands that need what is left ------------------------------------------------------
train source --fetch logs
run dtctl train --name sink --input in=run:source/model -- sh -c 'cat $DTCTL_INPUT_IN/m'
like "$status $out" '^0 .*weights' 'a kind that was left is the input of a run' || diag "$err"
is "$(here)" './model/m' 'the input brings that kind alone'
STATUS=3 train again --fetch logs --env STATUS=3
is "$status" 1 'a run that fails and leaves its state'
run dtctl train --name again --fetch logs,state -- sh -c 'cat $DTCTL_STATE_DIR/s; sleep 1'
like "$status $err" '^0 .*resumes .* with the state of [12] node' 'the next one resumes from it'

native() { # FLAGS…: a small training
    run dtctl train --name nat --nproc-per-node 1 --set train.model=mlp --set train.hidden=16 \
        --set train.train_size=512 --set train.test_size=128 --set train.batch=16 \
        --set train.threads=1 --set state.keep=task "$@"
    id=$(newest_id)
    dir=.dtctl/default/runs/$id
}
native --fetch model --set train.epochs=1
is "$status:$(here)" '0:./model/model.safetensors' 'the model of the trainer comes alone'
is "$(results)" 'here, but logs, output and state on nodes' \
    'ps names the other kinds of the trainer'
like "$out" 'left +logs, output and state, [0-9] files' 'files that every node has count once'
first=$id
native --fetch model --set train.epochs=2
like "$status $err" "^0 .*resumes +$first at epoch 1" \
    'the trainer resumes from a state on the nodes'
printf '[tasks.a]\ncommand = ["sh", "work.sh"]\n' >dtctl.toml
run dtctl run --fetch model
id=$(newest_id)
is "$status $(results)" '0 here, but logs, output and state on nodes' 'run takes --fetch' ||
    diag "$err"
run dtctl run --fetch model
like "$err" "run $id is reused" 'a run with kinds on the nodes can be reused'
run dtctl run --fetch model,logs
like "$err" "run $id is not reused: its outputs changed" 'another list of kinds does'
rm dtctl.toml

# ---- with states that come in the run -----------------------------------------------------------
run dtctl train --name every --fetch model --set state.every=1s -- sh -c '
    echo $RANK >$DTCTL_STATE_DIR/s; sleep 4; echo end >$DTCTL_STATE_DIR/s
    echo x >$DTCTL_MODEL_DIR/m'
id=$(newest_id)
dir=.dtctl/default/runs/$id
is "$status:$(here)" '0:./model/m' 'an earlier state does not come for one that stays' ||
    diag "$err"
like "$(cat "$dir/events.jsonl")" '"state-published"' 'an earlier state was fetched in the run'
is "$(results)" 'here, but state on nodes' 'ps names the state that stays'
run dtctl fetch "$id"
is "$status:$(here):$(cat "$dir/output/state/node1/s")" \
    '0:./model/m ./state/node0/s ./state/node1/s:end' 'fetch brings the last state'
ok 'no earlier state stays' test ! -e "$dir/published"

# ---- two that follow ----------------------------------------------------------------------------
dtctl train --name two --fetch model -- sh -c 'echo "line of $RANK"; until [ -e '"$WORK"'/enough ]
    do sleep 0.1; done' >two.out 2>two.err &
follower=$!
# shellcheck disable=SC2317 # called through wait_for
goes() {
    compgen -G '.dtctl/default/runs/two-*' >two.dir && grep -q started "$(cat two.dir)/run.toml"
}
ok 'a run without logs goes' wait_for 20 goes
id=$(basename "$(cat two.dir)")
dtctl logs -f "$id" >logs.out 2>logs.err &
reader=$!
ok 'logs -f shows the lines of its ranks' wait_for 20 grep -q 'line of 1' logs.out
touch enough
wait "$follower"
is "$?" 0 'the one without logs ends well'
wait "$reader"
is "$?" 0 'the one with logs ends well'
unlike "$(cat two.out)" 'line of' 'the one without logs shows none'
is "$(results)" 'here' 'logs that one of them has brought are here'

# ---- what is lost -------------------------------------------------------------------------------
train gone --fetch output
rm -r ".dtctl/default/nodes/node1/runs/$id"
run dtctl fetch "$id"
is "$status" 4 'a part that is gone is no success'
like "$out" 'lost +the logs, model and state that node1 had' 'the last screen names kinds and node'
is "$(here)" './model/m ./out.0 ./out.1 ./state/node0/s' \
    'the earlier files stay, and the rest came'
run dtctl fetch "$id"
like "$status:$err" "4:.*of run '$id', these results of node1 are lost: logs, model and state" \
    'a second fetch says so, too'
is "$(results)" 'part lost' 'ps shows that a part is lost'

# ---- nodes that go ------------------------------------------------------------------------------
train last --fetch model
run dtctl up --nodes 1 -y
is "$status" 0 'up with fewer nodes' || diag "$err"
like "$err" "run $id: its logs, output and state are only on the nodes; fetching them first" \
    'up fetches first'
is "$(here)" "$all" 'up loses nothing'
train end --fetch model
run dtctl down -y
is "$status" 0 'down succeeds' || diag "$err"
is "$(here)" './model/m ./out.0 ./state/node0/s' 'down brings what was left'
done_testing
