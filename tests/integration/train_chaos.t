#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Training on four hosts while things break, one after the other and in random order: a worker, an
# agent and a host die, an agent freezes, cables are pulled, the network splits, a link is slow and
# loses frames, a disk is full. Each time training ends with every image of every epoch seen and an
# evaluation close to that of the undisturbed run, and nothing is left running anywhere.
#
#     CHAOS_SEED=7 CHAOS_FAULTS='link slow' make test T=train_chaos   (CHAOS_SEED=random: any)
# Clock: how long training takes undisturbed, and silences.
# shellcheck disable=SC2317,SC2012 # called by name; plain names
source "${0%/*}/../lib.sh"
hosts_up 4

IMAGES=1024
RATE=100mbit          # of each host's link: a step waits for it, and not for the processors
TRAIN_SECONDS=7       # undisturbed: enough for something to break in it
ACCURACY_POINTS_MAX=10 # between two runs whose batches were put together differently
WAIT=60               # seconds for anything that takes a few on an idle machine
seed=${CHAOS_SEED:-7161}
[ "$seed" != random ] || seed=$((16#$(head -c 2 /dev/urandom | od -An -tx1 | tr -d ' \n')))
diag "seed $seed; again with CHAOS_SEED=$seed"
RANDOM=$seed

hosts_config
cat >>dtctl.toml <<END
[setup]
run = "true"
[train]
model = "mlp"
hidden = [16]
dataset = "shapes"
train_size = $IMAGES
test_size = 500
epochs = 1
batch = 4
optimizer = "adam"
lr = 0.002
threads = 1
checkpoint_every_steps = 20
print_every = 2
END

for i in 1 2 3 4; do
    on "$i" tc qdisc replace dev eth0 root tbf rate "$RATE" burst 64k latency 100ms
done

# ---- what is the case ---------------------------------------------------------------------------
workers() { host_processes "$1" '^[^ ]*dttrain-'; }
none_left() {
    local i
    for i in 1 2 3 4; do [ -z "$(host_processes "$i" 'dtrun-|dttrain-')" ] || return 1; done
}
idle() { [ -z "$(workers "$1")" ]; }
agent() { # NODE: the agent's own process
    json_value <(on "$1" cat "/root/.dtctl/nodes/node$1/runs/${r##*/}/status.json") pid
}
lines() { grep -c . "$r/metrics.jsonl" 2>/dev/null || true; }
rounds() { # NODES: how many rounds of so many have begun, as far as dtctl knows
    awk -v nodes="\"nodes\":$1," '/"kind":"round"/ && index($0, nodes) &&
        match($0, /"round":[0-9]+/) && !seen[substr($0, RSTART, RLENGTH)]++ { n++ }
        END { print n + 0 }' "$r/events.jsonl"
}
more_lines() { [ "$(lines)" -ge "$1" ]; }
more_rounds() { [ "$(rounds "$1")" -ge "$2" ]; }
trains() { wait_for "$WAIT" more_lines $(($(lines) + 4)); }
another_round() { # NODES SO_MANY: after so many, there is another one of that size, and it trains
    wait_for "$WAIT" more_rounds "$1" $(($2 + 1)) && trains
}

is_newer() { [ "$(newest_run)" != "$1" ]; }
all_idle() { idle 3 && idle 4; }

begin() { # NAME
    local before
    before=$(newest_run)
    dtctl train --nodes 2:4 --max-restarts 3 --name "$1" >"$1.out" 2>"$1.err" &
    operator=$!
    wait_for "$WAIT" is_newer "$before"
    r=$(newest_run)
    wait_for "$WAIT" more_lines 12 # with a checkpoint or two behind it
}

# The time from the loss of a node to the next round, from the coordinator's events.
tell_times() {
    grep -E '"kind":"(node-lost|round)"' "$r/events.jsonl" | sed -E \
        's/.*"time_ms":([0-9]+).*"kind":"([^"]*)".*/\1 \2 &/; s/"silent_ms":([0-9]+)/ silent \1 /' |
        awk '$2 == "node-lost" && !lost { lost = $1; for (i = 3; i < NF; i++)
                if ($i == "silent") silent = $(i + 1) }
            $2 == "round" && lost { printf "silent for %d ms, the next round %d ms later\n",
                silent, $1 - lost; lost = 0 }' | while read -r line; do diag "$1: $line"; done
}

# verdict NAME: the run ends, with all that belongs to its end.
verdict() {
    local accuracy images
    wait "$operator"
    is "$?" 0 "$1: training is complete"
    is "$(json_value "$r/summary.json" state)" finished "$1: the summary says finished"
    images=$(grep -o '"images":[0-9]*' "$r/summary.json" | cut -d: -f2 |
        awk -v n=$IMAGES '$1 >= n && $1 < n + 4' | wc -l) # up to three fill the last batch
    is "$images" "$epochs" "$1: every image of every epoch was seen, once"
    accuracy=$(json_value "$r/summary.json" accuracy)
    ok "$1: the model is as good as undisturbed ($accuracy %, $base %)" \
        awk -v a="$accuracy" -v b="$base" -v d=$ACCURACY_POINTS_MAX \
        'BEGIN { exit !(a != "" && a - b < d && b - a < d) }'
    ok "$1: the model is here" test -s "$r/output/model/model.safetensors"
    ok "$1: nothing is left running" wait_for "$WAIT" none_left
    tell_times "$1"
    [ "$tap_failed" = 0 ] || diag "$(tail -n 25 "$1.err")"
}

# ---- what breaks --------------------------------------------------------------------------------
any_node() { echo $((RANDOM % 4 + 1)); }
other_node() { echo $((RANDOM % 3 + 2)); } # not the one that coordinates

fault_worker() {
    kill -KILL "$(workers "$n" | head -n 1)"
    ok "worker: killed on node$n, it starts again on four nodes" another_round 4 1
    like "$(dtctl ps)" 'round 1, 1 of 3 restarts: rank [0-9] on node[1-4] ' 'worker: ps says why'
}

ended() { ! kill -0 "$1" 2>/dev/null; }
# dtctl, which follows, restarts it, perhaps in time for the next round.
kill_agent() { # NAME
    local worker
    worker=$(workers "$n" | head -n 1)
    kill -KILL "$(agent "$n")"
    ok "$1: killed on node$n, its worker is gone with it" wait_for "$WAIT" ended "$worker"
    ok "$1: the agent is started again, and four nodes continue" another_round 4 1
    like "$(grep '"kind":"agent-started-again"' "$r/events.jsonl")" "\"peer\":\"node$n\"" \
        "$1: the events have the new agent"
}
fault_agent() { kill_agent agent; }

fault_freeze() {
    local pid
    pid=$(agent "$n")
    kill -STOP "$pid"
    ok "freeze: node$n's agent is stopped, three nodes continue" another_round 3 0
    ok 'freeze: its workers are ended without a message' wait_for "$WAIT" idle "$n"
    kill -CONT "$pid"
    ok 'freeze: after it is resumed, four nodes continue' another_round 4 1
}

fault_link() {
    link_down "$n"
    ok "link: node$n is unplugged, three nodes continue" another_round 3 0
    ok 'link: its workers are ended' wait_for "$WAIT" idle "$n"
    link_up "$n"
    ok 'link: plugged in again, four nodes continue' another_round 4 1
}

fault_split() {
    local i
    ip link add dt1 type bridge
    ip link set dt1 up
    for i in 3 4; do ip link set "veth$i" master dt1; done
    ok 'split: two against two, and the half without a coordinator stops' \
        wait_for "$WAIT" all_idle
    for i in 3 4; do ip link set "veth$i" master dt0; done
    ip link delete dt1
    ok 'split: joined again, four nodes continue' another_round 4 1
}

fault_slow() {
    local cable
    ip link set "veth$n" nomaster
    "$BUILD/release/tests/tools/slow_link" "veth$n" slow 10 2 "$seed" >cable.out &
    cable=$!
    wait_for "$WAIT" grep -q ready cable.out
    ip link set slow master dt0 up
    ok "slow: 10 ms and 2 % loss towards node$n, training continues" trains
    kill "$cable"
    wait "$cable" 2>/dev/null
    ip link set "veth$n" master dt0
    ok 'slow: the cable is good again' trains
}

kill_all() { # NODE
    local pid
    for pid in $(host_processes "$1" 'dtrun-|dttrain-') $(host_processes "$1" sshd); do
        kill -KILL "$pid" 2>/dev/null
    done
}
unplug_and_kill() { # NODE: its host is gone for good
    link_down "$1"
    kill_all "$1"
}
fault_host() {
    unplug_and_kill "$n"
    ok "host: the host of node$n is gone, three nodes continue" another_round 3 0
}
after_host() {
    like "$(cat host.out)" "lost +node$n, and the run went on without it" \
        'host: the last screen names the lost node'
    link_up "$n"
    host_start "$n"
    wait_for "$WAIT" host_answers "$n"
}

# Another machine in its place, with nothing on its disk.
fault_fresh() {
    kill_all "$n"
    on "$n" rm -rf /root/.dtctl
    ok "fresh: the host and disk of node$n are gone, three nodes continue" \
        wait_for "$WAIT" more_rounds 3 1
    host_start "$n"
    ok 'fresh: a new host gets what the run needs, and four nodes continue' another_round 4 1
    like "$(grep '"kind":"agent-started-again"' "$r/events.jsonl")" \
        "\"peer\":\"node$n\".*the node is there, and has nothing of the run" \
        'fresh: the events have the new agent'
    ok 'fresh: the new host is prepared first' \
        on "$n" sh -c 'test -e /root/.dtctl/nodes/*/setup/*/done'
    ok 'fresh: the log has the rounds of both hosts' \
        test -s "$r/nodes/node$n/events.jsonl" -a -s "$r/nodes/node$n/.begin"
}

# The coordinator: node1, the first one.
takes_over() { # WHAT
    ok "$1, three nodes continue under another coordinator" another_round 3 0
}
tells_who() {
    ok "$fault: ps shows the new coordinator during the run" wait_for "$WAIT" eval \
        "dtctl ps --json | grep -qE '\"coordinator\":\"node[234]\"|\"state\":\"finished\"'"
}
fault_leader() {
    n=1
    kill_agent leader
}
fault_leaderfreeze() {
    local pid
    pid=$(agent 1)
    kill -STOP "$pid"
    takes_over "leaderfreeze: the coordinator's agent stopped"
    tells_who
    ok 'leaderfreeze: its workers are ended without a message' wait_for "$WAIT" idle 1
    kill -CONT "$pid"
    ok 'leaderfreeze: after it is resumed, four nodes continue' another_round 4 1
}
fault_leaderlink() {
    link_down 1
    takes_over "leaderlink: the coordinator's host unplugged"
    link_up 1 # ps would wait for node1, and the run would be over
    ok 'leaderlink: plugged in again, four nodes continue' another_round 4 1
    tells_who
}
fault_leaderhost() {
    n=1
    unplug_and_kill 1
    takes_over "leaderhost: the coordinator's host gone"
    tells_who
}
after_leaderhost() {
    link_up 1
    host_start 1
    wait_for "$WAIT" host_answers 1
}

prepare_disk() { on "$n" mount -t tmpfs -o size=8m tmpfs "/root/.dtctl/nodes/node$n/runs"; }
# Also fills the space that a removed checkpoint frees.
fill_disk() {
    on "$n" sh -c "head -c 64M /dev/zero >>/root/.dtctl/nodes/node$n/runs/fill" 2>/dev/null
}
told_of_disk() {
    fill_disk
    grep -q "could not keep a checkpoint.*rank=$((n - 1))" disk.err
}
fault_disk() {
    ok "disk: the disk of node$n is full, which is reported" wait_for "$WAIT" told_of_disk
    ok 'disk: four nodes continue' trains
    is "$(rounds 4)" 1 'disk: no new round began'
}
after_disk() { wait_for 10 on "$n" umount "/root/.dtctl/nodes/node$n/runs"; }

# Metrics may be lost on the node of rank 0, and the others keep the checkpoints; but the model at
# the end must exist. The events of that node's agent are lost as well: another agent reports the
# failure.
prepare_full() {
    n=1
    prepare_disk
}
told_of_full() {
    fill_disk
    grep -q 'the node of rank 0 cannot write its metrics.*No space left' full.err
}
fault_full() {
    ok "full: the disk of rank 0's node is full, which another node reports" \
        wait_for "$WAIT" told_of_full
    while ! ended "$operator"; do # nor for what tells of the end, in the events' own last block
        fill_disk
        yes '' | head -c 4096 |
            on "$n" tee -a "/root/.dtctl/nodes/node$n/runs/${r##*/}/events.jsonl" >/dev/null 2>&1
        sleep 0.05
    done &
    filler=$!
}
verdict_full() {
    wait "$operator"
    is "$?" 1 'full: the run fails'
    wait "$filler"
    like "$(cat full.out)" "rank 0 on node 'node1' failed first" \
        'full: the last screen names the failed rank'
    like "$(cat full.out)" 'No space left on device' 'full: the last screen has the reason'
    ok 'full: nothing is left running' wait_for "$WAIT" none_left
    ok 'full: the checkpoint is here, from a node that has it' \
        test -s "$(find "$r/output/state" -name state.safetensors | tail -n 1)"
    wait_for 10 on 1 umount /root/.dtctl/nodes/node1/runs
}

# ---- one after the other ------------------------------------------------------------------------
run dtctl up
is "$status" 0 'four hosts are up'
run dtctl train --nodes 2:4 --name probe
is "$status" 0 'one epoch measures the speed'
epochs=$(json_value "$(newest_run)/summary.json" images_per_s |
    awk -v n=$IMAGES -v s=$TRAIN_SECONDS '{ e = int($1 * s / n) + 1; print e < 5 ? 5 : e }')
sed -i "s/^epochs = .*/epochs = $epochs/" dtctl.toml
run dtctl train --nodes 2:4 --name calm
is "$status" 0 "$epochs epochs are trained undisturbed"
r=$(newest_run)
base=$(json_value "$r/summary.json" accuracy)
diag "undisturbed: $base %, $(json_value "$r/summary.json" train) ms"

# All of the first, and one of the others.
more=(host leader leaderfreeze leaderlink)
# shellcheck disable=SC2086 # words
faults=$(for fault in ${CHAOS_FAULTS:-worker agent freeze link leaderhost split slow disk full \
    fresh ${more[RANDOM % 4]}}; do
    echo "$fault"
done | awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand(), $1 }' | sort -n | cut -d' ' -f2)
for fault in $faults; do
    n=$(other_node)
    [ "$fault" != worker ] || n=$(any_node)
    ! type "prepare_$fault" >/dev/null 2>&1 || "prepare_$fault"
    begin "$fault"
    "fault_$fault"
    if type "verdict_$fault" >/dev/null 2>&1; then
        "verdict_$fault"
    else
        verdict "$fault"
    fi
    ! type "after_$fault" >/dev/null 2>&1 || "after_$fault"
    diag "$fault: done at $SECONDS s"
done
done_testing
