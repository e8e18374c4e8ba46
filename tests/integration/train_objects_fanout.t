#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Objects that each of four hosts gets leave the bucket once: every node reads a part and gives it
# to the others. A node that the bucket refuses, or whose part ends early, costs time and nothing
# else.
# shellcheck disable=SC2016,SC2317 # workers expand their variables; called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"
hosts_up 4
hosts_config
MB=1000000

s3_start ADDRESS=10.77.0.254
run dtctl up
is "$status" 0 'up on four hosts'

content() { # FOLDER: large, middle and small objects, two of them with one content
    mkdir -p "$1/sub"
    local i
    for i in 1 2 3 4 5; do head -c $((3 * MB + i)) /dev/urandom >"$1/large$i"; done
    for i in {1..40}; do head -c $((i * 500)) /dev/urandom >"$1/sub/small$i"; done
    cp "$1/sub/small7" "$1/twice"
    : >"$1/empty"
    dtdata put "$1" "s3://bucket/$1" >put.out || bail_out "$(cat put.out)"
    s3_ask /-/forget >/dev/null
}
sums='find . -type f -exec cksum {} + | sort -k 3'
train() { # FOLDER ARGUMENT…: every rank writes what it has
    run timeout -k 5 100 dtctl train --name "$1" --input "set=s3://bucket/$1" "${@:2}" -- \
        sh -c "cd \$DTCTL_INPUT_SET && $sums"' >$DTCTL_OUTPUT_DIR/$RANK'
}
all_have() { # FOLDER
    local want i
    want=$(cd "$1" && sh -c "$sums")
    for i in 0 1 2 3; do
        [ "$(cat "$(newest_run "$1")/output/$i")" = "$want" ] || {
            diag "rank $i differs"
            return 1
        }
    done
}
bytes() { s3_ask /-/bytes | awk '{ sum += $2 } END { print sum + 0 }'; }
readers() { s3_ask /-/bytes | awk '$2 > 0' | wc -l; }
copies() { # FOLDER: hundredths of a copy that left the bucket
    echo $((100 * $(bytes) / $(cat "$1"/* "$1"/*/* 2>/dev/null | wc -c)))
}

# ---- one copy
content once
train once
is "$status" 0 'a run with an input from a bucket succeeds'
ok 'each of four nodes has all of it' all_have once
ok 'at most 1.1 copies leave the bucket' test "$(copies once)" -le 110
is "$(readers)" 4 'each node reads a part'
ok 'the parts are about equal' test "$(s3_ask /-/bytes | sort -k 2n | tail -n 1 | cut -d' ' -f2)" \
    -le $((7 * MB))
like "$err" 'nodes read 15\..* MB and gave each other 4[0-9]\.' 'dtctl prints who read how much'
s3_ask /-/forget >/dev/null
train once
is "$status:$(bytes)" 0:0 'the next run reads nothing'
train once --nodes 3
is "$status:$(bytes)" 0:0 'a run on fewer nodes, with other parts, reads nothing'

# ---- a new disk
rm -rf "$WORK/node3/root/.dtctl/nodes/node3/cas" "$WORK/node3/root/.dtctl/nodes/node3/inputs"
train once
is "$status" 0 'a run after a node has lost its store succeeds'
ok 'all nodes have the input again' all_have once
ok 'the third node has read its own part alone' test "$(copies once)" -le 45

# ---- an input that is kept
wanted=$(cd once && sh -c "$sums")
cp -r once changed
echo other >changed/large1 && echo more >changed/sub/small41
dtdata put changed s3://bucket/once >put.out || bail_out "$(cat put.out)"
s3_ask /-/forget >/dev/null
train once --set inputs.set.on_change=keep
is "$status:$(bytes)" 0:0 'on_change = keep reads nothing from a bucket that has changed'
ok 'all nodes have the objects of before' all_have once
rm -rf "$WORK/node2/root/.dtctl/nodes/node2/cas" "$WORK/node2/root/.dtctl/nodes/node2/inputs"
train once --set inputs.set.on_change=keep
is "$status:$(bytes)" 0:0 'a node with a new disk has them from the others' || diag "$err"
is "$(cat "$(newest_run once)/output/1")" "$wanted" 'all of them'

# ---- a node that the bucket refuses
content refused
s3_ask '/-/refuse?peer=10.77.0.2' >/dev/null
train refused
is "$status" 0 'a run goes on although the bucket refuses one node'
ok 'the second node has all objects from the others' all_have refused
ok 'the bucket has given each object once' test "$(copies refused)" -le 110
is "$(readers)" 3 'the other three have read the objects'
s3_ask /-/refuse >/dev/null

# ---- a reader that dies
content killed
tc qdisc replace dev dt0 root tbf rate 20mbit burst 128k latency 100ms
train killed &
training=$!
reads() { host_processes 3 dtdata | grep -q .; }
ok 'the third node reads its part' wait_for 30 reads
for p in $(host_processes 3 dtdata); do kill -KILL "$p"; done
tc qdisc del dev dt0 root
wait $training
ok 'all nodes have the input although a reader was killed' all_have killed
ok 'other nodes have read the rest of its part' test "$(copies killed)" -le 150

# ---- an object that no node can read
content bad
s3_fault denied bad/large3 100
train bad
ok 'a run with an object that nobody can read does not start' test "$status" != 0
like "$err" "node 'node[1-4]': 's3://bucket/bad/large3': .*403 AccessDenied" \
    'the error has node, object and reason'
s3_fault denied bad/large3 0

# ---- one by one
content single
DTCTL_CLUSTER_FANOUT=off train single
is "$status" 0 'a run with fan-out off succeeds'
ok 'all nodes have the input' all_have single
is "$(copies single)" 400 'with fan-out off each node reads all'
s3_stop
done_testing
