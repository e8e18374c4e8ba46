#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same programs under PyTorch's torchrun and under dtrun, side by side: environment, statuses,
# log trees, outputs. Whatever differs must be in the table below, and must differ as it says there.
#
#     tests/integration/dtrun_compare.t --markdown      # prints the table, runs nothing

# shellcheck disable=SC2016 # backquotes are Markdown's
# what is compared | torchrun's value (regex) | dtrun's value (regex) | torchrun | dtrun | why
differences=(
    'env MASTER_ADDR|localhost|127\.0\.0\.1|`MASTER_ADDR=localhost` with `--standalone`|`127.0.0.1`, numeric everywhere|no resolver in the way of every rank'
    'env NCCL_ASYNC_ERROR_HANDLING||1|`TORCH_NCCL_ASYNC_ERROR_HANDLING` alone|also `NCCL_ASYNC_ERROR_HANDLING`|its name up to PyTorch 2.1'
    'env GLOO_SOCKET_IFNAME||.+||sets `GLOO_SOCKET_IFNAME` and `NCCL_SOCKET_IFNAME` to the interface towards the leader, unless set|the most frequent failure on several nodes'
    'env NCCL_SOCKET_IFNAME||.+'
    'env TORCHELASTIC_ERROR_FILE|logs/RUN/attempt_0/1/error\.json|DIR/logs/RUN/attempt_0/1/error\.json|log and error files relative to the launcher, as `--log-dir` was typed|absolute|scripts may change their folder'
    'env DTCTL_NODE||.+||adds `DTCTL_NODE DTCTL_NODES DTCTL_ROUND DTCTL_RUN DTCTL_SHARD_INDEX DTCTL_SHARD_COUNT`|for data that is split by node; nothing else is added'
    'env DTCTL_NODES||1'
    'env DTCTL_ROUND||0'
    'env DTCTL_RUN||RUN'
    'env DTCTL_SHARD_COUNT||1'
    'env DTCTL_SHARD_INDEX||0'
    'filters without --tee|0|2|`--duplicate-…-filters` look at streams with `--tee` only|at redirected ones too|that is what the flag says'
    'fail: named ranks|.*rank 1.*|rank 1,|lists peers that its own SIGTERM ended as failures too|lists what failed by itself|the cause is not hidden among its effects'
    'fail: last lines|no|yes|error file only|also the last lines of standard error, where they went to a file|most failures write no error file'
    'fail: launcher traceback|yes|no|a Python traceback of the launcher itself|none|it says nothing about the job'
    'bad --nproc-per-node|1|2|ends with 1 (`ValueError`)|ends with 2, as for other usage errors|one status for all mistakes on the command line'
    '--rdzv-backend etcd|1|2|etcd, through a Python package|refused with one sentence|`c10d` needs no server'
    'elastic, shrunk: failures counted|[1-9]|0|counts a failed group when a node leaves|does not: `--max-restarts` is about failures|a run may shrink any number of times'
    'elastic, grown: status|[01]|0|with `c10d`, a node that joins a running job waits for the address of rank 0 until a timeout, and everybody fails (seen with PyTorch 2.13)|it takes part|growing works'
    'elastic, grown: result|(samples 240 worlds \[2, 3\] .*)?|samples 240 worlds \[2, 3\] .*'
    'agent killed (SIGKILL): workers left|[12]|0|workers go on without an agent|every process of the workers is ended|no orphans that hold GPUs'
)

if [ "${1-}" = --markdown ]; then
    echo '| torchrun | dtrun | why |'
    echo '| --- | --- | --- |'
    for row in "${differences[@]}"; do
        IFS='|' read -r _ _ _ theirs ours why <<<"$row"
        [ -z "$ours" ] || echo "| ${theirs:-–} | $ours | $why |"
    done
    exit
fi

source "${0%/*}/../lib.sh"
PYTHON=${DTCTL_TEST_PYTHON:-$PYTHON}
[ -n "$PYTHON" ] || skip_all 'no Python with PyTorch here (make setup, or set DTCTL_TEST_PYTHON)'
timeout 100 "$PYTHON" -m torch.distributed.run --help >help.txt 2>/dev/null ||
    skip_all "$PYTHON has no torchrun"
diag "PyTorch $("$PYTHON" -c 'import torch; print(torch.__version__)')"
export PYTHON_EXEC=$PYTHON OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export COMPARE_PARENT=$WORK/parent COMPARE_DIR=
program=$SRC/tests/integration/dtrun_compare.py

