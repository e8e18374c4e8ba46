#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Nodes that end by themselves: the lease is set by up, moved by extend, shown by status. An idle
# node powers off while the others, in a run, do not. Then the lease ends during a run: after a
# notice, with a checkpoint that is resumed, and in time.
# shellcheck disable=SC2016,SC2317 # dollars that are money; functions called through wait_for
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

WAIT=60   # seconds for anything that takes a few on an idle machine
TTL=300   # seconds from boot; less than the ten minutes from which on the end is announced
IDLE=60   # seconds
LAST=40   # seconds that the lease is cut to
LATE=60   # seconds after its time that a node may still be there, on a busy machine
cloud_config lease 'nodes = 3'
cat >>dtctl.toml <<END
[lease]
ttl = "${TTL}s"
idle = "${IDLE}s"
[train]
model = "mlp"
hidden = [64]
dataset = "shapes"
train_size = 2048
test_size = 500
batch = 8
epochs = 1000000
threads = 1
print_every = 5
checkpoint_every_epochs = 0
END

left() { # seconds of the lease, as status has said
    grep -o '"left_ms":[0-9]*' <<<"$out" | cut -d: -f2 | awk '{ print int($1 / 1000) }'
}
between() { # NUMBER MIN MAX DESCRIPTION
    ok "$4 ($1)" test "${1:-0}" -ge "$2" -a "${1:-0}" -le "$3"
}
notice() { # NODE: what is announced there, on one line
    cloud_on "$1" sh -c 'paste -sd" " /run/dtctl/notice 2>/dev/null'
}
announced() { # NODE PATTERN
    notice "$1" | grep -qE "$2"
}
quiet() { # NODE…: nothing is announced
    local node
    for node; do cloud_on "$node" test ! -e /run/dtctl/notice || return 1; done
}
has_ended() { # ID: for the API and on this machine
    ! cloud_instances | grep -qx "$1" && cloud_nodes id ended | grep -qx "$1"
}
ended_s() { # since 1970, of the newest instance that ended by itself
    grep '"source": "guest"' cloud/calls.jsonl | tail -n 1 | grep -o '"t": [0-9]*' | cut -d' ' -f2
}

