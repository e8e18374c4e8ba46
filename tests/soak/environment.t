#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl in failing environments: results on another file system, a file system that is full after N
# bytes, a read-only folder, few descriptors, a limit on file sizes, an output that is full or has
# no reader. Every command ends by itself with a correct message and status. After the fault is
# repaired all results are still available.
#
#     SOAK_AT='full-output 48' tests/soak/environment.t      one point alone
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by name
if [ -z "${ENVIRONMENT_NAMESPACE-}" ]; then # mounts of its own
    export ENVIRONMENT_NAMESPACE=1
    exec unshare --mount --propagation private "$0" "$@" ||
        { echo '1..0 # SKIP mount namespaces cannot be made' && exit 0; }
fi
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-20} SOAK_SEED=${SOAK_SEED:-1}
HANG_SECONDS_MAX=30
RANDOM=$SOAK_SEED
rounds=0 faults=0
mkdir -p project results
mount -t tmpfs -o size=64m project project || skip_all 'a tmpfs cannot be mounted'
mount -t tmpfs -o size=64m results results
cd project || exit

job='echo begins; cd $DTCTL_OUTPUT_DIR; mkdir sub; seq 20000 >same; echo $DTCTL_NODE >differs
    head -c 300000 /dev/zero >sub/$DTCTL_NODE; echo $DTCTL_NODE >$DTCTL_STATE_DIR/n'
dtctl up --nodes 2 >up.out 2>&1 || bail_out "no cluster: $(cat up.out)"
dtctl train --name held --output "$WORK/results/out" -- sh -c "$job" >train.out 2>&1
is "$?" 0 'results are fetched to another file system'
run=$(basename "$(find .dtctl/default/runs -mindepth 1 -maxdepth 1)")
sum() { (cd "$WORK/results/out" && find . -type f ! -name .dtctl-run -exec sha256sum {} + | sort); }
whole=$(sum)
# Every file is at its place. After a merge of a part of the nodes a file may also be at a second
# place, never one with content that no node has written.
is_whole() {
    local now
    now=$(sum 2>/dev/null)
    [ -z "$(comm -23 <(echo "$whole") <(echo "$now"))" ] &&
        [ -z "$(comm -13 <(cut -c1-64 <<<"$whole" | sort -u) <(cut -c1-64 <<<"$now" | sort -u))" ]
}
is "$(wc -l <<<"$whole")" 7 'all results are on the other file system'

fault() { # WHAT
    faults=$((faults + 1))
    diag "$kind $n: $1; status $status"
    diag "$(tail -n 8 "$WORK/out/under.err")"
    diag "repeat: SOAK_AT='$kind $n' $SCRIPT"
}

under() { # COMMAND…: one dtctl in the environment
    timeout -k 5 "$HANG_SECONDS_MAX" "$@" >"$WORK/out/under.out" 2>"$WORK/out/under.err" </dev/null
    status=$?
}

said() { # what every command owes: an end of its own, and a sentence where it is no success
    [ "$status" -lt 124 ] || fault 'the command did not end by itself'
    [ "$status" = 0 ] || grep -q '^dtctl: error: .' "$WORK/out/under.err" ||
        fault 'the command fails without an error'
    ! grep -qi 'assert\|sanitizer\|must(' "$WORK/out/under.err" || fault 'the command breaks'
}

forget() { rm -rf "${WORK:?}/results/out"; }

true_and_kept() { # a fetch that said yes has brought all, and the next one does so in any case
    [ "$status" != 0 ] || is_whole ||
        fault 'success, and not all is here'
    umount "$WORK/results/out" 2>/dev/null
    rm -f "$WORK/project/filler"
    mount -o remount,rw,size=64m "$WORK/results"
    mount -o remount,rw "$WORK/project"
    under dtctl fetch "$run"
    [ "$status" = 0 ] || fault 'without the fault it fails as well'
    is_whole || fault "not what it was: $(diff <(echo "$whole") <(sum))"
}

fill() { # FOLDER KIB: leaves so much room
    local free
    free=$(df --output=avail -k "$1" | tail -n 1)
    [ "$free" -le "$2" ] || head -c $(((free - $2) * 1024)) /dev/zero >"$1/filler"
}

