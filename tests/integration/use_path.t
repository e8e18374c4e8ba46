#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# path: where the results of a run are, by run, task or both; and why there are none.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

run dtctl path
is "$status:$out" 1: 'without runs there is no path'
like "$err" 'has no runs yet' 'the message says so'
dtctl up --nodes 1 >made.log 2>&1 || diag "$(cat made.log)"
write='echo "$1" >$DTCTL_OUTPUT_DIR/word'
for word in one two; do
    dtctl train --name task -- sh -c "$write" - $word >train.log 2>&1 || diag "$(cat train.log)"
done
dtctl train --name other --output 'here it is' -- sh -c "$write" - other >train.log 2>&1
dtctl train --name task -- sh -c 'exit 1' >train.log 2>&1
runs=$(dtctl ps --all --json | grep -o '"run":"[^"]*"' | cut -d'"' -f4 | sort)
first=$(grep ^task- <<<"$runs" | head -1)
failed=$(grep ^task- <<<"$runs" | tail -1)

run dtctl path task
is "$status:$out" "0:$(dtctl path "$failed")" 'a task stands for its newest run, however it ended'
is "$err" "run '$failed' is 'failed', not finished" '  and the run and its end are named'
run dtctl path --json task
like "$out" "\"run\":\"$failed\".*\"state\":\"failed\"" '  --json has both'
run dtctl path "$failed"
is "$err" '' 'a run that is named by itself is not named again'
is "$(cat "$(dtctl path "$first")/word")" one 'a run is found by its name'
is "$(cat "$(dtctl path "task@$first")/word")" one 'a run is found by its task and name'
is "$(cat "$(dtctl path other)/word")" other 'a results folder of its own is found'
is "$(dtctl path)" "$(dtctl path "$failed")" 'without a name it is the newest run'
run dtctl path --json "$first"
is "$out" "{\"event\":\"path\",$(cut -d, -f2 <<<"$out"),\"run\":\"$first\",\"name\":\"task\",\
\"state\":\"finished\",\"path\":\"$(dtctl path "$first")\",\"here\":true,\"left\":[],\"lost\":[]}" \
    '--json has the run, its state and the path'

run dtctl path "other@$first"
is "$status:$out" 2: 'a run of another task is refused'
like "$err" "is one of task 'task', not of 'other'" 'the message names its task'
for name in @ task@ "@$first"; do
    run dtctl path "$name"
    is "$status:$out" 2: "the name '$name' is refused"
done
run dtctl path nothing
is "$status:$out" 1: 'an unknown name is refused'

rm -rf 'here it is'
run dtctl path other
is "$status:$out" 1: 'a removed folder is not printed'
like "$err" "does not hold the results of run 'other-.*' any more" 'the message says why'
run dtctl train --detach --name long -- sh -c 'while [ ! -e ../stop ]; do sleep 0.1; done'
long=$out
run dtctl path long
is "$status:$out" 1: 'the path of a run that goes on is not printed'
like "$err" "is not over.*dtctl logs -f $long" 'the message says how its results come'
run dtctl path --json long
like "$out" '"here":false' '--json says where they will be'
dtctl stop --grace 0s "$long" >stop.log 2>&1
sed -i 's/^state = .*/state = "stopped"/' ".dtctl/default/runs/$long/run.toml"
run dtctl path "$long"
like "$status $err" "^1 .*not here \(try: dtctl fetch $long\)" 'results on the nodes are named so'
dtctl fetch "$long" >fetch.log 2>&1
run dtctl path "$long"
is "$status:$out" "0:$PWD/.dtctl/default/runs/$long/output" 'after fetch the path is printed'
run dtctl path long
is "$status:$out" "0:$PWD/.dtctl/default/runs/$long/output" 'the path of its task is the same'
like "$err" "run '$long' is 'stopped', not finished" '  the end of its only run is named'
done_testing
