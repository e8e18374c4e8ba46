#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ps --watch and status --watch: looks that repeat, on a terminal and elsewhere, and their end.
# shellcheck disable=SC2317 # called by run
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

answer() { "$SRC/tests/tools/answer.py" 60 "$@"; }
home=$'\e[H\e[J'

{ dtctl up && dtctl train --name quick -- true; } >made.log 2>&1 || diag "$(cat made.log)"
run answer RESULTS '' RESULTS '\x03' -- dtctl ps -a --watch --every 100ms
is "$status" 130 'ps --watch: Ctrl-C ends it with 130'
ok 'a terminal shows each table in place of the last one' \
    test "$(grep -o -F -- "$home" <<<"$out" | wc -l)" -ge 2
run answer ADDRESS '' ADDRESS SIGTERM -- dtctl status --watch --every 100ms
is "$status" 143 'status --watch: SIGTERM ends it with 143'
run answer RESULTS '\x03' -- dtctl ps -a --watch --every 1h
is "$status" 130 'Ctrl-C ends the wait between two tables'
looks() { timeout 60 dtctl ps -a --watch --every 100ms "$@"; }
plain() { looks | grep -m 3 RESULTS; }
run plain
is "$(wc -l <<<"$out")" 3 'without a terminal the tables follow one another'
unlike "$out" $'\e' 'without a terminal there are no control sequences'
json() { looks --json | grep -m 3 '"event":"run"'; }
run json
is "$(wc -l <<<"$out")" 3 '--watch prints JSON'
run dtctl ps --every 0s
is "$status" 2 'no pause at all is refused'
like "$err" 'below the minimum' 'the error has the limit'

# A node that does not answer is no end: it may be back at the next look.
mv .dtctl/default/nodes/node1 aside
: >.dtctl/default/nodes/node1
dtctl ps -a --watch --every 100ms >>looks 2>&1 &
watcher=$!
twice() { [ "$(grep -c 'error: node.*node1' looks)" -ge 2 ]; }
ok 'a node that fails does not end it' wait_for 60 twice
rm .dtctl/default/nodes/node1 && mv aside .dtctl/default/nodes/node1
: >looks
ok 'the tables continue' wait_for 60 grep -q RESULTS looks
kill "$watcher" && wait "$watcher"
is $? 143 'SIGTERM ends the watch'
dtctl down -y -q >/dev/null 2>&1
run timeout 60 dtctl status --watch
is "$status" 1 'status --watch without a cluster ends'
like "$err" 'is not up' 'the error says that the cluster is not up'
done_testing
