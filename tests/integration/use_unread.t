#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A console without a reader: a signal that dtctl received before its output was stuck still ends
# the command, and results arrive. Programs without a standard stream work, and write nothing to
# another file in its place.
# shellcheck disable=SC2016 # the worker's shell expands it
source "${0%/*}/../lib.sh"

dtctl up -q || bail_out 'up failed'
# Silent until it is stopped; then it prints more than a pipe holds.
job='trap "seq 60000; echo well >$DTCTL_OUTPUT_DIR/$RANK; exit" TERM
    echo >"$MARKS/$RANK"; while :; do sleep 0.05; done'
# shellcheck disable=SC2317 # called through wait_for
works() { [ "$(find marks -type f | wc -l)" = 2 ]; }

unread() { # NAME DESCRIPTOR…: those that go to the pipe
    local name=$1 pid
    shift
    rm -rf marks "$WORK/pipe"
    mkdir marks
    mkfifo "$WORK/pipe"
    exec 9<>"$WORK/pipe"
    export MARKS=$PWD/marks
    if [ $# = 1 ]; then
        dtctl train --name "$name" --env "MARKS=$MARKS" -- \
            sh -c "$job" >&9 2>"$name.err" </dev/null &
    else
        dtctl train --name "$name" --env "MARKS=$MARKS" -- sh -c "$job" >&9 2>&9 </dev/null &
    fi
    pid=$!
    ok "$name: both workers wait" wait_for 60 works
    sleep 0.3 # dtctl is idle, and reads a signal at once
    kill -TERM $pid
    ok "$name: dtctl ends by itself" wait_for 60 test ! -d "/proc/$pid"
    kill -KILL $pid 2>/dev/null
    wait $pid
    is $? 1 "$name: dtctl ends with the status of a stopped run"
    exec 9>&-
    run dtctl fetch "$name"
    is "$(cat .dtctl/default/runs/"$name"-*/output/? | sort | uniq -c | xargs)" '2 well' \
        "$name: the results are here" || diag "$err"
}
unread words 1
unread everything 1 2

for stream in '>&-' '2>&-' '<&-' '<&- >&- 2>&-'; do
    for words in 'dtctl version' 'dtctl ps' 'dtctl nothing' 'dtctl report' 'dtrun --help' \
        'dttrain --version' 'dttrain --nothing' 'dtdata --version' 'dtdata nothing'; do
        eval "timeout 60 $words" >open.out 2>open.err
        want=$?
        eval "timeout 60 $words $stream" >closed.out 2>closed.err
        is $? $want "'$words $stream' ends as with it"
    done
done
eval 'dtctl report -o page.html >&- 2>&-'
is "$(tail -n 1 page.html)" '</body></html>' 'without streams a page is a page'
done_testing