# ---- comparing ----------------------------------------------------------------------------------
declare -A seen=()
status_theirs='' out_theirs='' err_theirs='' ended_theirs='' left_theirs='' count_theirs=''
status_ours='' out_ours='' err_ours='' ended_ours='' left_ours='' count_ours=''
compare() { # WHAT THEIRS OURS
    local row what theirs ours
    for row in "${differences[@]}"; do
        IFS='|' read -r what theirs ours _ <<<"$row"
        [ "$what" = "$1" ] || continue
        seen[$what]=1
        [[ $2 =~ ^($theirs)$ ]]
        result $((!$?)) "$1: torchrun is as the table says" || diag "   got: $2"
        [[ $3 =~ ^($ours)$ ]]
        result $((!$?)) "$1: dtrun is as the table says" || diag "   got: $3"
        return
    done
    is "$3" "$2" "$1: the same"
}

mask() { # run names, ports, process ids and folders are nobody's business
    sed -E "s,$WORK/(theirs|ours),DIR,g; s/(RUN_ID|DTCTL_RUN)=.*/\1=RUN/; s/PORT=[0-9]+/PORT=N/
        s,logs/[^/]+/attempt,logs/RUN/attempt,g"
}
launcher() { # WHO: the command
    if [ "$1" = ours ]; then echo dtrun; else echo "$PYTHON -m torch.distributed.run"; fi
}
both() { # FLAGS… PROGRAM ARGUMENTS…: sets status_, out_ and err_ of ours and theirs
    local who
    for who in theirs ours; do
        rm -rf "${WORK:?}/$who" && mkdir -p "$WORK/$who"
        COMPARE_DIR=$WORK/$who
        env -0 >"$COMPARE_PARENT"
        # shellcheck disable=SC2046 # two words
        (cd "$WORK/$who" && exec timeout 100 $(launcher $who) "$@" >out 2>err)
        printf -v "status_$who" %s $?
        printf -v "out_$who" %s "$(mask <"$who/out" | LC_ALL=C sort)"
        printf -v "err_$who" %s "$(cat "$who/err")"
    done
}
same_ends() { # WHAT
    compare "$1: status" "$status_theirs" "$status_ours" ||
        diag "torchrun: $err_theirs"$'\n'"dtrun: $err_ours"
    compare "$1: output" "$out_theirs" "$out_ours"
}
tree() { # WHO: log files with what is in them
    (cd "$1/logs" && find . -type f | sed -E 's,^\./[^/]+/,,' | LC_ALL=C sort) 2>/dev/null
    # The filtered file is shared by ranks: any order.
    (cd "$1/logs" && find . -name '*.log' -print0 | LC_ALL=C sort -z |
        xargs -0 sed -s -n 's/^/line: /p' | LC_ALL=C sort) 2>/dev/null
}
two=(--standalone --nproc-per-node 2)

# ---- what a worker sees -------------------------------------------------------------------------
both "${two[@]}" --max-restarts 3 --role trainer --log-dir logs "$program" environment
compare 'environment: status' "$status_theirs" "$status_ours"
value() { sed -n "s/^$2=//p" <<<"$1"; }
# shellcheck disable=SC2001,SC2013 # names are words
for name in $(sed 's/=.*//' <<<"$out_theirs"$'\n'"$out_ours" | LC_ALL=C sort -u); do
    compare "env $name" "$(value "$out_theirs" "$name")" "$(value "$out_ours" "$name")"
