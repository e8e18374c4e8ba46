#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exec --rank: on the node that holds a rank of an active run.
# shellcheck disable=SC2016,SC2317 # workers expand their own variables; functions are called by ok
source "${0%/*}/../lib.sh"

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
run dtctl exec --rank 0 -- true
is "$status" 1 'exec --rank without an active run fails'
like "$err" 'no run is active' 'the error says that no run is active'

dtctl train -d --name one --nproc-per-node 2 -- \
    sh -c 'echo "$RANK" >"$DTCTL_OUTPUT_DIR/rank-$RANK"; while [ ! -e "$0" ]; do sleep 0.1; done' \
    "$WORK/go" >one.log 2>&1 || diag "$(cat one.log)"
all_run() { [ "$(dtctl status --json | grep -c '"ranks_running":2')" = 3 ]; }
ok 'a run of six ranks is active' wait_for 60 all_run
for rank in 0 1 2 3 4 5; do
    run dtctl exec --rank "$rank" --dry-run -- true
    like "$out" "would run on 1 node \\(node$((rank / 2))\\)" "rank $rank is on node$((rank / 2))"
done
run dtctl exec --rank 1,4 --json -- true
is "$(grep -o '"node":"node[0-9]"' <<<"$out" | paste -sd ' ')" '"node":"node0" "node":"node2"' \
    'nodes are selected by several ranks'
run dtctl exec --rank 4,5 --json -- true
is "$(grep -c '"event":"exit"' <<<"$out")" 1 'ranks of one node: it is asked once'
run dtctl exec --rank 6 -- true
is "$status" 1 'a rank that is not there is refused'
like "$err" "rank 6 of 'one-.*' is not running: 6 ranks are, the highest is 5" \
    'the error has the number of ranks'
timeout 60 dtctl exec -- yes 2>yes.log | head -n 1 >/dev/null
is "${PIPESTATUS[0]}$(cat yes.log)" 0 'exec ends when nothing reads its output'
run dtctl exec --rank 0 --node node1 -- true
is "$status" 2 '--rank and --node are refused together'
run dtctl exec --run one -- true
is "$status" 2 '--run without --rank is refused'

dtctl train -d --name two --nodes 1 -- sh -c 'while [ ! -e "$0" ]; do sleep 0.1; done' \
    "$WORK/go" >two.log 2>&1 || diag "$(cat two.log)"
ok 'a second run is active' wait_for 60 dtctl exec --rank 0 --run two -- true
run dtctl exec --rank 0 -- true
is "$status" 2 '--rank needs --run when two runs are active'
like "$err" 'more than one run is active: .* \(try: --run RUN\)' 'the error names --run'
run dtctl exec --rank 5 --run one --dry-run -- true
like "$out" '\(node2\)' 'the named one counts'
touch go
over() { ! dtctl ps --json | grep -q '"ranks_running":[1-9]'; }
ok 'both runs end' wait_for 60 over
run dtctl exec --rank 0 --run one -- true
is "$status" 1 '--rank of a run that is over fails'
like "$err" "run 'one-.*' is not active" 'the error says that the run is not active'
done_testing
