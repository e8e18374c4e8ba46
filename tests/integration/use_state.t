#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# state and data: what runs have left on the nodes and here is listed, fetched and removed.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

run dtctl state ls
is "$status:$out" 0: 'without a cluster there is no state'
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
mkdir set && echo 123456789 >set/file
keep='echo "$0 $GROUP_RANK" >$DTCTL_STATE_DIR/kept'
for word in first second; do
    dtctl train --name task --input set=set -- sh -c "$keep" $word >train.log 2>&1
done
dtctl train --name bare -- true >train.log 2>&1
first=$(dtctl ps --all --json | grep -o '"run":"task[^"]*"' | cut -d'"' -f4 | sort | head -1)

# ---- ls -----------------------------------------------------------------------------------------
run dtctl state ls
is "$status" 0 'state ls ends well'
is "$(awk 'NR > 1 { print $2, $3 }' <<<"$out" | sort | uniq -c | xargs)" \
    '2 here 2 2 node0 1 2 node1 1' 'each state is listed per node, and as the copy here'
unlike "$out" bare- 'a run without a state is not listed'
run dtctl state ls --json "$first"
is "$(grep -c "\"event\":\"state\",.*\"run\":\"$first\"" <<<"$out")" 3 '--json lists one run'

# ---- pull ---------------------------------------------------------------------------------------
run dtctl state pull "$first" --to 'pulled here'
is "$status" 0 'state pull ends well'
is "$(cat 'pulled here'/node[01]/kept | xargs)" 'first 0 first 1' 'each node has its folder'
dtctl train --detach --name live -- sh -c \
    'echo 1 >$DTCTL_STATE_DIR/part; echo wrote; while [ ! -e "$0" ]; do sleep 0.1; done' \
    "$PWD/end" >live.log 2>&1
live=$(tail -1 live.log)
ok 'the run has a state' wait_for 30 sh -c 'dtctl state ls live | grep -q node1'
run dtctl state pull live
is "$status:$(cat state/node0/part)" 0:1 'the state of an active run is fetched'
run dtctl state rm -y live
like "$status $err" "^1 .*run '$live' is running" 'the state of an active run is not removed'
run dtctl data rm -y set
like "$status $err" "^3 .*run '$live' is running" 'no input is removed while a run is active'
touch end
dtctl logs -f "$live" >logs.log 2>&1
run dtctl state pull bare
like "$status $err" "^1 .*no node has a state of run 'bare-" 'a run without a state is named'

# ---- rm -----------------------------------------------------------------------------------------
run dtctl state rm task </dev/null
like "$status $err" '^2 .*-y' 'without a terminal rm needs -y'
run dtctl state rm --dry-run task
is "$status $(grep -c 'would remove the state of task-' <<<"$out")" '0 2' '--dry-run names the runs'
is "$(dtctl state ls task | wc -l)" 7 'neither removes a state'
run dtctl state rm -y "$first"
is "$status:$out" '0:removed the state of 1 run' 'rm removes the state of one run'
is "$(dtctl state ls task | wc -l)" 4 'the state of the other run stays'
run dtctl state rm -y task
is "$status $(dtctl state ls task 2>/dev/null | wc -l)" '0 0' 'rm removes the states of a task'
ok 'the results of the run stay' test -e "$(dtctl path "$first")/.dtctl-run"
run dtctl train --name task --set state.keep=task -- sh -c 'ls $DTCTL_STATE_DIR | wc -l'
is "$(grep -c '\] 0$' <<<"$out")" 2 'the next run begins without a state'
run dtctl state rm -y task
like "$status $err" "^1 .*no run 'task' has a state" 'a state that there is not is named'
mkdir -p .dtctl/default/runs/"$live"/published/node0/{1,2}/state
echo 12345 >.dtctl/default/runs/"$live"/published/node0/2/state/file
run dtctl state ls live
like "$out" 'here, of node0 +1 +6 B' 'ls lists the newest copy of state.every'
mkdir .dtctl/default/nodes/node0/runs/"$live"/.dropped
run dtctl state rm -y live
is "$status $(ls -d .dtctl/default/nodes/*/runs/"$live"/.dropped 2>/dev/null)" '0 ' \
    'the rest of an interrupted removal goes, too'
ok 'copies of state.every go, too' test ! -e .dtctl/default/runs/"$live"/published

# ---- data ---------------------------------------------------------------------------------------
run dtctl data ls
is "$status:$(awk 'NR > 1 { print $1, $2, $3 }' <<<"$out" | xargs)" '0:set node0 1 set node1 1' \
    'data ls lists the inputs on each node'
run dtctl data ls --json
is "$(grep -c '"event":"input","time_ms":[0-9]*,"name":"set",.*"bytes":10' <<<"$out")" 2 \
    '--json has their sizes'
run dtctl data rm set </dev/null
like "$status $err" '^2 .*-y' 'data rm needs -y without a terminal'
run dtctl data rm -y other
like "$status $err" "^1 .*no node has an input 'other'" 'an unknown input is named'
run dtctl data rm -y set
is "$status $(compgen -G '.dtctl/default/nodes/*/inputs/set-*')" '0 ' 'data rm removes an input'
run dtctl train --input set=set -- sh -c 'cat $DTCTL_INPUT_SET/file'
is "$status $(grep -c 123456789 <<<"$out")" '0 2' 'a later run has it again'

# ---- words --------------------------------------------------------------------------------------
for words in 'state list' 'state rm' 'data rm' 'data list' 'data inspect'; do
    # shellcheck disable=SC2086 # words
    run dtctl $words
    is "$status" 2 "$words is refused"
done
run dtrun --node drop --root "$PWD/.dtctl/default/nodes/node0" --input ../runs
is "$status" 2 'a node removes nothing outside of its inputs'
run dtrun --node drop --root "$PWD/.dtctl/default/nodes/node0" --run ../../x
is "$status" 2 'a node removes nothing outside of its runs'
# ---- anew ---------------------------------------------------------------------------------------
mark='cat $DTCTL_STATE_DIR/kept 2>/dev/null || echo none; echo "$0" >$DTCTL_STATE_DIR/kept'
fresh() { # WORD FLAGS…
    run dtctl train --name fresh --set state.keep=task --nodes 1 "${@:2}" -- sh -c "$mark" "$1"
}
fresh one
fresh two
like "$status $out" '^0 one' 'with state.keep = task a run has the state of the last one'
fresh three --clean-state
like "$status $out" '^0 none' '--clean-state begins without it'
fresh four
like "$status $out" '^0 three' 'the next run has the state of that one'
ids=$(dtctl state ls --json fresh | grep -o '"run":"[^"]*"' | cut -d: -f2 | uniq | paste -sd,)
run dtctl state rm -y --json fresh
ok 'several runs of a task have a state' test "$(tr -cd , <<<"$ids")" != ''
is "$(grep -o '"event":"state-removed",.*' <<<"$out" | grep -o '"runs":.*')" "\"runs\":[$ids]}" \
    '--json names the runs whose state was removed'
done_testing
