#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts, each with a bare dtrun whose workers use the store of their round all the time
# (store_load.c), while the network loses what goes one way, a host is cut off or far away, agents
# and workers are frozen or killed, and wall clocks jump. Whatever happens: in each round the store
# is empty at first and then behaves like one map that does one thing at a time (linear.c), never do
# two rounds work at once, and when all is well again so is the run.
#
#     SOAK_SEED=7 tests/soak/partition.t    the same faults again
# shellcheck disable=SC2317 # called by name
source "${0%/*}/../lib.sh"
hosts_up 3

SOAK_SECONDS=${SOAK_SECONDS:-30} SOAK_SEED=${SOAK_SEED:-1}
WAIT=60 # seconds for what takes a few on an idle machine
RANDOM=$((SOAK_SEED % 32768))
NOBODY=02:00:00:00:00:99
tools=$BUILD/release/tests/tools
for i in 1 2 3; do
    cp "$BIN/dtrun" "$tools/store_load" "$tools/wall_clock" "node$i/tmp/"
    echo 0 >"node$i/tmp/clock"
done

agents=()
agent_start() { # NODE
    on "$1" env DTRUN_KEY=k /tmp/wall_clock /tmp/clock /tmp/dtrun --nnodes 2:3 \
        --max-restarts 1000 --rdzv-backend c10d --rdzv-id x --rdzv-endpoint node1,node2,node3 \
        --nproc-per-node 2 --no-python /tmp/store_load 2 >>"node$1.log" 2>&1 &
    agents[$1]=$!
}
processes() { # NODE NAME
    local pid
    for pid in $(ip netns pids "node$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$2" ] || echo "$pid"
    done
}
agent() { # NODE: the one that is no guard, which the agent has as children
    local pid parent
    for pid in $(processes "$1" dtrun); do
        read -r _ _ _ parent _ <"/proc/$pid/stat"
        [ "$(cat "/proc/$parent/comm")" = dtrun ] || echo "$pid"
    done 2>/dev/null
}
forget() { rm -f node*/tmp/group; }
all_work() { # in one round, of three nodes with two workers each, that began to say so after forget
    local i want
    want=$(cat node1/tmp/group 2>/dev/null) && [ "${want##* }" = 6 ] || return 1
    for i in 2 3; do [ "$(cat "node$i/tmp/group" 2>/dev/null)" = "$want" ] || return 1; done
}
works_again() { # WHAT
    forget
    wait_for "$WAIT" all_work && return
    faults=$((faults + 1))
    diag "after '$1' it does not go on (step $steps)"
    for i in 1 2 3; do diag "node$i: $(cat "node$i/tmp/group"); $(tail -n 6 "node$i.log")"; done
}
pause() { # up to 4 s: more and less than what an agent waits for another one
    local ms=$((RANDOM % 4000))
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

# ---- what goes wrong: each has a node, $n, and another one, $m ----------------------------------
one_way() { # what n sends to m is lost, not what m sends to n
    ip -n "node$n" neigh replace "$HOSTS_NET.$m" lladdr "$NOBODY" dev eth0 nud permanent
    pause
    ip -n "node$n" neigh del "$HOSTS_NET.$m" dev eth0
}
one_way_all() { # n hears all others, and no other hears n
    local i others=(1 2 3)
    unset "others[n - 1]"
    for i in "${others[@]}"; do
        ip -n "node$n" neigh replace "$HOSTS_NET.$i" lladdr "$NOBODY" dev eth0 nud permanent
    done
    pause
    for i in "${others[@]}"; do ip -n "node$n" neigh del "$HOSTS_NET.$i" dev eth0; done
}
cut_off() {
    link_down "$n"
    pause
    link_up "$n"
}
far_away() { # beyond what an agent waits for another one, or half of it
    local cable delay=$((700 + RANDOM % 2 * 1800))
    ip link set "veth$n" nomaster
    "$tools/slow_link" "veth$n" slow "$delay" 0 1 >cable.out &
    cable=$!
    wait_for "$WAIT" grep -q ready cable.out
    ip link set slow master dt0 up
    pause
    sleep 2
    kill "$cable"
    wait "$cable" 2>/dev/null
    ip link set "veth$n" master dt0
}
freeze() { # PID
    kill -STOP "$1"
    pause
    kill -CONT "$1" 2>/dev/null
}
one_client() { # sets $pid
    local all
    mapfile -t all < <(processes "$n" store_load)
    pid=${all[RANDOM % ${#all[@]}]}
}
frozen_agent() { freeze "$(agent "$n")"; }
frozen_client() { one_client && freeze "$pid"; }
killed_client() { one_client && kill -KILL "$pid"; }
killed_agent() {
    kill -KILL "$(agent "$n")"
    wait "${agents[n]}" 2>/dev/null
    pause
    agent_start "$n"
}
clock() { # a day forwards, or back
    echo $(((RANDOM % 3 - 1) * 86400)) >"node$n/tmp/clock"
    pause
}

# ---- the walk -----------------------------------------------------------------------------------
kinds=(one_way one_way_all cut_off far_away frozen_agent frozen_client killed_client killed_agent
    clock)
faults=0 steps=0
declare -A seen
for i in 1 2 3; do agent_start $i; done
works_again 'the start'
end=$((SECONDS + SOAK_SECONDS))
while [ "$SECONDS" -lt "$end" ] && [ "$faults" = 0 ]; do
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    n=$((1 + RANDOM % 3))
    m=$((1 + (n + RANDOM % 2) % 3))
    [ $((RANDOM % 4)) = 0 ] || [ "$kind" = clock ] || echo $((RANDOM * 100)) >"node$m/tmp/clock"
    steps=$((steps + 1))
    seen[$kind]=1
    "$kind"
    works_again "$kind $n $m"
done
touch node{1,2,3}/tmp/finish
for i in 1 2 3; do
    wait "${agents[i]}"
    is "$?" 0 "node$i ends with 0" || diag "$(tail -n 20 "node$i.log")"
done
run "$tools/linear" node*/tmp/history.*
is "$status" 0 "the stores' answers are linearizable, and one round worked at a time" ||
    diag "$(head -n 50 <<<"$out")"
summary=$(tail -n 1 <<<"$out")
operations=${summary#operations=} operations=${operations%% *}
ok "the stores had enough operations ($operations)" test "$operations" -gt 1000
is "$faults" 0 'the run went on after each fault'
echo "# partition: seed=$SOAK_SEED steps=$steps kinds=${#seen[@]} $summary faults=$faults"
[ "$tap_failed" = 0 ] || diag "repeat: SOAK_SEED=$SOAK_SEED SOAK_SECONDS=$SOAK_SECONDS $SCRIPT"
done_testing
