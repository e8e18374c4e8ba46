#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Spot instances that are interrupted during a run: after a recommendation and a notice; after a
# notice, also for the coordinator; without any notice. Every run succeeds with every image of every
# epoch seen once; an announced interruption costs no step. A run on the remaining nodes replaces
# the dead instances at their addresses, and they join it.
# shellcheck disable=SC2317 # functions called through wait_for
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

WAIT=60      # seconds for anything that takes a few on an idle machine
MADE=300     # seconds for instances to be made
NOTICE=16    # seconds from a notice to the end of the instance; AWS gives 120
IMAGES=1024
EVERY=20     # steps between checkpoints, where there are any between notices
ACCURACY=15  # per cent at least, of ten classes, however few epochs a slow machine has time for
cloud_config spot 'nodes = 3' -- 'fallback = ["spot"]'
cat >>dtctl.toml <<END
[train]
model = "mlp"
hidden = [16]
dataset = "shapes"
train_size = $IMAGES
test_size = 500
batch = 8
optimizer = "adam"
lr = 0.001
threads = 1
print_every = 5
checkpoint_every_epochs = 0
END

# ---- what is the case ---------------------------------------------------------------------------
run_of() { compgen -G ".dtctl/spot/runs/$1-*"; } # NAME: its folder
trains() { [ "$(grep -c . "$(run_of "$1")/metrics.jsonl")" -ge 10 ]; }
# events KIND [TEXT…]: the lines of this kind so far that have all of the texts.
events() {
    local line text
    while read -r line; do
        for text in "\"kind\":\"$1\"" "${@:2}"; do [[ $line == *"$text"* ]] || continue 2; done
        echo "$line"
    done <"$r/events.jsonl"
}
happened() { # COUNT KIND [TEXT…]
    local -a lines
    mapfile -t lines < <(events "${@:2}")
    [ ${#lines[@]} -ge "$1" ]
}
ended() { # ID: for the API and on this machine
    ! cloud_instances | grep -qx "$1" && cloud_nodes id ended | grep -qx "$1"
}
checkpoints() { # NODE: of the active run
    cloud_on "$1" sh -c "ls -d /home/ubuntu/.dtctl/runs/${r##*/}/state/checkpoint-*"
}
saved() { # NODE…: each has a checkpoint
    local node
    for node; do checkpoints "$node" || return 1; done
}

# ---- a run --------------------------------------------------------------------------------------
begin() { # NAME SECONDS ARGUMENT…: continues until it trains; twice as fast as the probe may be
    local name=$1 epochs
    epochs=$(awk -v n=$IMAGES -v s="$2" -v per_s="$speed" 'BEGIN { print int(per_s * s / n) + 2 }')
    shift 2
    cloud_run dtctl train --name "$name" --set train.epochs="$epochs" "$@" \
        >"$name.out" 2>"$name.err" &
    operator=$!
    ok "$name: training begins" wait_for $WAIT trains "$name"
    r=$(run_of "$name")
    all=$epochs began=$SECONDS
}

finishes() { # NAME
    local accuracy
    wait "$operator"
    is "$?" 0 "$1: training is complete" || diag "$(tail -n 20 "$1.err")"
    is "$(json_value "$r/summary.json" state)" finished "$1: the summary says finished"
    is "$(grep -o '"images":[0-9]*' "$r/summary.json" | cut -d: -f2 |
        awk -v n=$IMAGES '$1 >= n && $1 < n + 3' | wc -l)" "$all" \
        "$1: every image of every epoch was seen, once" # up to two fill the last batch
    accuracy=$(json_value "$r/summary.json" accuracy)
    ok "$1: the model is good ($accuracy %)" \
        awk -v a="$accuracy" 'BEGIN { exit !(a + 0 >= '$ACCURACY') }'
    ok "$1: the model was fetched" test -s "$r/output/model/model.safetensors"
    diag "$1: $((SECONDS - began)) s, then at $SECONDS s"
}

place() { # FILE TEXT: the first "epoch E, step S" behind it
    grep -o "$2.*epoch [0-9]*, step [0-9]*" "$1" | head -n 1 | grep -o 'epoch.*'
}

lost_nothing() { # NAME
    like "$(place "$1.out" 'stopped by a signal')" 'step [0-9]' \
    "$1: the ranks have stopped at a step"
    is "$(place "$1.out" 'resuming from')" "$(place "$1.out" 'stopped by a signal')" \
        "$1: the run resumes at that step"
    is "$(grep '"event":"train"' "$r/metrics.jsonl" | grep -o '"step":[0-9]*' | sort | uniq -d)" \
        '' "$1: the run resumes at that step"
}

gone() { # NODE: what status says of it
    grep -qE "^$1 .* gone +AWS has ended it; dtctl up creates another one" <<<"$out"
}

# On slow links the trainers leave the processor to other tests.
slow() { # NODE…
    local node
    for node; do
        ok "$node: its link is slow" cloud_on "$node" tc qdisc replace dev eth0 root tbf \
            rate 15mbit burst 64k latency 400ms
    done
}

# ---- up -----------------------------------------------------------------------------------------
cloud_up
slow node0 node1 node2
is "$(cloud_nodes life_cycle | sort | uniq -c | xargs)" '3 spot' 'three spot instances are made'
for node in node0 node1 node2; do
    first[${node#node}]=$(cloud_node $node id) at[${node#node}]=$(cloud_node $node private_ip)
done
run cloud_run dtctl train --name probe --set train.epochs=2
is "$status" 0 'two epochs are trained, for the speed' || cloud_diag
speed=$(json_value "$(run_of probe)/summary.json" images_per_s)
diag "$speed images/s; up and ready at $SECONDS s"

# ---- recommended, then announced ----------------------------------------------------------------
begin warned 45 --nodes 1:3
run checkpoints node0
is "$out" '' 'warned: no checkpoint is there yet'
cloud_fault rebalance node=node2
ok 'warned: all ranks hear of the recommendation' \
    wait_for $WAIT happened 3 notice '"peer":"node2"' '"reason":"rebalance"' '"signal":"SIGUSR1"'
ok 'warned: every node gets a checkpoint' wait_for $WAIT saved node0 node1 node2
is "$(events node-left)" '' 'warned: no node leaves'
cloud_fault notice node=node2 seconds=$NOTICE
ok 'warned: all ranks hear of the interruption' \
    wait_for $WAIT happened 3 notice '"peer":"node2"' spot-terminate '"signal":"SIGUSR1"'
ok 'warned: the node leaves' wait_for $WAIT happened 1 node-left '"peer":"node2"' spot-terminate
is "$(cloud_node node2 id)" "${first[2]}" 'warned: the node leaves before its end'
ok 'warned: two nodes continue' wait_for $WAIT happened 2 round '"round":1' '"nodes":2'
ok 'warned: the instance ends' wait_for $WAIT ended "${first[2]}"
finishes warned
lost_nothing warned
like "$(cat warned.err)" 'node node2 ends soon, maybe \(rebalance\); every rank has got SIGUSR1' \
    'warned: dtctl reports the recommendation'
like "$(cat warned.err)" 'node node2 ends in [0-9.]+ s \(spot-terminate\); every rank has got' \
    'warned: dtctl reports the interruption'
like "$(cat warned.out)" 'lost +node2, and the run went on without it: node node2 is taken away' \
    'warned: the last screen names the lost node'
unlike "$(cat warned.err)" 'error' 'warned: no message is an error'
run cloud_run dtctl status
is "$status" 3 'status says that a node has failed'
ok 'AWS has ended the node' gone node2 || cloud_diag

# AWS may take minutes to end an instance: the next one does, until a run is to replace it.
cloud_fault ending seconds=3600

# ---- announced at once --------------------------------------------------------------------------
begin short 30 --nodes 1:2
is "$(json_value <(events round '"group_rank":0') node)" node0 'short: the first node coordinates'
cloud_fault notice node=node0 seconds=$NOTICE
ok 'short: all ranks hear of the interruption' \
    wait_for $WAIT happened 2 notice '"peer":"node0"' spot-terminate '"signal":"SIGUSR1"'
ok 'short: the other node takes over, alone' wait_for $WAIT happened 1 round '"round":1' '"nodes":1'
ok 'short: the instance ends' wait_for $WAIT ended "${first[0]}"
finishes short
lost_nothing short

# ---- replaced during a run -----------------------------------------------------------------------
cat >wait.sh <<'END'
#!/bin/sh
echo "rank $RANK of $WORLD_SIZE, $(cat note)"
until [ -e "$HOME/end" ]; do sleep 0.2; done
echo "$RANK" >"$DTCTL_OUTPUT_DIR/rank$RANK"
END
chmod +x wait.sh
echo 'as it was sent' >note
run cloud_run dtctl train --nodes 1:3 --replace-nodes -- ./wait.sh
is "$status" 2 'replaced: a run without restarts cannot replace nodes'
like "$err" 'train.replace_nodes: needs --max-restarts' 'replaced: the error names --max-restarts'
cloud_run dtctl train --name anew --nodes 1:3 --max-restarts 1 --replace-nodes \
    --file wait.sh --file note -- ./wait.sh >anew.out 2>anew.err &
operator=$!
ok 'replaced: a run begins on the node that is left' \
    wait_for $WAIT grep -q '^.*rank 0 of 1, as it was sent$' anew.out
r=$(run_of anew)
like "$(cloud_on node1 cat "/home/ubuntu/.dtctl/runs/${r##*/}/job.toml")" \
    'rejoin_timeout=1200' 'replaced: the job waits for nodes that join again'
ok 'replaced: up waits for the end of an instance that AWS is ending' \
    wait_for $MADE grep -q 'AWS is still ending node0' "$r/replace.log"
is "$(events nodes-replaced)" '' 'replaced: up goes on waiting'
cloud_fault none
ok 'replaced: up creates the missing nodes' wait_for $MADE happened 1 nodes-replaced || {
    cat anew.err "$r/replace.log"
    cloud_diag
}
ok 'replaced: a new node gets everything that was sent' \
    wait_for $WAIT happened 2 agent-started-again \
    'the node is there, and has nothing of the run'
ok 'replaced: three nodes continue' wait_for $WAIT happened 3 round '"nodes":3'
ok 'replaced: three nodes have their former ranks' \
    wait_for $WAIT grep -q 'node0:0. rank 0 of 3, as it was sent' anew.out
for node in node0 node1 node2; do cloud_on $node touch /home/ubuntu/end; done
wait "$operator"
is "$?" 0 'replaced: the run finishes' || diag "$(tail -n 30 anew.err)"
is "$(cd "$r/output" && echo *)" 'model rank0 rank1 rank2' \
    'replaced: the results of all ranks were fetched'
is "$(events replacing-nodes | grep -c .)" 1 'replaced: up was started once'
unlike "$(cat anew.err)" 'has not replaced a node' 'replaced: the wait counts as no failed try'
like "$(cat anew.err)" 'node0,node2: gone; dtctl up replaces .*dtctl up has replaced 2 nodes' \
    'replaced: dtctl reports the replacement'
like "$(cat anew.err)" 'sending the run to node2 \(1 of 3\)' \
    'replaced: dtctl reports that it sends the run again'

# ---- up again -----------------------------------------------------------------------------------
run cloud_run dtctl up -y
is "$status" 0 'up finds nothing to create' || cloud_diag
is "$(cloud_nodes | sort | xargs)" 'node0 node1 node2' 'three nodes run'
is "$(cloud_instances | wc -l)" 3 'the API has three instances'
is "$(cloud_node node1 id)" "${first[1]}" 'the one that lived is the same'
for node in node0 node2; do
    is "$(cloud_node $node private_ip)" "${at[${node#node}]}" "$node has its address again"
    unlike "$(cloud_node $node id)" "${first[${node#node}]}" "$node is another instance"
done
diag "up again at $SECONDS s"

# ---- gone without a word ------------------------------------------------------------------------
slow node0 node2
begin gone 15 --nodes 2 --spares 1 --set train.checkpoint_every_steps=$EVERY
like "$(events round '"round":0' '"nodes":2' | grep -o '"node":"[^"]*"' | sort | xargs)" \
    '^node:node0 node:node[12]$' 'gone: two nodes train, the first and one more'
victim=$(json_value <(events round '"group_rank":1') node)
spare=node$((3 - ${victim#node}))
cloud_fault kill node="$victim"
ok "gone: the loss of $victim is known" wait_for $WAIT happened 1 node-lost "\"peer\":\"$victim\""
ok "gone: $spare, the spare, takes the place" \
    wait_for $WAIT happened 1 round "\"node\":\"$spare\"" '"round":1' '"nodes":2'
finishes gone
from=$(place gone.out 'resuming from' | grep -o '[0-9]*$')
reached=$(grep '"event":"train"' "$r/metrics.jsonl" | grep -o '"step":[0-9]*' | cut -d: -f2 |
    awk -v from="${from:-0}" '$1 <= last { print last; exit } { last = $1 }')
ok "gone: training resumes from step $from after ${reached:-$from}, two checkpoints back at most" \
    test $((${reached:-from} - from)) -le $((2 * EVERY)) -a "${from:-0}" -ge $EVERY

# ---- down ---------------------------------------------------------------------------------------
cloud_down
diag "done at $SECONDS s"
done_testing
