#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same programs under PyTorch's torchrun and under dtrun, side by side: environment, statuses,
# log trees, outputs.
#
#     tests/integration/dtrun_compare.t --markdown      # prints the table, runs nothing
# shellcheck source=tests/integration/dtrun_compare.sh
source "${0%/*}/dtrun_compare.sh"

# One process imports PyTorch's launcher and forks for each call; those that get signals start anew.
torchrun=$SRC/tests/integration/dtrun_torchrun.py
"$PYTHON" "$torchrun" serve "$WORK/torchrun" >torchrun.out 2>&1 &
wait_for 60 grep -q ready torchrun.out || bail_out "$(cat torchrun.out)"
forked=("$PYTHON" "$torchrun" call "$WORK/torchrun")
ours=(dtrun) theirs=("${forked[@]}") # the commands

one() { # WHO FLAGS… PROGRAM ARGUMENTS…
    local who=$1
    shift
    rm -rf "${WORK:?}/$who" && mkdir -p "$WORK/$who"
    COMPARE_DIR=$WORK/$who
    env -0 >"$COMPARE_PARENT"
    local -n command=$who
    (cd "$WORK/$who" && exec timeout 100 "${command[@]}" "$@" >out 2>err)
    printf -v "status_$who" %s $?
}
both() { # FLAGS… PROGRAM ARGUMENTS…: sets status_, out_ and err_ of ours and theirs
    local who try
    for who in theirs ours; do
        try=1
        one "$who" "$@"
        while torch_spoilt $((try++)) "$WORK/$who"; do one "$who" "$@"; done
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
ours=(dtrun --launch) theirs=("$PYTHON" -m torch.distributed.launch)
both --nproc_per_node=2 "$program" arguments y
same_ends 'torch.distributed.launch'
ours=(dtrun) theirs=("${forked[@]}")

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
    '-t 1:3 --local-ranks-filter 0' \
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
# shellcheck disable=SC2317 # wait_for calls these
none_left() { [ "$(left)" = 0 ]; }
# shellcheck disable=SC2317
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
        [ "$1.$who" != KILL.ours ] || wait_for 10 none_left
        printf -v "left_$who" %s "$(left)"
        for pid in $(pids); do kill -KILL "$pid" 2>/dev/null; done
    done
}
if grep -q shutdown-timeout "$torchrun_py"; then
    stop TERM
    compare 'workers that ignore SIGTERM: status' "$ended_theirs" "$ended_ours"
    compare 'workers that ignore SIGTERM: left' "$left_theirs" "$left_ours"
else
    skip 2 'this torchrun has no --shutdown-timeout (it would take 30 s)'
fi
stop KILL
compare 'agent killed (SIGKILL): workers left' "$left_theirs" "$left_ours"

compared '^[^e]|^env'