# ---- the faults: each takes a number, and has a dtctl work under it ------------------------------
full_output() { # KIB free where results go
    forget
    mkdir "$WORK/results/out" && mount -t tmpfs -o "size=$((n * 4))k" out "$WORK/results/out"
    under dtctl fetch "$run"
    said
    local then=$status
    [ "$status" != 0 ] || is_whole || fault 'success, and not all is here'
    umount "$WORK/results/out"
    status=1
    true_and_kept
    status=$then
}
full_project() { # KIB free where dtctl keeps its state
    forget
    fill . $((n * 8))
    under dtctl fetch "$run"
    said
    true_and_kept
}
full_start() { # KIB free on the nodes: a run begins
    fill . $((n * 16))
    under dtctl train --name begun -- sh -c 'head -c 100000 /dev/zero >$DTCTL_OUTPUT_DIR/$RANK'
    rm -f filler
    said
    local files
    files=$(find .dtctl/default/runs/begun-*/output -size 100000c 2>/dev/null | wc -l)
    [ "$status" != 0 ] || [ "$files" = 2 ] ||
        fault 'success, and not all is here'
    dtctl stop >/dev/null 2>&1
    rm -rf .dtctl/default/runs/begun-* .dtctl/default/nodes/*/runs/begun-*
}
few_descriptors() { # NUMBER of descriptors beyond 16
    forget
    under bash -c "ulimit -n $((16 + n)); exec dtctl fetch $run"
    said
    true_and_kept
}
file_size() { # KIB that a file may have, that of the errors as well
    forget
    under bash -c "ulimit -f $((n * 3 + 1)); exec dtctl fetch $run"
    said
    true_and_kept
}
read_only() { # which folder
    forget
    local folder=$WORK/results
    [ $((n % 2)) = 0 ] || folder=$WORK/project
    mount -o remount,ro "$folder"
    under dtctl fetch "$run"
    said
    [ "$status" != 0 ] || fault 'success, with a folder that cannot be written'
    mount -o remount,rw "$folder"
    true_and_kept
}
full_stdout() { # which command
    local all=('config show' 'exec seq 3' "logs $run" 'status' 'ps -a' "fetch $run") words
    words=${all[n % 6]}
    # shellcheck disable=SC2086 # words
    timeout -k 5 "$HANG_SECONDS_MAX" dtctl $words >/dev/full 2>"$WORK/out/under.err"
    status=$?
    said
    [ "$status" != 0 ] || fault "'$words' is a success, and nobody has its output"
}
worked() {
    [ "$(cat .dtctl/default/nodes/*/runs/unread-*/output/* 2>/dev/null | grep -c well)" = 2 ]
}
ended() { ! kill -0 "$1" 2>/dev/null; }
unread() { # to a console without a reader; and then a signal
    local before pid
    mkfifo "$WORK/unread" && exec 9<>"$WORK/unread"
    dtctl train --name unread -- sh -c "seq $((5000 + n * 100))
        echo well >\$DTCTL_OUTPUT_DIR/\$RANK" >"$WORK/unread" 2>"$WORK/out/under.err" </dev/null &
    pid=$!
    wait_for 20 worked
    before=$SECONDS
    kill -TERM "$pid"
    strictly "$HANG_SECONDS_MAX" ended "$pid" || kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    status=$?
    [ $((SECONDS - before)) -lt "$HANG_SECONDS_MAX" ] || fault 'a signal does not end it'
    exec 9>&-
    rm "$WORK/unread"
    timeout -k 5 "$HANG_SECONDS_MAX" dtctl fetch >"$WORK/out/under.out" 2>"$WORK/out/under.err"
    [ "$(cat .dtctl/default/runs/unread-*/output/* 2>/dev/null | grep -c well)" = 2 ] ||
        fault 'results cannot be had'
    rm -rf .dtctl/default/runs/unread-* .dtctl/default/nodes/*/runs/unread-*
}

KINDS=(full_output full_project full_start few_descriptors file_size read_only full_stdout unread)
once() {
    rounds=$((rounds + 1))
    "$kind"
    cd "$WORK/project" || exit
}

if [ -n "${SOAK_AT-}" ]; then
    read -r kind n <<<"${SOAK_AT//-/_}"
    once
else
    deadline=$((SECONDS + SOAK_SECONDS))
    while [ "$SECONDS" -lt "$deadline" ] && [ "$faults" -lt 5 ]; do
        kind=${KINDS[rounds % ${#KINDS[@]}]} n=$((RANDOM % 64))
        once
    done
fi
is "$faults" 0 'no environment makes dtctl lose anything, hang, or say what is not so'
echo "# environment: seed=$SOAK_SEED rounds=$rounds states=${#KINDS[@]} faults=$faults"
cd "$WORK" && umount -l project results
done_testing
