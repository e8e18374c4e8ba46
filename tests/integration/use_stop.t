#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stop without a name: which run that is, and the question where there are several.
# shellcheck disable=SC2317 # called by ok
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

answer() { "$SRC/tests/tools/answer.py" 60 "$@"; }
going() { [ "$(dtctl ps --json | grep -c '"ranks_running":1')" = "$1" ]; }

dtctl up >made.log 2>&1 || diag "$(cat made.log)"
for name in first second; do
    dtctl train -d --nodes 1 --name "$name" -- sleep 1000 >"$name.log" 2>&1 ||
        diag "$(cat "$name.log")"
done
ok 'two runs are active' wait_for 60 going 2
run answer '[y/N]' 'n\n' -- dtctl stop
is "$status" 1 'on a terminal stop asks which run is meant'
like "$out" '2 runs are active; stop the newest, second-.*nothing was stopped' "'no' stops no run"
ok 'both runs are active' going 2
run answer '[y/N]' '\x03' -- dtctl stop
is "$status" 130 'Ctrl-C in place of an answer ends it'
run answer '[y/N]' 'y\n' -- dtctl stop
is "$status" 0 'a yes stops the run'
like "$out" 'run second-.*: nothing of it is left' "'yes' stops the newest run"
run dtctl fetch second
dtctl train --nodes 1 --name third -- true >third.log 2>&1 || diag "$(cat third.log)"
run answer '[y/N]' 'n\n' -- dtctl stop
is "$status" 0 'a single active run is stopped without a question'
like "$out" 'run first-' 'though a newer one is over'
run dtctl fetch first
run dtctl stop
like "$out" 'run third-.* is over already: finished' 'without an active run, stop names the newest'
for name in fourth fifth; do
    dtctl train -d --nodes 1 --name "$name" -- sleep 1000 >"$name.log" 2>&1 ||
        diag "$(cat "$name.log")"
done
run dtctl stop
is "$status" 0 'not on a terminal, the newest run is stopped'
like "$out" 'run fifth-' 'stop names the stopped run'
run dtctl stop fourth
is "$status" 0 'a name is never asked about'
done_testing
