#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# logs --tail: the last lines of every rank, of finished and of active runs.
# shellcheck disable=SC2016,SC2317 # workers expand their own variables; functions are called by ok
source "${0%/*}/../lib.sh"

dtctl up >made.log 2>&1 || diag "$(cat made.log)"
dtctl train --name over --nproc-per-node 2 -- \
    sh -c 'for i in $(seq 100); do echo "out $i of $RANK"; echo "err $i of $RANK" >&2; done' \
    >over.log 2>&1 || diag "$(cat over.log)"

run dtctl logs --tail 2 over
is "$status" 0 'logs --tail of a run that is over succeeds'
is "$(grep -c 'out ' <<<"$out"):$(grep -c 'err ' <<<"$err")" 8:8 \
    'two lines of each stream of four ranks are printed'
is "$(grep -o 'out .*' <<<"$out" | paste -sd ,)" \
    "$(for r in 0 1 2 3; do echo "out 99 of $r,out 100 of $r"; done | paste -sd ,)" \
    'the last lines are printed rank by rank'
run dtctl logs --tail 3 --rank 2 over
is "$out" $'out 98 of 2\nout 99 of 2\nout 100 of 2' \
    '--tail with --rank shows the last lines of one rank'
run dtctl logs --tail 0 over
is "$status:$out" 0: '--tail 0 shows nothing'
run dtctl logs --tail 1000 over
is "$(grep -c 'out ' <<<"$out")" 400 '--tail above the number of lines shows all'
run dtctl logs over
is "$(grep -c 'out ' <<<"$out")" 400 'without --tail all lines are shown'
run dtctl logs --tail 1 --json over
is "$(grep -c '"event":"line"' <<<"$out")" 8 '--tail prints JSON'
run dtctl logs --tail 1 -f over
is "$(grep -c 'out 100' <<<"$out")" 4 '--tail can be followed with -f'
run dtctl logs --tail -2 over
is "$status" 2 'less than none is refused'

# ---- many lines are few writes ------------------------------------------------------------------
NTH=$BUILD/release/tests/tools/nth_call MANY=6000
few() { # DESCRIPTION COMMAND…: prints at least MANY lines, with a tenth as many writes
    local calls
    "$NTH" -n 0 -c write -- "${@:2}" 3>report >few.out 2>few.err
    read -r calls _ < <(sed 's/calls=//' report)
    ok "$1: $MANY lines are printed" test "$(grep -c '\] line' few.out)" = $MANY
    ok "$1: they take ${calls:-no count of} writes" test "$calls" -le $((MANY / 10))
}
if "$NTH" -n 0 -- true 3>report 2>/dev/null; then
    few train dtctl train --name many -- sh -c "seq -f 'line %g' $((MANY / 2))"
    few logs dtctl logs many
    few 'logs -f' dtctl logs -f many
    few 'logs --tail' dtctl logs --tail $MANY many
else
    skip 8 'ptrace is not permitted here'
fi

run dtctl logs --node nod0 over
like "$status $err" "^1 .*no node 'nod0' \(did you mean 'node0'\?\)" \
    'a node that is not there is refused'
run dtctl logs --node 'node[0-1]' over
like "$status $err" "^2 .*one node or all; 'node\[0-1\]' are 2" 'several nodes are refused'

# An active run: five lines, half a line, and the rest on request.
dtctl train -d --name going --nodes 1 -- sh -c \
    'seq 5; printf "half "; echo ready >&2; while [ ! -e "$0" ]; do sleep 0.05; done
     echo line; seq 6 8' "$WORK/go" >going.log 2>&1 || diag "$(cat going.log)"
ready() { dtctl logs going 2>&1 | grep -q ready; }
ok 'a run is active' wait_for 60 ready
run dtctl logs --tail 2 going
is "$out" $'5\nhalf ' 'logs --tail shows the last lines, and the part of an unfinished one'
dtctl logs --tail 2 -f going >follow.out 2>follow.err &
follower=$!
ok 'with -f the last lines are shown at once' wait_for 60 grep -qx 5 follow.out
touch go
ok 'logs -f ends with the run' wait "$follower"
is "$(head -n 6 follow.out)" $'4\n5\nhalf line\n6\n7\n8' \
    'every later line is shown once and complete'
