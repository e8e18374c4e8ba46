#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun by hand, with shell workers: command line, environment, logs, failures, signals, and that no
# worker outlives its agent, whatever ends the agent.
# Clock: how long a worker that ignores signals lives after its agent was asked to end.
# Texts are expanded by workers, functions are called by name, pids have no spaces in them:
# shellcheck disable=SC2016,SC2317,SC2013
source "${0%/*}/../lib.sh"
shopt -s nullglob

sh_worker() { dtrun --standalone --no-python "$@"; }
alive() { kill -0 "$1" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
dead() { ! alive "$1"; }
all_dead() {
    local pid
    for pid in $(cat pids.* 2>/dev/null); do dead "$pid" || return 1; done
}
has_lines() { [ "$(cat pids.* 2>/dev/null | wc -l)" -ge "$1" ]; }
fresh() { rm -rf pids.* logs && mkdir logs; }

# ---- command line -------------------------------------------------------------------------------
run dtrun --standalone --nope x
is "$status" 2 'an unknown flag is a usage error'
like "$err" 'nope' 'the error names the unknown flag'
run dtrun
is "$status" 2 'no script is a usage error'
run dtrun --rdzv-backend etcd x
is "$status" 2 'etcd is refused'
like "$err" 'etcd is not served' 'the error says that etcd is not served'
run dtrun --nnodes 2:1 x
is "$status" 2 'a range backwards is refused'
run dtrun --standalone --nproc-per-node many x
is "$status" 2 'an unknown number of workers is refused'
run dtrun --standalone --no-python -m x
is "$status" 2 '--no-python and -m are refused together'
run dtrun --help
is "$status" 0 'help'
like "$out" 'nproc-per-node' 'the help lists the flags'
run dtrun --stand --nproc_per_node=2 --redirect=0 --no-python echo --not-a-flag
is "$status $out" $'0 --not-a-flag\n--not-a-flag' \
    'flags take underscores and abbreviations; arguments are not changed'
run env PET_NPROC_PER_NODE=3 PET_NO_PYTHON=1 dtrun --standalone echo x
is "$(wc -l <<<"$out")" 3 'PET_ variables are read as flags'
run env PET_NPROC_PER_NODE=3 dtrun --standalone --nproc-per-node 1 --no-python echo x
is "$out" x 'the command line beats a PET_ variable'
run dtrun -n 1 -ppn 2 --no-python sh -c 'echo "$WORLD_SIZE $*"' - -ppn 3
is "$out" $'2 -ppn 3\n2 -ppn 3' '-n and -ppn are short for --nnodes and --nproc-per-node'
run dtrun -ppn=x --no-python true
like "$status $err" "^[12] .*'?x'?" 'the values of -n and -ppn are checked'
LOGLEVEL=Info run dtrun --no-python true
like "$err" 'the run has finished' 'LOGLEVEL=INFO shows messages'
LOGLEVEL=ERROR run dtrun --standalone -ppn 2 --no-python true
is "$err" '' 'LOGLEVEL=ERROR hides messages'
ln -s "$(command -v dtrun)" torchrun
run ./torchrun --standalone --no-python echo same
is "$out" same 'a link called torchrun behaves the same'

# ---- environment --------------------------------------------------------------------------------
run sh_worker --nproc-per-node 2 --max-restarts 3 --role trainer sh -c '
    [ "$RANK" = 1 ] || exit 0
    for v in LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE \
        ROLE_WORLD_SIZE GROUP_WORLD_SIZE TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS \
        TORCHELASTIC_USE_AGENT_STORE OMP_NUM_THREADS MASTER_ADDR SENTINEL; do
        eval "echo $v=\$$v"; done
    [ -n "$TORCHELASTIC_RUN_ID" ] && [ "$MASTER_PORT" -gt 0 ] && echo rest=fine
    echo "error=$TORCHELASTIC_ERROR_FILE"'
want='LOCAL_RANK=1 RANK=1 GROUP_RANK=0 ROLE_RANK=1 ROLE_NAME=trainer LOCAL_WORLD_SIZE=2'
want+=' WORLD_SIZE=2'
want+=' ROLE_WORLD_SIZE=2 GROUP_WORLD_SIZE=1 TORCHELASTIC_RESTART_COUNT=0'
want+=' TORCHELASTIC_MAX_RESTARTS=3'
want+=' TORCHELASTIC_USE_AGENT_STORE=True OMP_NUM_THREADS=1 MASTER_ADDR=127.0.0.1'
want+=' SENTINEL= rest=fine'
is "$(head -n 16 <<<"$out" | paste -sd' ')" "$want" 'the environment of rank 1 is that of torchrun'
like "$out" 'error=/.*/attempt_0/1/error\.json' 'the error file is in its log folder'
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 run sh_worker sh -c 'echo "$TORCHELASTIC_USE_AGENT_STORE"
    (: <>"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null && echo taken; exit 0'
is "$out" False 'TORCH_DISABLE_SHARE_RDZV_TCP_STORE: the workers open the store, its port is free'
run sh_worker sh -c 'echo "${NCCL_ASYNC_ERROR_HANDLING-none} $TORCH_NCCL_ASYNC_ERROR_HANDLING"'
is "$out" 'none 1' 'no variable that PyTorch calls deprecated is set'
run sh_worker --log-dir /dev/null sh -c 'echo "[$TORCHELASTIC_ERROR_FILE]"; echo ${local_rank}'
is "$(head -n1 <<<"$out")" '[]' 'without a log folder there is no error file'
mkdir own
made() { find own -mindepth 1 | wc -l; }
TMPDIR=$WORK/own run sh_worker --nproc-per-node 2 --max-restarts 1 sh -c '
    [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 3
    [ -d "${TORCHELASTIC_ERROR_FILE%/*}" ] && echo "$TORCHELASTIC_ERROR_FILE"'
like "$status $out" "^0 $WORK/own/torchelastic_.*/attempt_1/./error.json" \
    'without --log-dir there is a temporary log folder'
is "$(made)" 0 'an empty temporary log folder is removed'
TMPDIR=$WORK/own run sh_worker ./does-not-exist
is "$status $(made)" '1 0' 'an empty temporary log folder is removed after a failure'
TMPDIR=$WORK/own run sh_worker --nproc-per-node 2 sh -c '
    [ "$RANK" = 0 ] && exit 0
    echo "{\"message\": \"what it was\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 1'
like "$err" 'what it was' 'an error file in it is reported'
# The launcher's own error file, for launchers around this one.
export TORCHELASTIC_ERROR_FILE=$WORK/agent.json
run sh_worker --nproc-per-node 2 sh -c '
    echo "{\"message\": {\"message\": \"no \\\\u00fc\", \"extraInfo\": {\"timestamp\": \"7\"}}}" \
        >"$TORCHELASTIC_ERROR_FILE"
    [ "$RANK" = 1 ] && exit 9; sleep 9'
want='{"message":{"message":"no ü","extraInfo":{"timestamp":"7"},"errorCode":9}}'
is "$(cat agent.json)" "$want" \
    'the root cause is copied to the file of the launcher, with its exit code'
TORCHELASTIC_ERROR_FILE=$WORK/none/x run sh_worker sh -c '
    echo "{}" >"$TORCHELASTIC_ERROR_FILE"; false'
like "$err" 'cannot copy the error file to=.*/none/x' 'a file that cannot be written is named'
rm agent.json
run sh_worker false
ok 'no error file is written and none is copied' test ! -e agent.json
unset TORCHELASTIC_ERROR_FILE
TMPDIR=$WORK/own run sh_worker --nproc-per-node 2 sh -c '
    [ "$RANK" = 0 ] && exit 0
    echo "{\"message\": \"what it was\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 1'
file=$(sed -n 's/.*error_file: *\([^ ]*\).*/\1/p' <<<"$err")
like "$(cat "$file")" 'what it was' 'the error file stays where the report says'
rm -r own/*
TMPDIR=$WORK/own run sh_worker -r 1 echo kept
is "$(cat own/*/*/attempt_0/0/stdout.log)" kept 'redirected output stays'
run sh_worker --nproc-per-node 2 echo 'rank${local_rank}'
is "$(sort <<<"$out" | paste -sd' ')" 'rank0 rank1' '${local_rank} in arguments is replaced'

# ---- logs ---------------------------------------------------------------------------------------
noisy='echo "out $RANK"; echo "err $RANK" >&2'
fresh
run sh_worker --nproc-per-node 2 --log-dir logs -r 3 sh -c "$noisy"
is "$out" '' 'redirected output does not reach the console'
is "$(cat logs/*/attempt_0/0/stdout.log logs/*/attempt_0/1/stderr.log | paste -sd' ')" \
    'out 0 err 1' 'redirected output is in the files'
fresh
run sh_worker --nproc-per-node 2 --log-dir logs -t 3 sh -c "$noisy"
is "$(sort <<<"$out" | paste -sd' ')" '[default0]:out 0 [default1]:out 1' \
    'tee puts prefixes before lines'
like "$err" '\[default1\]:err 1' 'tee puts prefixes before standard error'
is "$(cat logs/*/attempt_0/1/stdout.log)" 'out 1' 'tee writes files without a prefix'
fresh
run sh_worker --nproc-per-node 4 --tee 3 sh -c \
    'for i in $(seq 300); do printf "a$RANK "; printf "b$RANK\n"; done'
is "$(grep -cE '^\[default([0-3])\]:a\1 b\1$' <<<"$out") $(wc -l <<<"$out")" '1200 1200' \
    'tee tears no line of ranks that write at one time'
if without_inotify true 2>/dev/null; then
    fresh
    run without_inotify dtrun --standalone --nproc-per-node 2 --log-dir logs --tee 3 --no-python \
        sh -c "$noisy"
    is "$(sort <<<"$out" | paste -sd' ')" '[default0]:out 0 [default1]:out 1' \
        'tee works without inotify'
else
    skip 1 'this machine lets nobody limit inotify in a user namespace'
fi
fresh
run sh_worker --nproc-per-node 2 --log-dir logs -t 0:1 --log-line-prefix-template '<${rank}> ' \
    --local-ranks-filter 0 sh -c "$noisy"
is "$out" '<0> out 0' 'a prefix template, a tee per rank and a filter of local ranks are applied'
fresh
run sh_worker --log-dir logs -r 1 --duplicate-stdout-filters=needle,x,,y \
    sh -c 'echo hay; echo a needle; echo x,y; printf last-needle'
is "$(cat logs/*/attempt_0/filtered_stdout.log | sed 's/^\[default0\]://' | paste -sd'|')" \
    'a needle|x,y|last-needle' 'filtered lines are duplicated, the last one without its newline too'

# ---- failures and restarts ----------------------------------------------------------------------
fresh
run sh_worker --nproc-per-node 2 --log-dir logs -r 2 sh -c '
    [ "$RANK" = 1 ] && { echo "the reason" >&2; exit 7; }; exec sleep 60'
is "$status" 1 'a failing worker ends the run with 1'
like "$err" 'FAILED' 'a failed run prints a report'
like "$err" 'rank      : 1 \(local_rank: 1\)' 'the report names the rank'
like "$err" 'exitcode  : 7 ' 'the report has the exit code'
like "$err" 'the reason' 'the report has the last line'
run sh_worker --exit-code worker sh -c 'exit 7'
is "$status" 7 '--exit-code worker passes the status on'
run sh_worker sh -c 'kill -SEGV $$'
like "$err" 'Signal 11 \(SIGSEGV\) received by PID' 'a signal is named'
run sh_worker ./does-not-exist
is "$status" 1 'a program that is not there is refused'
like "$err" 'does-not-exist' 'the error names the missing program'
fresh
run sh_worker --nproc-per-node 2 --max-restarts 2 --log-dir logs -r 3 sh -c '
    echo "count $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT"
    [ "$RANK" = 0 ] && [ "$TORCHELASTIC_RESTART_COUNT" -lt 2 ] && exit 1
    sleep 0.2'
is "$status" 0 'the workers are restarted until they succeed'
is "$(cat logs/*/attempt_?/0/stdout.log | cut -d' ' -f2 | paste -sd' ')" '0 1 2' \
    'restarts are counted'
is "$(cat logs/*/attempt_?/0/stdout.log | cut -d' ' -f4 | sort -u | wc -l)" 3 \
    'each restart has a fresh store'
run sh_worker --max-restarts 2 false
is "$status" 1 'the number of restarts is limited'
run sh_worker --max-restarts 5 sh -c '[ "$TORCHELASTIC_RESTART_COUNT" -ge 4 ]'
is "$status" 0 'failures right after the start count as any other, as in torchrun'
run sh_worker --max-restarts 50 --rdzv-conf crash_loop=3 false
like "$err" 'crash loop: 3 times in a row' 'crash_loop ends the run after that many failures'
run sh_worker --rdzv-conf crash_loop=often true
like "$status $err" '^2 .*crash_loop=often: not a number of failures' \
    'a crash_loop that is no number is refused'

# ---- signals ------------------------------------------------------------------------------------
start_agent() { # FLAGS… -- SCRIPT: agent in the background, its pid in $agent
    local flags=()
    while [ "$1" != -- ]; do flags+=("$1") && shift; done
    fresh
    dtrun --standalone --no-python "${flags[@]}" sh -c "$2" >agent.out 2>agent.err &
    agent=$!
}
sleeper='echo $$ >pids.$RANK; exec sleep 600'
stubborn='trap "" TERM INT HUP; echo $$ >pids.$RANK; while :; do sleep 0.1; done'
# Double fork, own session, all signals but KILL ignored.
runaway='trap "" TERM INT HUP
    (setsid sh -c "echo \$\$ >pids.a$RANK; exec sleep 600" &)
    setsid setsid sh -c "trap \"\" TERM; (sh -c \"echo \\\$\\\$ >pids.b$RANK; sleep 600; :\" &)"
    echo $$ >pids.c$RANK; exec sleep 600'

for signal in TERM INT HUP QUIT; do
    start_agent --nproc-per-node 2 -- "$sleeper"
    ok "workers run ($signal)" wait_for 10 has_lines 2
    kill -s "$signal" "$agent"
    wait "$agent"
    is "$?" 1 "SIG$signal ends the agent with 1"
    ok "SIG$signal ends the workers" all_dead
done
start_agent --shutdown-timeout 1 -- "$stubborn"
wait_for 10 has_lines 1
started=$EPOCHREALTIME
kill "$agent"
wait "$agent"
took=$(((${EPOCHREALTIME/./} - ${started/./}) / 1000))
ok 'a worker that ignores SIGTERM is killed' all_dead
ok "SIGKILL follows --shutdown-timeout (after $took ms)" test "$took" -ge 900 -a "$took" -lt 5000

# ---- nothing is left ----------------------------------------------------------------------------
start_agent --nproc-per-node 2 -- "$runaway"
ok 'runaway processes are there' wait_for 10 has_lines 6
kill -KILL "$agent"
wait "$agent" 2>/dev/null
ok 'agent killed: every process of its workers is gone' wait_for 5 all_dead
start_agent --nproc-per-node 2 -- "$runaway"
ok 'both agents start their workers again' wait_for 10 has_lines 6
guard=$(pgrep -P "$agent")
kill -KILL "$guard"
ok 'guard killed: every process of its workers is gone' wait_for 5 all_dead
wait "$agent"
is "$?" 1 'the agent of a killed guard reports a failure'
start_agent -- '(setsid sh -c "echo \$\$ >pids.1; exec sleep 600" & ); sleep 0.3; exit 0'
wait "$agent"
is "$?" 0 'a worker that leaves a daemon behind ends well'
ok 'the daemon is ended' all_dead
setsid --wait sh -c "echo \$\$ >leader; exec script -qefc \"dtrun --standalone --no-python sh -c \
'$sleeper'\" typescript" </dev/null >/dev/null 2>&1 &
fresh
ok 'a worker starts under a terminal' wait_for 10 has_lines 1
kill -KILL "$(cat leader)"
ok 'terminal closed: nothing is left' wait_for 5 all_dead

# ---- several agents -----------------------------------------------------------------------------
say='echo "rank $RANK group $GROUP_RANK of $WORLD_SIZE"'
export DTRUN_KEY=a-shared-secret
c10d=(--nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-id x --no-python)
port=$((20000 + RANDOM % 10000))
dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" sh -c "$say" >one.out 2>one.err &
run dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" sh -c "$say"
wait
is "$(sort one.out "$WORK/out/run.out" | paste -sd, )" \
    'rank 0 group 0 of 4,rank 1 group 0 of 4,rank 2 group 1 of 4,rank 3 group 1 of 4' \
    'two agents of one host share a run (c10d)'
run dtrun --standalone --no-python sh -c 'echo "${DTRUN_KEY-none}"'
is "$out" none 'workers do not get the key'
# The first one has to have the port; else it is the one that is refused, and the other one waits.
listens() { (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
port=$((port + 1))
dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" --rdzv-conf join_timeout=5 true \
    >one.out 2>one.err &
wait_for 5 listens
DTRUN_KEY=another run dtrun "${c10d[@]}" --rdzv-endpoint "127.0.0.1:$port" \
    --rdzv-conf join_timeout=5 true
is "$status" 1 'an agent with another key is refused'
like "$err" 'key' 'the error names the key'
wait
port=$((port + 1))
work='[ "$RANK" = 3 ] && { sleep 0.5; exit 9; }; echo $$ >pids.$RANK; exec sleep 600'
static=(--nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port "$port" --no-python)
fresh
dtrun "${static[@]}" --node-rank 0 sh -c "$work" >one.out 2>one.err &
first=$!
run dtrun "${static[@]}" --node-rank 1 sh -c "$work"
is "$status" 1 'a failure on one node ends that agent'
wait "$first"
is "$?" 1 'the other agent fails, too'
ok 'all workers are ended' all_dead
like "$(cat one.err)" 'rank      : 3 ' 'both agents name the root cause'

# Many that fail at once, with long last words: the verdict arrives, and the first one is whole.
fresh
long='echo; until [ -e go ]; do sleep 0.5; done; printf "%08000d\n" 0 >&2
    printf "{\"message\": \"first %016000d last\"}" 0 >"$TORCHELASTIC_ERROR_FILE"; exit 3'
dtrun --standalone --nproc-per-node 256 -r 3 --log-dir many.d --no-python sh -c "$long" \
    >many.out 2>many.err &
agent=$!
started() { [ "$(cat many.d/*/attempt_0/*/stdout.log 2>/dev/null | wc -l)" = 256 ]; }
ok 'as many workers as a report holds are started' wait_for 60 started
kill -STOP "$agent"
touch go
written() { [ "$(cat many.d/*/attempt_0/*/error.json 2>/dev/null | grep -o last | wc -l)" = 256 ]; }
ok 'all of them fail' wait_for 60 written
kill -CONT "$agent"
wait "$agent"
is "$?" 1 'end their agent'
like "$(cat many.err)" 'and [0-9]+ more.*first 0{16000} las' 'a long report has the root cause'
unlike "$(cat many.err)" 'longer than|is lost' 'a long report is one message'

# A console without a reader blocks only itself.
mkfifo unread
exec 8<>unread
port=$((port + 1))
lines='seq -f "%090.0f" 40000; sleep 2; [ "$RANK" = 0 ] || exit 5'
static=(--nnodes 2 --max-restarts 0 --master-addr 127.0.0.1 --master-port "$port" --no-python)
dtrun "${static[@]}" --node-rank 0 --log-dir unread.d --tee 3 sh -c "$lines" >unread 2>unread &
first=$!
run timeout 60 dtrun "${static[@]}" --node-rank 1 sh -c "$lines"
wait "$first"
is "$status $?" '1 1' 'a console that is not read: both agents end'
like "$err" 'exitcode  : 5 ' 'the report has the failure, not a silent node'
unlike "$err" 'silent' 'no node is silent'
is "$(cat unread.d/*/attempt_0/0/stdout.log | wc -l)" 40000 'the log file has every line'
exec 8<&-
run dtrun --standalone --tee 3 --no-python sh -c 'seq -f "%0900.0f" 20000'
is "$(grep -c '^\[default0\]:0*[0-9]*$' <<<"$out")" 20000 'a console that is read has every line'

done_testing
