#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Four hosts, each with a bare dtrun, while their network breaks: short flaps and connections that
# are reset, a cable that is out, two against two, a slow and lossy link, the coordinator cut off
# and its host gone. What README.md says of quorums holds: never do two groups of workers run at
# once, the right side continues or the run ends with a clear error, what is shorter than the limit
# costs nothing, and nothing is left running.
# Clock: interruptions shorter and longer than the silence that ends a node.
# shellcheck disable=SC2317 # called by name
source "${0%/*}/../lib.sh"
hosts_up 4
WAIT=30 # seconds for anything that takes a few on an idle machine

# Workers print continuously the group to which they belong: the store of its round.
cat >worker.sh <<'END'
#!/bin/bash
exec 9<> <(:) # a read of it waits, without a process
while [ ! -e /tmp/finish ]; do
    echo "${EPOCHREALTIME/[.,]/} $MASTER_ADDR:$MASTER_PORT $WORLD_SIZE" >>/tmp/beats
    read -rt 0.05 <&9
done
END
for i in 1 2 3 4; do cp "$BIN/dtrun" worker.sh "node$i/tmp/"; done

agents=()
agent_start() { # NODE FLAGS…
    local node=$1
    shift
    on "$node" env DTRUN_KEY=k /tmp/dtrun --rdzv-backend c10d --rdzv-id x \
        --rdzv-endpoint 10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4 "$@" \
        --no-python bash /tmp/worker.sh >>"node$node.log" 2>&1 &
    agents[node]=$!
}
start_all() { # FLAGS…
    local i
    for i in 1 2 3 4; do
        rm -f "node$i/tmp/beats" "node$i/tmp/finish" "node$i.log"
        touch "node$i/tmp/beats"
        agent_start "$i" "$@"
    done
}
ends() { # NODE…: the exit statuses of their agents, in $statuses
    local i
    statuses=
    for i; do
        wait "${agents[i]}"
        statuses+=" $?"
    done
}
processes() { host_processes "$1" '/tmp/(dtrun|worker.sh)'; } # NODE: those of the run
none_left() {
    local i
    for i in 1 2 3 4; do [ -z "$(processes "$i")" ] || return 1; done
}
runs() { # NODE: its worker
    local pid name
    for pid in $(ip netns pids "node$1"); do
        name=
        read -r name 2>/dev/null <"/proc/$pid/comm"
        [ "$name" != bash ] || return 0
    done
    return 1
}
group() { # the group and its size that its worker printed last, if it runs; else empty
    local beat
    runs "$1" || return 0
    beat=$(tail -n 1 "node$1/tmp/beats")
    echo "${beat#* }"
}
trains() { # these are one group, and no other node runs
    local i of=() want
    for i in 1 2 3 4; do of[i]=$(group "$i"); done
    want=${of[$1]}
    [ "${want##* }" = $# ] || return 1
    for i in 1 2 3 4; do
        case " $* " in
        *" $i "*) [ "${of[i]}" = "$want" ] || return 1 ;;
        *) [ -z "${of[i]}" ] || return 1 ;;
        esac
    done
}
groups_count() { cat node*/tmp/beats | cut -d' ' -f2 | sort -u | wc -l; }
# From the first to the last word of each group: no two overlap.
overlaps() {
    cat node*/tmp/beats | awk '{ if (!($2 in first) || $1 < first[$2]) first[$2] = $1
            if ($1 > last[$2]) last[$2] = $1 }
        END { for (g in first) print first[g], last[g], g }' | sort -n |
        awk '$1 <= last { print group " and " $3 } $2 > last { last = $2; group = $3 }'
}
goes_on() { # WHAT NODE…
    local what=$1
    shift
    ok "$what" wait_for "$WAIT" trains "$@" || tell_logs
}
tell_logs() {
    local i
    for i in 1 2 3 4; do diag "node$i: $(group "$i"); $(tail -n 8 "node$i.log")"; done
}
nothing_happened() { # WHAT: no other group than before
    ok "$1: four nodes continue" wait_for "$WAIT" trains 1 2 3 4
    is "$(groups_count)" "$before" "$1: no new round began" || tell_logs
}

# ---- what costs nothing -------------------------------------------------------------------------
# A busy machine may stop any process for a while: three seconds of silence, not one and a half.
elastic=(--nnodes 2:4 --max-restarts 3 --rdzv-conf silence=3)
start_all "${elastic[@]}"
goes_on 'four hosts train' 1 2 3 4
before=$(groups_count)

for n in 3 1; do
    link_down $n
    sleep 0.7
    link_up $n
    sleep 2
    nothing_happened "the link of node$n is out for 0.7 s"
done

