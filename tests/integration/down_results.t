#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Results of a run exist somewhere until their owner says --force: down and up with fewer nodes
# fetch results that only the nodes have, or refuse.
# shellcheck disable=SC2012,SC2016,SC2317 # plain names; the workers' shell expands; called by ok
source "${0%/*}/../lib.sh"

answer() { "$SRC/tests/tools/answer.py" 30 "$@"; }
over() { ! dtctl ps 2>/dev/null | grep -qE 'starting|joining|running|waiting|stopping|started'; }
detach() { # NAME [FLAG…]: a run that leaves a word of each rank on its node
    dtctl train --detach --name "$@" -- sh -c 'echo precious >$DTCTL_OUTPUT_DIR/p-$RANK' 2>/dev/null
    wait_for 20 over || diag "$(dtctl ps)"
}
on_nodes() { ls .dtctl/default/nodes/*/runs/"$1"/output/p-* 2>/dev/null | wc -l; }

dtctl up -q >/dev/null || diag 'up failed'
id=$(detach first)
is "$(on_nodes "$id")" 2 'the results of a run that was left are on its nodes'
run dtctl down --dry-run
is "$status" 0 'down --dry-run succeeds'
like "$out" "$id: its results are only on the nodes, and would be fetched first" \
    'down --dry-run names the run'
run dtctl down --dry-run --json
like "$out" "\"not_fetched\":\[\"$id\"\]" 'down --dry-run --json names the run'
run answer 'remove these? [y/N]' 'n\n' -- dtctl down
is "$status" 1 'down asks on a terminal; no ends it'
like "$out" "would clean node0.*$id: its results are only on the nodes" \
    'down lists what is removed before it asks'
is "$(on_nodes "$id")" 2 'nothing is gone'
run answer 'remove these? [y/N]' '\x03' -- dtctl down
is "$status $(on_nodes "$id")" '130 2' 'Ctrl-C at the question removes nothing'
run dtctl down
is "$status" 0 'down fetches the results first' || diag "$err"
is "$(cat .dtctl/default/runs/"$id"/output/p-*)" 'precious
precious' 'the results were fetched'
like "$err" '1 run has its results on this side' 'down says that the results were fetched'
ok 'the nodes are clean' test ! -e .dtctl/default/nodes/node0

# ---- what cannot be fetched --------------------------------------------------------------------
dtctl up -q >/dev/null
id=$(detach stuck --output blocked/out)
rm -r blocked
: >blocked
run dtctl down -y
is "$status" 1 'results that cannot be fetched: down -y refuses'
like "$err" \
    "results of 1 run are only on the nodes.*$id.*try: dtctl fetch $id, or dtctl down --force" \
    'down names the run and both next steps'
is "$(on_nodes "$id")" 2 'nothing is gone'
ok 'the cluster is up' test -e .dtctl/default/cluster.toml
mv ".dtctl/default/runs/$id" kept
run dtctl down -y
is "$status" 1 'down without a record of the run is refused'
like "$err" "try: dtctl fetch --path runs/$id, or" 'the hint brings its files'
is "$(on_nodes "$id")" 2 'a refused down leaves the run on the nodes'
like "$(dtctl ps 2>&1)" "run $id is on the nodes, and this side has no record" 'ps names the run'
mv kept ".dtctl/default/runs/$id"
rm blocked
run dtctl down -y
is "$status" 0 'down fetches results when it can' || diag "$err"
is "$(cat blocked/out/p-* | sort -u)" precious 'the results are in their folder'

# ---- fewer nodes -------------------------------------------------------------------------------
dtctl up -q >/dev/null
id=$(detach fewer)
run dtctl up --nodes 1
is "$status" 2 'up that drops a node needs consent'
like "$err" 'up would drop node1 from cluster .default.' 'the error names the node'
run answer 'drop these from the cluster? [y/N]' 'n\n' -- dtctl up --nodes 1
is "$status" 1 'on a terminal up asks before it drops a node'
is "$(on_nodes "$id") $(grep -c '\[\[node' .dtctl/default/cluster.toml)" '2 2' 'no changes nothing'
is "$(grep -c nodes .dtctl/default/up.toml)" 0 'a refused up keeps no setting'
run dtctl up --nodes 1 -y
is "$status" 0 'up -y drops a node' || diag "$err"
is "$(cat .dtctl/default/runs/"$id"/output/p-* | wc -l)" 2 'up -y fetches the results first'
is "$(grep -c '\[\[node' .dtctl/default/cluster.toml)" 1 'up -y removes the node from the cluster'

# ---- an active run, and force -------------------------------------------------------------
id=$(dtctl train --detach --name going -- sleep 60 2>/dev/null)
run dtctl down
is "$status" 1 'down is refused while a run is active'
like "$err" "run '$id' of cluster 'default' in .*:$WORK is .* on node 'node0' .try: dtctl stop" \
    'down names the active run with its cluster and folder'
run dtctl down --force
is "$status" 0 'down --force succeeds' || diag "$err"
like "$err" '[0-9] runs have their results on this side, .*; 1 has none' \
    'gc counts the results on this side'

# ---- the node's own check ----------------------------------------------------------------------
dtctl up -q >/dev/null
id=$(detach own --nodes 1)
node() { "$DTCTL_BIN/dtrun" --node "$1" --root .dtctl/default/nodes/node0 "${@:2}"; }
run node clean --all
like "$status $out" "^1 .*the results of run '$id' were not" \
    '--clean leaves results that were not fetched'
echo mine >.dtctl/default/nodes/node0/mine
run node clean --all --fetched <<<"$id"
is "$status" 0 '--clean removes results that the caller has'
like "$out" '"left":\["mine"\]' '--clean names the files that stay'
run node clean --run "$id"
like "$status $out" '^0 .*"left":\[\]' '--clean of one run names no other file'
# ---- files that a command leaves in its working folder ------------------------------------------
dtctl up -q >/dev/null 2>&1
dtctl train --name leaves --nodes 1 -- sh -c 'echo w >model.pth' >left.out 2>&1
run dtctl down --dry-run
like "$err$out" 'leaves-.*only on the nodes, and would be fetched' 'a dry down names the run'
run dtctl down -y
is "$status $(cat .dtctl/default/runs/leaves-*/output/work/model.pth)" '0 w' \
    'down brings the files that the command left' || diag "$err"

# ---- down while another dtctl brings the results ------------------------------------------------
dtctl up -q >/dev/null 2>&1
id=$(dtctl train -d --name brought -- \
    sh -c 'cd $DTCTL_OUTPUT_DIR; head -c 100M /dev/zero >large-$RANK; echo b >p-$RANK' 2>/dev/null)
dir=.dtctl/default/runs/$id
# shellcheck disable=SC2317 # called through wait_for
is_over() { dtctl ps -a --json | grep "$id" | grep -q '"finished"'; }
wait_for 30 is_over
dtctl fetch "$id" >fetch.out 2>&1 &
fetch=$!
wait_for 20 grep -q fetching "$dir/.finish" && kill -STOP $fetch
dtctl down -y >down.out 2>&1 &
down=$!
ok 'down waits for another fetch' wait_for 20 grep -q 'another dtctl fetches' down.out
kill -CONT $fetch
wait $fetch
is "$?" 0 'the fetch ends well' || diag "$(cat fetch.out)"
wait $down
is "$?" 0 'down ends after the fetch' || diag "$(cat down.out)"
is "$(cat "$dir"/output/p-* | wc -l) $(find "$dir/output" -size +90M | wc -l)" '2 2' \
    'all results were fetched'
done_testing