# ---- up: the lease of the configuration ---------------------------------------------------------
cloud_up
for node in node0 node1 node2; do id[${node#node}]=$(cloud_node $node id); done
run cloud_run dtctl status --json
between "$(left)" $((TTL - 120)) $TTL 'status: time is left'
like "$(cloud_on node1 journalctl -u dtctl-lease)" 'node1 ends in [0-9]+ min: its lease is over' \
    'the end of the lease is announced on the node'

# ---- extend -------------------------------------------------------------------------------------
run cloud_run dtctl extend 1h
is "$status" 0 'extend succeeds' || cloud_diag
like "$out" 'end themselves in 1:00:00 .*at most \$2\.4' 'extend prints the new end and its cost'
tag() { cloud_api DescribeTags us-east-1 Filter.1.Name=key Filter.1.Value.1=dtctl-expires; }
is "$(tag | grep -o '<value>[^<]*' | sort -u)" \
    "<value>$(date -u -d "@$(cloud_on node0 cat /var/lib/dtctl/lease)" +%FT%TZ)" \
    'the tag of the instances, by which others see that they are in use, has it' || diag "$(tag)"
run cloud_run dtctl status
like "$out" 'lease: ends in (1:00:00|59:[0-9]+); spent about \$0\.[0-9]+, at most \$2\.[34]' \
    'status shows the same end of the lease' || diag "$out"
# The trainers have to be alive, not fast: on slow links they leave the processor to other tests.
for node in node0 node1; do
    ok "$node: its link is slow" cloud_on $node tc qdisc replace dev eth0 root tbf rate 20mbit \
        burst 64k latency 400ms
done
run cloud_run dtctl train --nodes 1:2 --name task --detach
is "$status" 0 'two of three nodes train without a follower' || cloud_diag
diag "up, extended, in a run at $SECONDS s"
r=$(compgen -G '.dtctl/lease/runs/task-*')
ok 'the announcement is taken back' wait_for $WAIT quiet node0 node1

# ---- idle ---------------------------------------------------------------------------------------
ok 'the end of the third is announced' wait_for $WAIT announced node2 'kind=idle .*node=node2'
due=$(notice node2 | grep -o 'deadline=[0-9]*' | cut -d= -f2)
between $((due - EPOCHSECONDS)) 20 $IDLE 'at least half a minute before'
like "$(cloud_on node2 journalctl -u dtctl-idle)" 'ends in .*: no run, login or GPU use for' \
    'the idle announcement has its reason'
ok 'the idle node powers off, and its instance is ended' \
    wait_for $((IDLE + LATE + WAIT)) has_ended "${id[2]}"
between $(($(ended_s) - due)) -1 $LATE 'when it was due' # both are whole seconds
ok 'nodes in the run get no idle announcement' quiet node0 node1
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'nodes in the run stay'
diag "the idle node has ended at $SECONDS s"

# ---- a node that is gone cannot be extended ------------------------------------------------------
run cloud_run dtctl extend 32d
like "$status $err" '^2 .*more than 31 days ahead; say dtctl extend 31d' 'nodes take no more'
now=$EPOCHSECONDS
run cloud_run dtctl extend 2h
is "$status" 3 'extend: some nodes failed, when one is gone' || cloud_diag
like "$out" '^2 of 3 nodes of lease end themselves in 2:00:00 .*at most \$3\.2' \
    'extend prints the new end of those that are there, and their cost' || diag "$out"
like "$err" "node 'node2': AWS has ended it; dtctl up creates another" \
    'extend names the ended node' ||
    diag "$err"
like "$err" 'extend: 1 of 3 nodes failed: node2' 'extend counts the ended node as failed'
for node in node0 node1; do
    between "$(cloud_on $node cat /var/lib/dtctl/lease)" $((now + 7200)) $((EPOCHSECONDS + 7200)) \
        "$node has the new deadline"
done

# ---- the end of the lease, in mid-run -----------------------------------------------------------
run cloud_run dtctl extend ${LAST}s
like "$status $err" '^2 .*the nodes end in .* would be sooner .try: .*--shorten' \
    'extend does not shorten by itself' || diag "$err"
now=$EPOCHSECONDS
# It then asks AWS about node2.
cloud_run dtctl extend --shorten ${LAST}s >extend.out 2>extend.err &
extend=$!
shorter() { [ "$(cloud_on node0 cat /var/lib/dtctl/lease)" -lt $((now + 3600)) ]; }
ok 'the lease is cut' wait_for $WAIT shorter
due=$(cloud_on node0 cat /var/lib/dtctl/lease)
between "$due" $((now + LAST)) $((EPOCHSECONDS + LAST)) 'the new deadline'
run cloud_run dtctl logs -f
is "$status" 1 'the run ends before the nodes do' || diag "$(tail -n 20 <<<"$out")" "$err"
for node in node0 node1; do
    like "$err" "node $node ends in [0-9.]+ s \\(lease\\); every rank has got SIGUSR1" \
        "the end of $node is announced"
done
like "$out" 'task-.*: stopped' 'the run ends as stopped'
like "$out" 'is taken away \(lease\)' 'the run says that the lease is the reason'
# If one node leaves a moment before the other, the latter continues and stops at a later step.
step=$(grep -o 'stopped by a signal: checkpoint of epoch [0-9]*, step [0-9]*' <<<"$out" |
    grep -o '[0-9]*$' | tail -n 1)
ok "the ranks have stopped at a step ($step)" test "${step:-0}" -gt 0 ||
    diag "$(grep -v Epoch <<<"$out" | tail -n 40)" "$err"
ok 'the checkpoint of that step was fetched' \
    test -s "$r/output/state/checkpoint-$(printf %010d "${step:-0}")/state.safetensors"
is "$(cloud_nodes | sort | xargs)" 'node0 node1' 'the checkpoint was fetched before the nodes ended'
for i in 0 1; do
    ok "node$i ends itself" wait_for $((LAST + LATE + WAIT)) has_ended "${id[i]}"
done
between $(($(ended_s) - due)) 0 $LATE 'at its time'
diag "the lease has ended at $SECONDS s"
wait $extend
like "$? $(<extend.out)" '^3 2 of 3 nodes of lease end themselves in 40' \
    'extend says when the nodes end'
is "$(cloud_instances)" '' 'no instance is left'
is "$(grep -c '"action": "TerminateInstances".*"source": "api"' cloud/calls.jsonl)" 0 \
    'no instance was ended by an API call'

# ---- down ---------------------------------------------------------------------------------------
cloud_down
diag "done at $SECONDS s"
done_testing
