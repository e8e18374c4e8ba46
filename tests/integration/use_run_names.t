#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RUN may be a task: every verb takes its newest run and names it, stop the one that is active.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

dtctl up --nodes 1 >made.log 2>&1 || diag "$(cat made.log)"
write='echo "$0" | tee "$DTCTL_OUTPUT_DIR/word" >"$DTCTL_STATE_DIR/word"; echo "said $0"'
for word in one two; do
    dtctl train --name task -- sh -c "$write" $word >"$word.log" 2>&1 || diag "$(cat "$word.log")"
done
run_ids() { dtctl ps --all --json | grep -o '"run":"task-[^"]*"' | cut -d'"' -f4 | sort; }
first=$(run_ids | head -1) second=$(run_ids | tail -1)
newest="run '$second' is the newest of the 2 runs of task 'task'"

run dtctl logs task
is "$status:$out" '0:said two' 'logs shows the newest run of a task'
like "$err" "$newest" '  and names it'
run dtctl logs "$first"
is "$status:$out" '0:said one' 'a run that is named by itself is shown'
unlike "$err" newest '  without a word on others'
run dtctl fetch task
is "$status" 0 'fetch takes the newest run of a task'
like "$out$err" "$newest" '  and names it'
run dtctl state pull task --to pulled
is "$status:$(cat pulled/node0/word)" 0:two 'state pull takes the newest run of a task'
like "$err" "$newest" '  and names it'
run dtctl top --once task
like "$status $err" "^1 .*$newest.*run '$second' is not active" 'top takes the newest run of a task'
is "$(cat "$(dtctl path task)/word")" two 'path takes the newest run of a task'
run dtctl report task
is "$status" 0 'report takes the newest run of a task'
run dtctl stop task
like "$status $out" "^0 run $second is over already" \
    'stop takes the newest run where none is active'
run dtctl logs tas
like "$status $err" "^1 .*2 runs begin with 'tas'; the newest is '$second'" \
    'the beginning of several names is refused'

# ---- stop ---------------------------------------------------------------------------------------
start() { # TASK: an active run
    dtctl train --detach --name "$1" -- sleep 1000 2>detach.log || diag "$(cat detach.log)"
}
active=$(start task)
dtctl train --name task --force -- true >over.log 2>&1 || diag "$(cat over.log)"
run dtctl stop --dry-run task
is "$status:$out" "0:would stop $active on 1 node" 'stop takes the only active run of a task'
run dtctl stop --grace 0s task
like "$status $out" "^0 run $active: nothing of it is left" \
    'stop takes it though a newer one is over'
one=$(start more) two=$(start more)
run dtctl stop more
like "$status $err" "^2 .*2 runs of task 'more' are active; the newest is '$two'" \
    'of several active runs stop takes none'
run dtctl stop --grace 0s "$two"
is "$status" 0 'one of them is stopped by its name'
run dtctl fetch "$two"
run dtctl stop --grace 0s more
like "$status $out" "^0 run $one: nothing of it is left" 'stop takes the only one that is left'

# ---- after the end of the cluster ---------------------------------------------------------------
run dtctl down -y
is "$status" 0 'the cluster is removed'
run dtctl logs "$first"
is "$status:$out" '0:said one' 'logs shows a run that is on this side without the cluster'
run dtctl logs --node node0 "$first"
is "$status:$out" '0:said one' 'logs shows one node of it'
run dtctl logs --node node7 "$first"
like "$status $err" "^[^0].*node7" 'a node that the run did not have is refused'
run dtctl fetch "$first"
like "$status $out$err" "^0 .*results of $first are here" 'fetch says where its results are'
sed -i 's/^fetched = true/fetched = false/' .dtctl/*/runs/"$first"/run.toml
run dtctl logs "$first"
like "$status $err" "^[^0].*is not up" 'a run that is not here whole needs the cluster'
done_testing