done
both "${two[@]}" "$program" arguments --flag 'a b' -x
same_ends 'arguments of the script'
PYTHONPATH=${program%/*} both "${two[@]}" -m dtrun_compare arguments -m x
same_ends '-m module'
both "${two[@]}" --no-python "$PYTHON" "$program" arguments
same_ends '--no-python'
# shellcheck disable=SC2016 # the launcher replaces it
both "${two[@]}" "$program" arguments '${local_rank}'
same_ends 'a macro in the arguments'
PET_NPROC_PER_NODE=3 both --standalone "$program" arguments
same_ends 'PET_ variables'
launcher() {
    # shellcheck disable=SC2317 # both calls it
    if [ "$1" = ours ]; then echo dtrun --launch; else echo "$PYTHON -m torch.distributed.launch"; fi
}
both --nproc_per_node=2 "$program" arguments y
same_ends 'torch.distributed.launch'
launcher() {
    if [ "$1" = ours ]; then echo dtrun; else echo "$PYTHON -m torch.distributed.run"; fi
}

# ---- DDP, failures, restarts --------------------------------------------------------------------
both "${two[@]}" "$program" ddp
same_ends 'DDP'
both "${two[@]}" --max-restarts 3 --log-dir logs -r 3 "$program" restart
same_ends 'two failures, three restarts allowed'
compare 'restarts: log files' "$(tree theirs)" "$(tree ours)"
both "${two[@]}" --log-dir logs -r 3 "$program" fail
compare 'fail: status' "$status_theirs" "$status_ours"
files() { (cd "$1/logs" && find . -type f | sed -E 's,^\./[^/]+/,,' | LC_ALL=C sort); }
compare 'fail: log files' "$(files theirs)" "$(files ours)"
# From the report's box: the root cause's own block comes last.
box() { sed -n '/FAILED$/,$p' <<<"$1"; }
ranks() { box "$1" | grep -oE 'rank +: [0-9]' | sed -E 's/ +: / /' | paste -sd, | sed 's/$/,/'; }
root() { box "$1" | sed -n '/Root Cause/,$p' | grep -E "^ +$2 +:" | tail -n 1 |
    sed -E 's/pid: [0-9]+/pid: N/; s/ +/ /g; s/ $//'; }
has() { if grep -q -- "$2" <<<"$1"; then echo yes; else echo no; fi; }
compare 'fail: named ranks' "$(ranks "$err_theirs")" "$(ranks "$err_ours")"
for field in rank exitcode; do
    compare "fail: root cause's $field" "$(root "$err_theirs" $field)" "$(root "$err_ours" $field)"
done
compare 'fail: exception of the error file' "$(has "$(box "$err_theirs")" 'a reason in rank 1')" \
    "$(has "$(box "$err_ours")" 'a reason in rank 1')"
compare 'fail: last lines' "$(has "$err_theirs" 'last words of rank 1')" \
    "$(has "$err_ours" 'last words of rank 1')"
compare 'fail: launcher traceback' "$(has "$err_theirs" ChildFailedError)" \
    "$(has "$err_ours" ChildFailedError)"
both "${two[@]}" "$program" killed
compare 'killed worker: status' "$status_theirs" "$status_ours"
killed='Signal 9 (SIGKILL) received by PID'
compare 'killed worker: named' "$(has "$err_theirs" "$killed")" "$(has "$err_ours" "$killed")"
both "${two[@]}" "$program" status
compare "a worker's status 7: status" "$status_theirs" "$status_ours"

# ---- an elastic program: state after every step, any number of workers --------------------------
# Three agents, one of which leaves; or two, to which one comes. The first hosts the rendezvous.
# shellcheck disable=SC2317 # wait_for calls these
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
# shellcheck disable=SC2317
has_come_to() { [ "$(cat "$COMPARE_DIR/progress" 2>/dev/null)" = "$1" ] || ! kill -0 "${agents[0]}"; }
allow() { echo "$1" >"$COMPARE_DIR/steps.new" && mv "$COMPARE_DIR/steps.new" "$COMPARE_DIR/steps"; }
agent() { # WHO
    # shellcheck disable=SC2046 # two words
    $(launcher "$1") --nnodes 2:3 --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port" \
        --rdzv-id x --max-restarts 9 --rdzv-conf last_call_timeout=15,read_timeout=20 \
        "$program" elastic >>"$1/out" 2>>"$1/err" &
    agents+=($!)
}
elastic() { # NODES THEN: sets status_, out_ and count_ of ours and theirs
    local who pid i agents began
    for who in theirs ours; do
        rm -rf "${WORK:?}/$who" && mkdir -p "$WORK/$who"
        COMPARE_DIR=$WORK/$who agents=() port=$((24000 + RANDOM % 6000))
        allow 10
        agent $who
        wait_for 60 listening
        for ((i = 1; i < $1; i++)); do agent $who; done
        wait_for 100 has_come_to "10 $1"
        began=${EPOCHREALTIME/./}
        if [ "$2" -lt "$1" ]; then kill "${agents[-1]}"; else agent $who; fi
        wait_for 150 has_come_to "10 $2"
        diag "$(launcher $who): from $1 to $2 nodes in $(((${EPOCHREALTIME/./} - began) / 1000)) ms"
        allow 20
        wait_for 60 has_come_to "20 $2"
        wait "${agents[0]}"
        printf -v "status_$who" %s $?
        for pid in "${agents[@]}"; do kill "$pid" 2>/dev/null; done
        wait "${agents[@]}" 2>/dev/null
        printf -v "out_$who" %s "$(grep -h samples "$who/out")"
        printf -v "count_$who" %s "$(sed -n 's/^count //p' "$who/out")"
    done
}
elastic 3 2
compare 'elastic, shrunk: status' "$status_theirs" "$status_ours" ||
    diag "torchrun: $(tail -n 20 theirs/err)"$'\n'"dtrun: $(cat ours/err)"
compare 'elastic, shrunk: result' "$out_theirs" "$out_ours"
compare 'elastic, shrunk: failures counted' "$count_theirs" "$count_ours"
elastic 2 3
compare 'elastic, grown: status' "$status_theirs" "$status_ours" || diag "dtrun: $(cat ours/err)"
compare 'elastic, grown: result' "$out_theirs" "$out_ours"

# ---- mistakes -----------------------------------------------------------------------------------
both --no-such-flag "$program" arguments
compare 'unknown flag' "$status_theirs" "$status_ours"
both --standalone
compare 'no script' "$status_theirs" "$status_ours"
both --standalone --nproc-per-node many "$program" arguments
compare 'bad --nproc-per-node' "$status_theirs" "$status_ours"
both --rdzv-backend etcd --rdzv-endpoint localhost:1 "$program" arguments
compare '--rdzv-backend etcd' "$status_theirs" "$status_ours"

# ---- streams ------------------------------------------------------------------------------------
for how in '-r 3' '-r 0:1,1:2' '-t 3' '-r 3 -t 1:1' '-t 3 --local-ranks-filter 1' \
    '-t 3 --duplicate-stdout-filters needle,none --duplicate-stderr-filters err,,1'; do
    # shellcheck disable=SC2086 # several words
    both "${two[@]}" --log-dir logs $how "$program" noisy
    same_ends "$how"
    compare "$how: files and lines" "$(tree theirs)" "$(tree ours)"
done

both "${two[@]}" --log-dir logs -r 3 --duplicate-stdout-filters needle "$program" noisy
filtered() { cat "$1"/logs/*/attempt_0/filtered_stdout.log | wc -l; }
compare 'filters without --tee' "$(filtered theirs)" "$(filtered ours)"

