#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Results that a node has lost, has again, or loses while they are fetched: no command deletes the
# only copy unasked, and none says that results are here when they are not.
# shellcheck disable=SC2016,SC2012,SC2317 # called by ok; the workers' shell expands; plain names
source "${0%/*}/../lib.sh"

dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
train() { # NAME SCRIPT FLAGS…: a run whose results stay on the nodes; sets id and dir
    run dtctl train --fetch logs --name "$1" "${@:3}" -- sh -c "$2"
    id=$(basename "$(ls -d .dtctl/default/runs/"$1"-* -t | head -n 1)")
    dir=.dtctl/default/runs/$id
    on=.dtctl/default/nodes
}
here() {
    (cd "$dir/output" && find . -type f ! -name .dtctl-run | LC_ALL=C sort | paste -sd' ')
}
results() { dtctl ps --all | grep "$id" | grep -oE '(here|on nodes|lost|part lost).*'; }
gc() { run dtctl gc --older-than 0s --keep 0 -y "$@"; }

# ---- a node that has the run again --------------------------------------------------------------
train back 'echo o$RANK >$DTCTL_OUTPUT_DIR/o'
is "$status" 0 'a run whose output stays on the nodes succeeds' || diag "$err"
run dtctl path "$id"
like "$status $out $err" "^1  .*$id.* are not here.*output.*try: dtctl fetch $id" \
    'path prints only an error when all of it is on the nodes'
mv "$on/node1/runs/$id" hold
run dtctl fetch "$id"
is "$status $(results)" '4 part lost' 'a node without the run has lost its part' || diag "$err"
mv hold "$on/node1/runs/$id"
gc
ok 'gc keeps a run that a node has again' test -e "$on/node1/runs/$id/output/o"
ok 'gc keeps the parts of the other nodes, too' test -e "$on/node0/runs/$id/output/o"
run dtctl down --dry-run
like "$out" "$id: its results are only on the nodes" 'down names the run'
run dtctl fetch "$id"
is "$status $(here)" '0 ./node0/o ./node1/o' 'fetch asks the node again' || diag "$out $err"
is "$(results)" here 'nothing is lost any more'
gc
like "$out" '^removed 1 run and ' 'gc counts a run on two nodes once'
ok 'gc removes the run now' test ! -e "$on/node1/runs/$id"

train alone 'echo o$RANK >$DTCTL_OUTPUT_DIR/o'
mv "$on/node1/runs/$id" hold
dtctl fetch "$id" >/dev/null 2>&1
is "$(cat "$dir/output/o")" o0 'the part of the other node is here'
mv hold "$on/node1/runs/$id"
mv "$on/node0/runs/$id" hold
run dtctl fetch "$id"
is "$status $(cat "$dir/output/o") $(cat "$dir/output/node1/o")" '0 o0 o1' \
    'a part that comes alone replaces no file of another node' || diag "$err"
rm -r hold

train first 'echo o$RANK >$DTCTL_OUTPUT_DIR/o' --set outputs.merge=rank0
rm -r "$on/node1/runs/$id"
run dtctl fetch "$id"
is "$status $(here) $(results)" '0 ./o here' 'merge=rank0: another node had nothing to lose' ||
    diag "$err"

train silent 'exit 3' --fetch ''
like "$out" '.* failed first: exit status 3' 'a rank that failed is named'
unlike "$out" 'all of its output: ' 'no log is named that does not exist'

# ---- files that are gone from the nodes ---------------------------------------------------------
train picked 'echo m >$DTCTL_MODEL_DIR/m; echo o >$DTCTL_OUTPUT_DIR/o-$RANK'
rm "$on"/node?/runs/"$id"/model/m
run dtctl fetch "$id"
is "$status $(here) $(results)" '4 ./o-0 ./o-1 part lost' 'a kind that vanished is lost'
like "$out" 'lost +the model that' 'the last screen names the kind'
gc --unfetched

# ---- gc while results are fetched ---------------------------------------------------------------
train large 'head -c 100M /dev/zero >$DTCTL_OUTPUT_DIR/large-$RANK'
dtctl fetch "$id" >fetch.out 2>&1 &
fetch=$!
wait_for 20 test -e "$dir/incoming/node0" && kill -STOP $fetch
gc --unfetched
like "$status $err" "^0 .*$id is left alone: .*fetching the results" 'gc leaves a run alone'
ok 'gc removes no part that arrives' test -d "$dir/incoming"
kill -CONT $fetch
wait $fetch
is "$? $(find "$dir/output" -size +90M | wc -l)" '0 2' 'the fetch ends well' ||
    diag "$(cat fetch.out)"

# ---- a fetch that was killed --------------------------------------------------------------------
train killed 'echo m >$DTCTL_MODEL_DIR/m; echo f >$DTCTL_OUTPUT_DIR/f-$RANK
    [ $RANK = 1 ] || head -c 300M /dev/urandom >$DTCTL_OUTPUT_DIR/large'
dtctl fetch "$id" >fetch.out 2>&1 &
fetch=$!
has_part() { ls "$dir"/incoming/node0/.dtctl-part/tmp/*.part; }
wait_for 20 has_part >/dev/null 2>&1 && kill -KILL $fetch
wait $fetch 2>/dev/null
ok 'a part of a file is here' has_part
run dtctl fetch "$id" --fetch model
is "$status $(here)" '0 ./model/m' 'a fetch of another kind does not publish a part' || diag "$err"
run dtctl fetch "$id"
is "$status $(here)" '0 ./f-0 ./f-1 ./large ./model/m' 'the rest comes later' || diag "$err"

# ---- results that were removed on demand --------------------------------------------------------
train gone 'echo o >$DTCTL_OUTPUT_DIR/o'
gc --unfetched
is "$(results)" 'part lost' 'gc --unfetched: the results are lost'
like "$(dtctl path "$id" --json 2>/dev/null)" \
    '"here":false,"left":\[\],"lost":\["node0","node1"\]' 'path says so'
run dtctl fetch "$id"
like "$status $err" "^4 .*lost" 'fetch says so'
train forced 'echo o >$DTCTL_OUTPUT_DIR/o'
run dtctl down --force --json
like "$status $out" '^0 .*"runs_without_results":[1-9]' 'down --force counts the run' ||
    diag "$out"
like "$(dtctl path "$id" --json 2>/dev/null)" \
    '"here":false,"left":\[\],"lost":\["node0","node1"\]' 'path says so after it'
done_testing
