# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# lib.sh: what a test script (an executable tests/*/NAME.t) sources first:
#
#     #!/usr/bin/env bash
#     source "${0%/*}/../lib.sh"
#     hosts_up 2                  # only where the test needs hosts; see hosts.sh
#     run ssh_to 1 'exit 7'
#     is "$status" 7 'the exit status comes back'
#     done_testing
#
# It prints TAP, gives the script a folder of its own ($WORK, current directory, with HOME and
# TMPDIR in it)
# and removes it at the end, unless a test failed: then it stays and the way to rerun is printed.
# Programs under test: dtctl, dtrun and dttrain are found first on PATH. Namespace hosts: hosts.sh.

SRC=${DTCTL_SRC:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
BUILD=${DTCTL_BUILD:-$SRC/build}
BIN=${DTCTL_BIN:-$SRC/bin}
[[ $0 = /* ]] && SCRIPT=$0 || SCRIPT=$PWD/$0
SCRIPT_NAME=${0##*/} SCRIPT_NAME=${SCRIPT_NAME%.t}
# shellcheck disable=SC2034 # a python3 that has torch, or empty; for scripts and hosts.sh
PYTHON=${DTCTL_PYTHON:-}
export DTCTL_SRC=$SRC DTCTL_BUILD=$BUILD DTCTL_BIN=$BIN
# One locale on all machines. As LANG or LC_ALL it would cost each process a dozen files to open.
unset "${!LC_@}"
export LANG=C LC_CTYPE=C.UTF-8
# Every Python keeps what it compiles here: a worker with PyTorch takes two seconds, not eight.
export PYTHONPYCACHEPREFIX=$BUILD/pycache
unset PYTHONDONTWRITEBYTECODE
# The C library keeps the memory that PyTorch frees: to give each tensor's back and take it anew was
# two fifths of the time of train_airbench.t.
export MALLOC_MMAP_THRESHOLD_=$((1 << 32)) MALLOC_TRIM_THRESHOLD_=$((1 << 34))
export PYTHONPATH=$SRC/tests/tools/python${PYTHONPATH:+:$PYTHONPATH} # sitecustomize.py

tap_count=0 tap_failed=0
unset "${!DTCTL_CLUSTER@}" "${!DTCTL_TRAIN@}"

WORK=${TEST_WORK:-$(mktemp -d "${TMPDIR:-/tmp}/dtctl-$SCRIPT_NAME.XXXXXX")}
export HOME=$WORK/home PATH=$BIN:$PATH TMPDIR=$WORK/tmp
mkdir -p "$HOME" "$WORK/out" "$TMPDIR"
cd "$WORK" || exit 1

# ---- TAP ----------------------------------------------------------------------------------------
diag() { # at most 60 lines
    printf '%s\n' "$*" | sed -n 's/^/# /; 1,60p; 61s/.*/# …/p'
}

# result HELD DESCRIPTION: prints one test point; false when it did not hold.
result() {
    tap_count=$((tap_count + 1))
    if [ "$1" = 1 ]; then
        echo "ok $tap_count - $2"
        return 0
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $2"
    diag "  at ${BASH_SOURCE[2]##*/}:${BASH_LINENO[1]}"
    return 1
}

# ok DESCRIPTION COMMAND…: holds when the command succeeds; shows its output when it does not.
ok() {
    local what=$1 log=$WORK/out/ok.log code
    shift
    "$@" >"$log" 2>&1
    code=$?
    result "$((code == 0))" "$what" && return 0
    diag "  status $code from: $*"
    diag "$(tail -n 40 "$log")"
    return 1
}

is() { # GOT WANT DESCRIPTION
    if [ "$1" = "$2" ]; then result 1 "$3" && return 0; fi
    result 0 "$3" || diag "   got: $1" && diag "  want: $2"
    return 1
}

like() { # GOT EXTENDED_REGEX DESCRIPTION
    if [[ $1 =~ $2 ]]; then result 1 "$3" && return 0; fi
    result 0 "$3" || diag "   got: $1" && diag "  want: /$2/"
    return 1
}

unlike() { # GOT EXTENDED_REGEX DESCRIPTION
    if ! [[ $1 =~ $2 ]]; then result 1 "$3" && return 0; fi
    result 0 "$3" || diag "       got: $1" && diag "  must not: /$2/"
    return 1
}

# run COMMAND…: leaves its output in $out and $err and its exit status in $status; never fails.
# shellcheck disable=SC2034 # they are for the caller
run() {
    "$@" >"$WORK/out/run.out" 2>"$WORK/out/run.err"
    status=$?
    out=$(<"$WORK/out/run.out")
    err=$(<"$WORK/out/run.err")
    return 0
}

# without_inotify COMMAND…: for that command inotify is used up. Fails where no user may limit it.
without_inotify() {
    unshare --user --map-root-user sh -c \
        'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"' sh "$@"
}

skip() { # N REASON
    local i
    [[ $1 =~ ^[0-9]+$ ]] || bail_out "skip takes a number and a reason, not '$*'"
    for ((i = 0; i < $1; i++)); do
        tap_count=$((tap_count + 1))
        echo "ok $tap_count # SKIP $2"
    done
}

skip_all() { # REASON: ends the script
    echo "1..0 # SKIP $1"
    tap_count=0 tap_done=1
    exit 0
}

bail_out() { # REASON: ends this script, as a failure; other tests still run
    result 0 "cannot go on: $1"
    exit 1
}

done_testing() {
    echo "1..$tap_count"
    tap_done=1
    [ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt 0 ]
    exit
}

# wait_for SECONDS COMMAND…: polls until the command succeeds; fails, and says so, at the deadline,
# which is WAIT_SECONDS_MIN at least: it ends a test that hangs, and measures nothing.
# strictly: the same for what has to be true by then.
WAIT_SECONDS_MIN=30
wait_for() {
    strictly $(($1 > WAIT_SECONDS_MIN ? $1 : WAIT_SECONDS_MIN)) "${@:2}"
}
# pause_us MICROSECONDS: less than a second, without a process: a read of what never has a writer.
pause_us() {
    local second
    [ -p "$WORK/out/never" ] || mkfifo "$WORK/out/never" || exit 1
    printf -v second '0.%06d' "$1"
    ! read -rt "$second" <>"$WORK/out/never"
}
strictly() {
    local began=${EPOCHREALTIME/./} seconds=$1 waited pause
    shift
    until "$@" >"$WORK/out/wait.log" 2>&1; do
        waited=$((${EPOCHREALTIME/./} - began))
        if [ $waited -gt $((seconds * 1000000)) ]; then
            diag "  still not true after $seconds s: $*"
            diag "$(tail -n 5 "$WORK/out/wait.log")"
            return 1
        fi
        # The longer it lasts the less often: late by an eighth, and by a second at most.
        pause=$((waited / 8 + 20000))
        pause_us $((pause < 999999 ? pause : 999999))
    done
}

# json_value FILE NAME: the first value of this name, without quotes; it has no comma.
json_value() {
    ! [[ $(<"$1") =~ \"$2\":\"?([^,}\"]*) ]] || echo "${BASH_REMATCH[1]}"
}

# newest_run [TASK], newest_id [TASK]: the folder and the name of the task's last run; without one,
# those of the run that changed last. Empty where there is none.
# shellcheck disable=SC2120
newest_run() { find_newest "$@" && echo "$newest"; }
# shellcheck disable=SC2120
newest_id() { find_newest "$@" && echo "${newest##*/}"; }
find_newest() { # in $newest
    local folder
    newest=
    for folder in .dtctl/default/runs/"${1:+$1-}"*/; do
        [ -n "${1-}" ] || [ "$folder" -nt "$newest" ] || continue
        newest=${folder%/}
    done
    [ -d "$newest" ]
}

# soon MS FROM TO DESCRIPTION: holds when no more than MS lie between two moments in milliseconds,
# besides those in which this machine kept a process waiting that wanted to run: a promise of a
# program is none of the machine. late_begins must have been called before.
late_begins() {
    "$BUILD/release/tests/tools/late" "$WORK/out/late" &
    LATE=$!
    disown
}
soon() {
    local took=$(($3 - $2)) late
    late=$(awk -v from="$2" -v to="$3" '$1 > from && $1 - $2 < to { late += $2 }
        END { print late + 0 }' "$WORK/out/late")
    result "$((took <= $1 + late))" "$4 (after $took ms; the machine was late by $late ms)"
}

# ---- the end ------------------------------------------------------------------------------------
# A folder in memory ends with the namespaces of the test (tests/run).
keep_work() {
    local kept
    [ -n "${TEST_MEMORY-}" ] && [[ $WORK == "$TEST_MEMORY"/* ]] || return 0
    kept=$(mktemp -d "$TEST_KEPT/${WORK##*/}.XXXXXX") && cp -ax "$WORK/." "$kept" || return
    rm -rf --one-file-system "$WORK"
    WORK=$kept
}
END_CALLS=()
at_end() { END_CALLS+=("$1"); } # FUNCTION: is called at the end, before anything is removed
at_exit() {
    local code=$? call
    trap - EXIT INT TERM
    for call in "${END_CALLS[@]}"; do "$call"; done
    type hosts_down >/dev/null 2>&1 && hosts_down
    type cloud_stop >/dev/null 2>&1 && cloud_stop
    [ -z "${LATE-}" ] || kill "$LATE" 2>/dev/null
    if [ -z "${tap_done-}" ] && [ "$code" -eq 0 ]; then
        diag "$SCRIPT ended before done_testing"
        code=1
    fi
    cd /
    if [ "$tap_failed" -gt 0 ] || [ "$code" -ne 0 ]; then
        keep_work
        diag "logs are kept in $WORK; run it again with: make test T=$SCRIPT_NAME"
    else
        rm -rf --one-file-system "$WORK"
    fi
    exit "$code"
}
trap at_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# shellcheck source=hosts.sh
source "$SRC/tests/hosts.sh"
