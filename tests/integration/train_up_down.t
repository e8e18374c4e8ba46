#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train --up --down: a cluster for one run. It stays for inspection, for a run that is active, and
# while a result is on its nodes alone.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

cluster=.dtctl/default
is_up() { [ -e $cluster/cluster.toml ]; }
state() { if is_up; then echo up; else echo down; fi; }

run dtctl train --up --down --dry-run -- true
is "$status $(state)" '0 down' '--dry-run makes no cluster'
like "$out" 'provider local, 2 nodes' '--dry-run shows the cluster that up would make'
run dtctl train --up --down -- sh -c 'echo "$RANK" >$DTCTL_OUTPUT_DIR/of-$RANK'
is "$status $(state)" '0 down' 'after the run the cluster is removed'
is "$(cat "$(dtctl path)"/of-* | xargs)" '0 1' 'the results are here'
like "$err" 'cluster default is up' 'the nodes are shown'
like "$out" '2 nodes cleaned' 'the removal is reported'

run dtctl train --up --down -- sh -c '[ $RANK = 0 ] || exec sleep 60
    echo last >$DTCTL_OUTPUT_DIR/word; exit 3'
is "$status $(state)" '1 down' 'a failed run has its status, and the cluster is removed'
is "$(cat "$(dtctl path)/word")" last 'the results of the failed run are here'
run dtctl train --up --down --keep-on-failure 1h -- sh -c 'exit 3'
is "$status $(state)" '1 up' '--keep-on-failure keeps the cluster of a failed run'
like "$err" 'stays for inspection \(later: dtctl down\)' 'the message says so'
run dtctl train --up --down --keep-on-failure 1h -- true
is "$status $(state)" '0 down' '--keep-on-failure removes the cluster of a run that went well'

# ---- what must not be removed -------------------------------------------------------------------
dtctl up >up.log 2>&1
run dtctl train --detach --name other --nodes 1 -- sh -c 'while [ ! -e "$0" ]; do sleep 0.1; done' \
    "$PWD/end"
other=$out
run dtctl train --down -- true
is "$status $(state)" '1 up' 'the cluster stays while another run is active'
like "$err" "the run went well; --down: run '$other'" 'the message names the run'
touch end
dtctl logs -f "$other" >logs.log 2>&1

dtctl train --down -- sh -c 'echo started; sleep 60' >hup.out 2>&1 &
pid=$!
ok 'a run is active' wait_for 30 grep -q '\] started' hup.out
kill -HUP "$pid"
wait "$pid"
like "$?:$(state):$(cat hup.out)" '^0:up:.*stays, since the run is active' \
    'a hang-up leaves the run and its cluster'
dtctl stop --grace 0s >stop.log 2>&1

# The results folder cannot be made: the results stay on the nodes.
mkdir results
dtctl train --down --output results -- sh -c 'echo started; rm -r "$1"; echo file >"$1"
    echo precious >$DTCTL_OUTPUT_DIR/word' - "$PWD/results" >full.out 2>&1
is "$? $(state)" '1 up' 'the cluster stays when results cannot be fetched'
rm results
run dtctl fetch
is "$status:$(cat results/word)" 0:precious 'the results can still be fetched'

dtctl train --down -- sh -c 'trap "exit 0" TERM; echo started; while :; do sleep 0.1; done' \
    >term.out 2>&1 &
pid=$!
ok 'a last run is active' wait_for 30 grep -q '\] started' term.out
kill -TERM "$pid"
wait "$pid"
is "$? $(state)" '1 down' 'SIGTERM stops the run, fetches its results and removes the cluster'

# ---- words --------------------------------------------------------------------------------------
run dtctl train --down --detach -- true
like "$status $err" '^2 .*--down needs a dtctl that follows the run' \
    '--down with --detach is refused'
run dtctl train --up --keep-on-failure 1h -- true
like "$status $err" '^2 .*--keep-on-failure is for --down' '--keep-on-failure without --down'
done_testing
