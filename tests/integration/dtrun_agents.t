#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four hosts, each with a bare dtrun, whose agents end: most of them killed at once and started
# again, one after another within a second, and the one that coordinates with a signal. The hosts
# say which agents are gone, so that the others continue without a majority.
# Clock: agents end one after another within a second, and while others choose a coordinator.
# shellcheck disable=SC2317 # called by name
source "${0%/*}/../lib.sh"
hosts_up 4
WAIT=20 # seconds for anything that takes a few on an idle machine

cat >worker.sh <<'END'
#!/bin/bash
echo "$TORCHELASTIC_RESTART_COUNT $MASTER_ADDR:$MASTER_PORT $WORLD_SIZE" >/tmp/group
until [ -e /tmp/finish ]; do sleep 0.1; done
END
for i in 1 2 3 4; do cp "$BIN/dtrun" worker.sh "node$i/tmp/"; done

agents=()
start() { # NODE…
    local i
    for i; do
        rm -f "node$i/tmp/group"
        nsenter --target "$(cat "node$i/holder")" --mount --net --uts -- \
            env TMPDIR=/tmp DTRUN_KEY=k /tmp/dtrun --nnodes 2:4 --max-restarts 9 \
            --rdzv-backend c10d --rdzv-id x \
            --rdzv-endpoint 10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4 \
            --no-python bash /tmp/worker.sh >>"node$i.log" 2>&1 &
        agents[i]=$!
    done
}
end() { # SIGNAL NODE…
    local i pids=()
    for i in "${@:2}"; do pids+=("${agents[i]}"); done
    rm -f node*/tmp/group
    kill -"$1" "${pids[@]}"
    for i in "${@:2}"; do
        wait "${agents[i]}" 2>/dev/null
        statuses[i]=$?
    done
}
# The group that all these nodes are in, each with its size.
trains() { # NODE…
    local i want="" got
    for i; do
        got=$(cat "node$i/tmp/group" 2>/dev/null) || return 1
        [ "${want:=$got}" = "$got" ] || return 1
    done
    [ "${want##* }" = $# ]
}
goes_on() { # WHAT NODE…
    local i
    ok "$1" wait_for "$WAIT" trains "${@:2}" && return
    for i in 1 2 3 4; do diag "node$i: $(tail -n 8 "node$i.log")"; done
}
coordinator() { # of the nodes that live; the last one that said so
    grep -l 'this agent coordinates now' node*.log | tail -n 1 | tr -dc 0-9
}

statuses=()
start 1 2 3 4
goes_on 'four train' 1 2 3 4

end KILL 2 3 4
start 2 3 4
goes_on 'three of four are killed, not the coordinator, and come back: a round of four' 1 2 3 4

end KILL 1 2 3
start 1 2 3
goes_on 'three with the coordinator: a round of four' 1 2 3 4
is "$(coordinator)" 4 'the surviving agent coordinates'
is "$(cut -d' ' -f1 node4/tmp/group)" 0 'no restart is counted for it'

end KILL 4
sleep 0.4 # what follows comes while the others choose another coordinator
end KILL 1
end KILL 2
start 1 2 4
goes_on 'one after another within a second, the coordinator first: a round of four' 1 2 3 4

# ---- a signal to the agent that coordinates -----------------------------------------------------
for signal in TERM INT; do
    first=$(coordinator)
    others=(1 2 3 4)
    unset "others[first - 1]"
    : >"node$first.log"
    end "$signal" "$first"
    is "${statuses[first]}" 1 "SIG$signal to the coordinator: it ends"
    goes_on 'and the other three go on' "${others[@]}"
    unlike "$(cat "node$first.log")" 'is lost|cannot' 'a departing coordinator reports no loss'
    start "$first"
    goes_on 'with four again when it comes back' 1 2 3 4
done

touch node{1,2,3,4}/tmp/finish
for i in 1 2 3 4; do
    wait "${agents[i]}"
    is "$?" 0 "node$i ends with 0"
done

# ---- a name that comes later --------------------------------------------------------------------
late=(env TMPDIR=/tmp DTRUN_KEY=k /tmp/dtrun --nnodes 2 --rdzv-backend c10d --rdzv-id late)
on 2 "${late[@]}" --rdzv-endpoint late.lab:29500 --no-python true 2>late.log &
second=$!
has_no_address() { grep -q 'has no address yet endpoint=late.lab' late.log; }
ok 'an agent waits for a coordinator whose name does not resolve' wait_for "$WAIT" has_no_address
on 1 "${late[@]}" --rdzv-endpoint 10.77.0.1:29500 --no-python true 2>first.log &
first=$!
on 2 sh -c 'echo 10.77.0.1 late.lab >>/etc/hosts'
wait "$second"
code=$?
wait "$first"
is "$code $?" '0 0' 'the agents run when the name resolves' || diag "$(cat late.log)"

own=("${late[@]/late/own}")
on 1 "${own[@]}" --rdzv-endpoint own.lab:29501 --no-python true 2>own.log &
first=$!
knows_not() { grep -q 'has no address yet endpoint=own.lab' own.log; }
ok 'an agent waits until its own name resolves' wait_for "$WAIT" knows_not
on 1 sh -c 'echo 10.77.0.1 own.lab >>/etc/hosts'
run on 2 timeout 60 "${own[@]}" --rdzv-endpoint own.lab:29501 --no-python true
wait "$first"
is "$status $?" '0 0' 'the agent coordinates when its name resolves' || diag "$(cat own.log)"

# The kernel of node2 believes that it can reach 10.77.0.201; no host has that address.
ip -n node2 neigh add 10.77.0.201 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
on 2 sh -c 'printf "10.77.0.201 two.lab\n10.77.0.1 two.lab\n" >>/etc/hosts'
on 1 "${late[@]/late/two}" --rdzv-endpoint 10.77.0.1:29502 --no-python true 2>first.log &
first=$!
run on 2 timeout 60 "${late[@]/late/two}" --rdzv-endpoint two.lab:29502 --no-python true
wait "$first"
is "$status $?" '0 0' \
    'a name with two addresses of which one leads nowhere is enough' || diag "$err"

DTRUN_KEY=k dtrun --nnodes 2 --rdzv-backend c10d --rdzv-id x --rdzv-endpoint no.lab --no-python \
    true 2>nowhere.log &
agent=$!
ok 'an agent waits for a name that does not resolve' \
    wait_for "$WAIT" grep -q 'has no address yet' nowhere.log
kill -TERM $agent
wait $agent
is "$?" 1 'a signal ends it'
like "$(cat nowhere.log)" 'the run was stopped reason=a signal was received' \
    'the log says that a signal was received'
# Any time later, too: the signal that it takes first (SigCgt) or leaves to the loop (SigBlk).
takes_signals() {
    local key mask
    [ "$(cat "/proc/$agent/comm")" = dtrun ] || return 1
    while read -r key mask; do
        if [[ $key == Sig@(Cgt|Blk): ]] && ((0x$mask & 1 << 14)); then return 0; fi
    done <"/proc/$agent/status"
    return 1
}
ended=
for pause in 0 0.002 0.005 0.01 0.02 0.05 0.1 0.3; do
    dtrun --standalone --no-python sleep 600 2>/dev/null &
    agent=$!
    wait_for "$WAIT" takes_signals
    sleep $pause
    kill -TERM $agent
    wait $agent
    ended+=" $?"
done
is "$ended" ' 1 1 1 1 1 1 1 1' 'whenever a signal comes, the status is 1'
done_testing