# ---- signals ------------------------------------------------------------------------------------
pids() { cat "$COMPARE_DIR"/pid.? 2>/dev/null; }
left() { # how many of the workers are alive
    local pid n=0
    for pid in $(pids); do
        [ ! -e "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" || n=$((n + 1))
    done
    echo $n
}
# shellcheck disable=SC2317 # wait_for calls it
up() { # both workers are there
    [ "$(pids | wc -w)" = 2 ]
}
stop() { # SIGNAL: sets ended_ and left_ of ours and theirs
    local who agent pid
    for who in theirs ours; do
        rm -rf "${WORK:?}/$who" && mkdir -p "$WORK/$who"
        COMPARE_DIR=$WORK/$who
        # shellcheck disable=SC2046 # two words
        TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1 $(launcher $who) "${two[@]}" "$program" stubborn \
            >"$who/out" 2>"$who/err" &
        agent=$!
        wait_for 60 up || diag "$(cat "$who/err")"
        kill -s "$1" $agent
        wait $agent 2>/dev/null
        printf -v "ended_$who" %s $?
        [ "$1" != KILL ] || sleep 0.5
        printf -v "left_$who" %s "$(left)"
        for pid in $(pids); do kill -KILL "$pid" 2>/dev/null; done
    done
}
if grep -q shutdown-timeout help.txt; then
    stop TERM
    compare 'workers that ignore SIGTERM: status' "$ended_theirs" "$ended_ours"
    compare 'workers that ignore SIGTERM: left' "$left_theirs" "$left_ours"
else
    skip 2 'this torchrun has no --shutdown-timeout (it would take 30 s)'
fi
stop KILL
compare 'agent killed (SIGKILL): workers left' "$left_theirs" "$left_ours"

for row in "${differences[@]}"; do
    [ -n "${seen[${row%%|*}]-}" ] || result 0 "${row%%|*}: in the table, but never compared"
done
done_testing
