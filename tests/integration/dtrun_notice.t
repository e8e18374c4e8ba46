#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node's end is announced (a spot instance is taken back, a lease is over): every worker of the
# run gets the chosen signal once, the node leaves in time, the others continue.
# Clock: workers have the rest of the time to the end of a node.
# Texts are expanded by workers, functions are called by name:
# shellcheck disable=SC2016,SC2317
source "${0%/*}/../lib.sh"
export DTRUN_KEY=secret
agents=()
hosts_down() { [ -z "${agents[*]}" ] || kill -KILL "${agents[@]}" 2>/dev/null; }

# Traps the signal as training programs do; prints its round; ends when a file asks for it.
work='trap "echo signal >>seen.$DTCTL_ROUND.$RANK; [ ! -e ends.$RANK ] || exit 9" USR1
    trap "exit 143" TERM
    echo up >"up.$DTCTL_ROUND.$RANK"
    until [ -e finish ]; do sleep 0.05; done'
start() { # NAME FLAGS…
    local name=$1
    shift
    dtrun --nnodes 1:2 --rdzv-backend c10d --rdzv-id x --rdzv-endpoint "127.0.0.1:$port" \
        --rdzv-conf last_call_timeout=20 --notice-file "$WORK/$name/run/notice" "$@" \
        --no-python sh -c "$work" >"$name.out" 2>"$name.err" &
    agents+=($!)
}
announce() { # NAME TEXT
    mkdir -p "$1/run"
    printf '%b\n' "$2" >"$1/notice.new"
    mv "$1/notice.new" "$1/run/notice"
}
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
in_seconds() { echo $((EPOCHSECONDS + $1)); }
anew() { rm -rf up.* seen.* finish one two; }
both() { # FLAGS…
    port=$((22000 + RANDOM % 8000)) agents=()
    start one "$@"
    wait_for 10 listening
    start two "$@"
    ok 'both nodes train' wait_for 20 test -e up.0.0 -a -e up.0.1
}

two() { # FLAGS…
    anew
    both "$@"
}

# ---- a spot instance is taken back --------------------------------------------------------------
two --notice-signal USR1
announce two "kind=rebalance"
ok 'a recommendation: every worker of every node gets the signal' \
    wait_for 10 test -e seen.0.0 -a -e seen.0.1
announce two "kind=rebalance"
announce two "kind=spot-terminate\ndeadline=$(in_seconds 8)\nnode=two"
ok 'a termination: the node leaves before its deadline' strictly 7 test ! -e "/proc/${agents[1]}"
wait "${agents[1]}"
is "$?" 1 'the departing agent ends with 1'
like "$(cat two.err)" 'is taken away \(spot-terminate\)' 'the log has the reason'
like "$(cat one.err)" 'preemption of a node is announced.*reason=spot-terminate' \
    'the other agents were notified'
ok 'the other node continues' wait_for 10 test -e up.1.0
is "$(cat seen.0.? | wc -l)" 4 'each worker gets one signal per notice'
touch finish
wait "${agents[0]}"
is "$?" 0 'the run finishes'

# ---- before it begins, and of no concern ---------------------------------------------------------
anew
announce two "kind=rebalance"
both --notice-signal USR1 --max-restarts 0
ok 'announced before: workers get the signal when they can handle it' \
    wait_for 10 test -e seen.0.0 -a -e seen.0.1
announce two "kind=idle\ndeadline=$(in_seconds 60)"
ok 'an idle notice does not concern a run' \
    wait_for 10 grep -q 'notice of this node was withdrawn' two.err
touch finish
wait "${agents[@]}"
is "$?:$(cat seen.0.? | wc -l)" 0:2 'the run finishes after an idle notice'

# ---- workers that end by themselves -------------------------------------------------------------
two --notice-signal USR1 --max-restarts 0
touch ends.1
announce two "kind=spot-stop\ndeadline=$(in_seconds 60)"
wait "${agents[1]}"
like "$(cat two.err)" 'is taken away \(spot-stop\)' 'the worker ends at its notice: the node leaves'
unlike "$(cat two.err)" 'FAILED' 'nothing has failed there'
ok 'the other node continues' wait_for 10 test -e up.1.0
rm ends.1
kill "${agents[0]}"
wait "${agents[0]}"

# ---- the node that coordinates ------------------------------------------------------------------
two
announce one "kind=spot-terminate\ndeadline=$(in_seconds 6)"
ok 'the node that coordinates leaves before its deadline' \
    strictly 6 test ! -e "/proc/${agents[0]}"
ok 'another node coordinates and continues' wait_for 20 eval 'compgen -G "up.[1-9].0"'
touch finish
wait "${agents[1]}"
is "$?" 0 'the run finishes' || diag "$(cat two.err)"

# ---- a lease that is extended -------------------------------------------------------------------
two
deadline=$(in_seconds 10)
announce two "kind=lease\ndeadline=$deadline"
ok 'a lease is nearly over' wait_for 5 grep -q 'reason=lease' two.err
announce two "kind=lease\ndeadline=$(in_seconds 1000)"
ok 'the lease is extended' wait_for 5 eval 'grep -c reason=lease two.err | grep -q 2'
rm two/run/notice
ok 'the notice is withdrawn after the extension' \
    wait_for 5 grep -q 'notice of this node was withdrawn' two.err
is_over() { [ "$EPOCHSECONDS" -gt "$deadline" ]; }
wait_for 10 is_over
ok 'the node stays' kill -0 "${agents[1]}"
is "$(cat seen.* 2>/dev/null | wc -l)" 0 'without --notice-signal no worker gets a signal'
touch finish
wait "${agents[0]}" "${agents[1]}"
is "$?" 0 'the run ends well'

# ---- one node -----------------------------------------------------------------------------------
rm -f finish up.*
mkdir -p one/run
printf 'kind=lease\ndeadline=%s\n' "$(in_seconds 4)" >one/run/notice
run timeout 30 dtrun --standalone --notice-file "$WORK/one/run/notice" --no-python sh -c "$work"
is "$status" 1 'a single node with a notice stops its run in time'
like "$err" 'is taken away \(lease\)' 'the reason names the lease'
run dtrun --standalone --notice-signal KILL --no-python true
is "$status" 2 'a signal that cannot be acted on is refused'
run dtrun --standalone --notice-signal SIGNOTE --no-python true
is "$status" 2 'an unknown signal is refused, too'
run dtrun --standalone --notice-file relative --no-python true
is "$status" 2 'a relative path is refused, too'
done_testing