run dtctl logs -f --tail 1 going
like "$out" '^8' 'the last lines of a run that ended before are shown'
dtctl train -d --name long --nodes 1 -- sh -c 'while echo x; do sleep 0.02; done' >/dev/null 2>&1
run timeout 60 bash -c 'dtctl logs -f --tail 1 long | head -n 3'
is "$status:$out" $'0:x\nx\nx' 'a reader that goes ends it'
run dtctl stop long
is "$status" 0 'the run continues until it is stopped'

# --since: of an active run, of a finished one, and with -f.
rm -f go
dtctl train -d --name aged --nodes 1 -- sh -c 'seq 3; echo e >&2
    while [ ! -e "$1" ]; do sleep 0.1; done; echo late
    while [ ! -e "$1.end" ]; do sleep 0.1; done; echo last' - "$PWD/go" >/dev/null 2>&1
noted() { # MANY of stdout whose time is noted
    awk -v bytes="$1" '$2 == bytes { found = 1 } END { exit !found }' \
        .dtctl/default/nodes/node0/runs/aged-*/attempt_0/0/log-times
}
ok 'the time of lines is noted' wait_for 60 noted 6
sleep 1.1 # the time is given to the second
then=$(date -u +%FT%TZ)
touch go
ok 'the time of later lines is recorded' wait_for 60 noted 11
run dtctl logs --since "$then" aged
is "$out" late 'logs --since shows the lines since then'
run dtctl logs --since 1h --tail 2 aged
is "$out" $'3\nlate' '--since and --tail are combined'
run dtctl logs --timestamps aged
active=$out
dtctl logs -f --since "$then" aged >since.out 2>since.err &
follower=$!
ok 'with -f the lines since then are shown at once' wait_for 60 grep -qx late since.out
touch go.end
ok 'logs -f ends with the run' wait "$follower"
is "$(head -n 2 since.out | paste -sd ,)" late,last 'logs -f shows every later line'
run dtctl logs --since "$then" aged
is "$out" $'late\nlast' '--since of a run that was fetched shows the lines since then'
run dtctl logs --since 2000-01-01 aged
like "$out" '^1.*late.last' '--since of a longer time shows all lines'

# --timestamps: the same for lines from the node and for lines of results that are here.
run dtctl logs -t aged
is "$(cut -d ' ' -f 2 <<<"$out" | paste -sd ,)" 1,2,3,late,last 'logs -t shows every line'
is "$(head -n 4 <<<"$out")" "$active" 'lines of an active run have the same times'
is "$(grep -cE '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z ' <<<"$out")" 5 \
    'each line begins with its time'
ok 'a line of before has an earlier time' test "$(sed -n 's/ 3$//p' <<<"$out")" '<' "$then"
ok 'a later line has a later time' test "$(sed -n 's/ late$//p' <<<"$out")" '>' "${then%Z}"
run dtctl logs --json -t --tail 1 aged
is "$(sed -n 's/.*"written_ms":\([0-9]*\).*"text":"last".*/\1/p' <<<"$out" | wc -c)" 14 \
    'with --json each line has its time in milliseconds'
find .dtctl -name log-times -path '*aged*' -delete
run dtctl logs -t --tail 1 aged
like "$out" '^- +last$' 'where no times are known, a line has none'
run dtctl logs --since noon aged
is "$status" 2 'a malformed time is refused'
like "$err" "'noon' is no time: .*10m" 'the error has examples'

# Attempts follow one another.
dtctl train --name twice --nodes 1 --max-restarts 3 -- sh -c \
    'printf "attempt $TORCHELASTIC_RESTART_COUNT"; [ "$TORCHELASTIC_RESTART_COUNT" = 2 ]' \
    >twice.log 2>&1 || diag "$(cat twice.log)"
run dtctl logs twice
is "$(grep attempt <<<"$out" | paste -sd ,)" 'attempt 0,attempt 1,attempt 2' \
    'attempts are shown in their order, although their lines have no end'
run dtctl logs --tail 2 twice
is "$(grep attempt <<<"$out" | paste -sd ,)" 'attempt 1,attempt 2' \
    'the last lines are those of the newest attempt'
done_testing
