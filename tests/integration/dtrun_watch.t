#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Watchdogs of dtrun: timers that workers set with PyTorch's FileTimerClient, also beside torchrun,
# and health checks by HTTP.
# Clock: timers of workers.
# Texts are expanded by workers, functions are called by name:
# shellcheck disable=SC2016,SC2059,SC2317
source "${0%/*}/../lib.sh"
PYTHON=${DTCTL_TEST_PYTHON:-$PYTHON}
one() { run timeout 60 dtrun --standalone "$@"; }
fifos() { find "$TMPDIR" -name 'watchdog_timer_*' | wc -l; }

# ---- timers, by hand ----------------------------------------------------------------------------
one --no-python sh -c 'echo "[$TORCHELASTIC_TIMER_FILE]"'
is "$out" '[]' 'there are no timers unless they are asked for'
TORCHELASTIC_ENABLE_FILE_TIMER=1 one --no-python sh -c \
    'test -p "$TORCHELASTIC_TIMER_FILE" && echo "$TORCHELASTIC_TIMER_FILE"'
like "$status $out" "^0 $TMPDIR/watchdog_timer_" 'TORCHELASTIC_ENABLE_FILE_TIMER=1: there is a FIFO'
is "$(fifos)" 0 'the FIFO is removed at the end'
export TORCHELASTIC_ENABLE_FILE_TIMER=1 TORCHELASTIC_TIMER_FILE=$WORK/timers
export REQUEST='{"version": 1, "pid": %d, "scope_id": "%s", "expiration_time": %s, "signal": 9}\n'
one --no-python sh -c 'printf "$REQUEST" $$ "step 7" 1.5 >"$TORCHELASTIC_TIMER_FILE"; sleep 60'
is "$status" 1 'a worker whose timer expires has failed'
like "$err" "timer 'step 7' expired" 'the report says why'
like "$err" 'Signal 9 \(SIGKILL\)|exitcode  : -9' 'the report has the signal'
ok 'the FIFO at the chosen place is gone, too' test ! -e timers
one --no-python --nproc-per-node 2 --max-restarts 1 sh -c '
    [ "$TORCHELASTIC_RESTART_COUNT$RANK" != 00 ] ||
        printf "$REQUEST" $$ hung "$(date +%s.5)" >"$TORCHELASTIC_TIMER_FILE"
    [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exec sleep 60
    echo again'
is "$status $(paste -sd, <<<"$out")" '0 again,again' 'the worker is restarted as after any failure'
one --no-python sh -c '
    printf "%s\n" nonsense "{}" >"$TORCHELASTIC_TIMER_FILE"
    printf "$REQUEST" '$$' other 1 >"$TORCHELASTIC_TIMER_FILE"
    printf "$REQUEST" $$ here -1 >"$TORCHELASTIC_TIMER_FILE"
    sleep 0.5; echo fine'
is "$status $out" '0 fine' 'malformed requests do no harm, and other processes are not signalled'
like "$err" 'cannot parse a timer request' 'a malformed request is logged'
: >timers
one --no-python true
is "$status" 1 'a file in the place of the FIFO is refused'
like "$err" "timers' is there and no FIFO" 'the log names the file that is no FIFO'
rm timers
unset TORCHELASTIC_ENABLE_FILE_TIMER TORCHELASTIC_TIMER_FILE

# ---- health checks ------------------------------------------------------------------------------
http() { # the answer without carriage returns; empty without a listener
    local fd
    exec {fd}<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf "$2" >&"$fd"
    timeout 5 cat <&"$fd" | tr -d '\r'
    exec {fd}>&-
}
answers() { http "$port" 'GET /health HTTP/1.1\r\nHost: x\r\n\r\n' 2>/dev/null | grep -q '200 OK'; }
port=$((20000 + RANDOM % 10000))
export TORCHELASTIC_HEALTH_CHECK_PORT=$port
dtrun --standalone --no-python sh -c 'echo up >up; while [ ! -e enough ]; do sleep 0.05; done' \
    >one.out 2>one.err &
agent=$!
ok 'a GET is answered with 200' wait_for 10 answers
like "$(http "$port" 'GET / HTTP/1.0\r\n\r\n')" $'^HTTP/1.1 200 OK\n.*\n\nalive$' \
    'every path is answered'
like "$(http "$port" 'HEAD / HTTP/1.0\r\n\r\n')" 'Connection: close$' 'HEAD has no body'
like "$(http "$port" 'POST / HTTP/1.0\r\n\r\n')" '^HTTP/1.1 405 ' 'nothing else is served'
like "$(http "$port" "GET /$(printf '%05000d' 0) HTTP/1.0\r\n\r\n")" '^HTTP/1.1 431 ' \
    'a request without end is cut off'
silent=()
for ((i = 0; i < 40; i++)); do
    exec {fd}<>"/dev/tcp/127.0.0.1/$port" && silent+=("$fd")
done
ok 'forty silent clients do not block others' answers
for fd in "${silent[@]}"; do exec {fd}>&-; done
kill -STOP "$agent"
is "$(timeout 1 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; printf 'GET / HTTP/1.0\r\n\r\n' >&3
    cat <&3" | wc -c)" 0 'an agent that does not get on gives no answer'
kill -CONT "$agent"
ok 'the agent answers again when it continues' wait_for 10 answers
wait_for 10 test -e up
one --no-python true
is "$status" 0 'a port in use ends no run'
like "$err" 'cannot answer health checks' 'the log names the port that is in use'
: >enough
wait "$agent"
is "$?" 0 'the run ends well'
TORCHELASTIC_HEALTH_CHECK_PORT=http one --no-python true
like "$status $err" '^0 .*HEALTH_CHECK_PORT is not a port' 'a port that is not valid is logged'
unset TORCHELASTIC_HEALTH_CHECK_PORT

# ---- PyTorch's own client -----------------------------------------------------------------------
if ! "${PYTHON:-false}" -c 'import torch.distributed.elastic.timer' 2>/dev/null; then
    skip 7 'no Python with PyTorch here (make setup, or set DTCTL_TEST_PYTHON)'
    done_testing
fi
cat >worker.py <<'P'
import os
import sys
import time
import torch.distributed.elastic.timer as timer

timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
rank = int(os.environ["RANK"])
with timer.expires(after=60, scope="outer"):
    with timer.expires(after=30):
        pass
    print(f"in time {rank}", flush=True)
    if sys.argv[1] == "hang" and rank == 1:
        with timer.expires(after=0.2, scope="the slow part"):
            time.sleep(60)
print(f"done {rank}", flush=True)
P
export PYTHON_EXEC=$PYTHON OMP_NUM_THREADS=1 TORCHELASTIC_ENABLE_FILE_TIMER=1
one --nproc-per-node 2 worker.py work
is "$status $(sort <<<"$out" | paste -sd,)" '0 done 0,done 1,in time 0,in time 1' \
    "PyTorch's client: who is in time is left alone" || diag "$err"
started=${EPOCHREALTIME/./}
one --nproc-per-node 2 worker.py hang
is "$status" 1 'a rank that hangs is ended'
like "$err" "rank      : 1 .*timer 'the slow part' expired" 'the report names the expired timer'
ok 'long before it would have ended' test "$((${EPOCHREALTIME/./} - started))" -lt 50000000
is "$(fifos)" 0 'nothing is left'
run timeout 180 "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 worker.py hang
is "$status" 137 "torchrun's agent ends itself with the worker's signal"
unlike "$err" 'the slow part' "torchrun's report does not name the timer"
find "$TMPDIR" -name 'watchdog_timer_*' -delete
done_testing