# A middlebox that drops its state, or is asked to end a connection: both sides are reset.
reset_rules() { # NODE EXPRESSION
    on "$1" nft -f - <<END
table inet box {
    chain in {
        type filter hook input priority 0;
        $2 tcp flags & (syn | rst) == 0 reject with tcp reset
    }
}
END
}
resets() { # NODE: the connections between its agent and node1's
    reset_rules 1 "ip saddr 10.77.0.$1 tcp dport 29400" &&
        reset_rules "$1" 'ip saddr 10.77.0.1 tcp sport 29400'
}
back() { [ "$(grep -c 'is back without loss' "node$1.log")" -ge "$2" ]; }
if resets 2; then
    sleep 0.5
    for i in 1 2; do on $i nft delete table inet box; done
    ok 'a reset connection is resumed' wait_for "$WAIT" back 2 1
    like "$(cat node2.log)" 'connection to the coordinator broke.*reason=.*[Rr]eset' \
        'the node has logged the broken connection'
    like "$(cat node1.log)" 'a node is connected again without loss node=node2' \
        'the coordinator has logged the resumed connection'
    nothing_happened 'a connection that was reset'
    resets 4
    sleep 0.3
    link_down 4
    for i in 1 4; do on $i nft delete table inet box; done
    sleep 0.5
    link_up 4
    ok 'a reset connection and a dead link: the session is resumed later' wait_for "$WAIT" back 4 1
    nothing_happened 'a connection that was reset while the link was out'
else
    skip 7 'no nftables here'
fi

n=4
ip link set veth$n nomaster
"$BUILD/release/tests/tools/slow_link" veth$n slow 10 2 7161 >cable.out &
cable=$!
wait_for "$WAIT" grep -q ready cable.out
ip link set slow master dt0 up
sleep 4
nothing_happened 'a slow link: 10 ms and 2 % loss for 4 s'
kill $cable
wait $cable 2>/dev/null
ip link set veth$n master dt0

# The nodes of a round, and no longer those of the one before, are those of which more than half are
# needed, as soon as all of them are known to have begun it: some beats later.
settle() { sleep 2; }

# ---- what costs a round -------------------------------------------------------------------------
link_down 3
goes_on 'node3 is cut off: its worker stops, three go on' 1 2 4
link_up 3
goes_on 'and it is back: four' 1 2 3 4

split() {
    local i
    ip link add dt1 type bridge
    ip link set dt1 up
    for i in 3 4; do ip link set "veth$i" master dt1; done
}
join() {
    local i
    for i in 3 4; do ip link set "veth$i" master dt0; done
    ip link delete dt1
}
split
goes_on 'two against two: the half that coordinates goes on, the other one stops' 1 2
sleep 3
ok 'the other nodes continue' trains 1 2
join
goes_on 'together again: four' 1 2 3 4

settle
link_down 1
goes_on 'the coordinator is cut off: it stops, three go on under another one' 2 3 4
link_up 1
goes_on 'and it is back: four' 1 2 3 4

leader() { sed -n 's/.*this agent coordinates now.*//p' "node$1.log" | wc -l; }
n=1
for i in 2 3 4; do [ "$(leader $i)" -eq 0 ] || n=$i; done
others=()
for i in 1 2 3 4; do [ $i = $n ] || others+=("$i"); done
settle
link_down $n
for pid in $(processes $n); do kill -KILL "$pid" 2>/dev/null; done
goes_on "the coordinator's host (node$n) is gone: three go on" "${others[@]}"
for i in "${others[@]}"; do touch "node$i/tmp/finish"; done
ends "${others[@]}"
is "$statuses" ' 0 0 0' 'the other nodes finish'
link_up $n
ok 'nothing is left running' wait_for "$WAIT" none_left
is "$(overlaps)" '' 'no two groups ran at the same time'
diag "$(groups_count) groups, $SECONDS s"

# ---- what ends the run --------------------------------------------------------------------------
mkdir first && cp node*.log first/
start_all --nnodes 4 --rdzv-conf silence=3,rejoin_timeout=4
goes_on 'four hosts of which none may be missing' 1 2 3 4
split
ends 1 2 3 4
is "$statuses" ' 1 1 1 1' 'two against two: the run fails on all of them'
like "$(cat node1.log)" 'the run has failed reason=node node[34] is gone: it is silent' \
    "the coordinator's reason names the lost node"
like "$(cat node2.log)" 'the run has failed reason=node node[34] is gone' \
    'the other node of its half has the same reason'
for i in 3 4; do
    like "$(cat node$i.log)" 'no node may continue without it or more than half of the nodes' \
        "node$i has logged the rule"
done
join
ok 'nothing is left running' wait_for "$WAIT" none_left
is "$(overlaps)" '' 'no two groups ran at the same time'
diag "$SECONDS s"
done_testing
