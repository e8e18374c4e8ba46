#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An input run:TASK/… of nodes that still have the results: each takes its part from there, and
# nodes give their parts to each other, so that almost nothing leaves this computer. The bytes are
# the same where results are gone, changed, behind a link, or another cluster's.
# shellcheck disable=SC2016,SC2317 # workers expand their variables; called by name
source "${0%/*}/../lib.sh"
hosts_up 4
mkdir here && cd here || exit 1
hosts_config
run dtctl up
is "$status" 0 'up on four hosts'

sent() { awk '$1 == "dt0:" { print $10 }' /proc/net/dev; } # bytes from here to all hosts
MB=1000000 PART=$((5 * 1000000))
cat >make.sh <<'END2'
cd "$DTCTL_OUTPUT_DIR" && mkdir "part$RANK"
head -c 4900000 /dev/urandom >"part$RANK/large"
for i in $(seq 40); do head -c 2500 /dev/urandom >"part$RANK/small$i"; done
ln -s large "part$RANK/link"
head -c 2000000 /dev/urandom >"$DTCTL_MODEL_DIR/model$RANK"
head -c 1000000 /dev/urandom >"$DTCTL_STATE_DIR/place"
END2
run dtctl train --nodes 3 --name prepare --nproc-per-node 1 -- sh make.sh
is "$status" 0 'a first task on three of them succeeds'
first=$(newest_id prepare)
results=$(newest_run prepare)/output
sums='find . -type f -exec cksum {} + | sort -k 3'
root() { echo "$WORK/node$1/root/.dtctl/nodes/node$1"; } # NODE
forget() { # stores and inputs of all nodes
    for i in 1 2 3 4; do rm -rf "$(root $i)/cas" "$(root $i)/inputs"; done
}
next() { # NAME NODES SOURCE ARGUMENT…: a second task; the bytes that it sent in $bytes
    local before
    forget
    before=$(sent)
    run timeout -k 5 100 dtctl train --name "$1" --nodes "$2" --nproc-per-node 1 \
        --input "in=$3" "${@:4}" -- \
        sh -c 'cd $DTCTL_INPUT_IN 2>/dev/null || cd ${DTCTL_INPUT_IN%/*}
            '"$sums"' >$DTCTL_OUTPUT_DIR/$RANK'
    bytes=$(($(sent) - before))
    diag "$1: $bytes bytes sent"
}
all_have() { # NAME NODES FOLDER: every rank has read the files of FOLDER
    local i want
    want=$(cd "$3" && find . -name model -prune -o -name state -prune -o -name .dtctl-run -prune \
        -o -type f -exec cksum {} + | sort -k 3)
    [ -n "$want" ] || return 1
    for ((i = 0; i < $2; i++)); do
        [ "$(cat "$(newest_run "$1")/output/$i")" = "$want" ] || {
            diag "rank $i differs"
            return 1
        }
    done
}
between() { # LEAST MOST: of $bytes
    [ "$bytes" -ge "$1" ] && [ "$bytes" -le "$2" ]
}

# ---- nodes that have all parts
next same 3 run:prepare/output
is "$status" 0 'a second task on the same nodes succeeds' || diag "$err"
ok 'each has the output of all three' all_have same 3 "$results"
ok 'almost nothing of 45 MB leaves this computer' test "$bytes" -lt $MB
ok 'the results on a node are as before' \
    test "$(stat -c %h:%a "$(root 1)/runs/$first/output/part0/large")" = 1:644
next fewer 1 run:prepare/output
ok 'one node has all of it' all_have fewer 1 "$results"
ok 'the parts of the other two are sent to it' between $((2 * PART)) $((2 * PART + MB))
next more 4 run:prepare/output
ok 'a node that was not in the first run has it, too' all_have more 4 "$results"
ok 'the new node gets it from the others' test "$bytes" -lt $MB
next model 3 run:prepare/model
ok 'the model comes to all three' all_have model 3 "$results/model"
ok 'the model is not sent' test "$bytes" -lt $MB
next state 3 "run:prepare@$first/state"
ok 'the state of a named run comes to all three' all_have state 3 "$results/state"
ok 'the state is not sent' test "$bytes" -lt $MB
next source 1 run:prepare/source
like "$(cat "$(newest_run source)/output/0")" ' ./make.sh' 'the source is an input'
next file 3 run:prepare/output/part1/large
ok 'a single file comes to all three' test \
    "$(cut -d' ' -f1,2 "$(newest_run file)"/output/[0-2] | sort -u)" = \
    "$(cksum "$results/part1/large" | cut -d' ' -f1,2)"
ok 'the file is not sent' test "$bytes" -lt $MB

# ---- shares
next key 3 run:prepare/output:sharded --set inputs.in.shard=key
is "$(sort -k 3 "$(newest_run key)"/output/[0-2])" \
    "$(sort -k 3 "$(newest_run same)"/output/0)" 'the shares of three nodes are the whole'
ok 'nodes whose shares are their own parts get almost nothing' test "$bytes" -lt $MB
next elastic 1:3 run:prepare/output:sharded --set inputs.in.shard=key
is "$(sort -k 3 "$(newest_run elastic)"/output/[0-2])" \
    "$(sort -k 3 "$(newest_run same)"/output/0)" 'shares of nodes that come and go are the whole'
ok 'these nodes get almost nothing either' test "$bytes" -lt $MB

rotate() { # FROM1 FROM2 FROM3: the nodes have the results of these nodes
    local i
    for i in 1 2 3; do mv "$(root $i)/runs/$first" "$WORK/moved$i"; done
    for i in 1 2 3; do mv "$WORK/moved${!i}" "$(root $i)/runs/$first"; done
}
rotate 3 1 2
next given 3 run:prepare/output:sharded --set inputs.in.shard=key
is "$(sort -k 3 "$(newest_run given)"/output/[0-2])" \
    "$(sort -k 3 "$(newest_run same)"/output/0)" 'shares that other nodes hold are the whole'
ok 'nodes get their shares from the nodes that hold them' test "$bytes" -lt $MB
ok 'a node that only gives keeps no file of another share' \
    test "$(find "$(root 1)/inputs" -type f | wc -l)" = 41
next moving 1:3 run:prepare/output:sharded --set inputs.in.shard=key
is "$(sort -k 3 "$(newest_run moving)"/output/[0-2])" \
    "$(sort -k 3 "$(newest_run same)"/output/0)" \
    'shares of nodes that come and go are the whole, too'
ok 'nodes that come and go get their shares from others' test "$bytes" -lt $MB
rotate 2 3 1

# ---- without fan-out
DTCTL_CLUSTER_FANOUT=off next off 3 run:prepare/output
ok 'without fan-out each has all of it' all_have off 3 "$results"
ok 'every node gets the parts of others from here' between $((6 * PART)) $((6 * PART + MB))

# ---- results that are not what they were
keep() { cp -a "$(root "$1")/runs/$first" "$WORK/kept$1"; } # NODE
back() { rm -rf "$(root "$1")/runs/$first" && mv "$WORK/kept$1" "$(root "$1")/runs/$first"; }
keep 2
rm -rf "$(root 2)/runs/$first"
next gone 3 run:prepare/output
ok 'a node that has lost its results has them again' all_have gone 3 "$results"
ok 'the lost part is sent once' between $PART $((PART + MB))
back 2

keep 1
large=$(root 1)/runs/$first/output/part0/large
touch -r "$large" "$WORK/stamp"
printf X | dd of="$large" bs=1 seek=1000 conv=notrunc 2>/dev/null
touch -r "$WORK/stamp" "$large"
next changed 3 run:prepare/output
ok 'a file that was changed on its node is not taken' all_have changed 3 "$results"
ok 'the changed file is sent' between $((PART - MB / 5)) $((PART + MB))
back 1

keep 3
mkdir -p "$WORK/node3/root/outside"
mv "$(root 3)/runs/$first/output/part2" "$WORK/node3/root/outside/part2"
ln -s /root/outside/part2 "$(root 3)/runs/$first/output/part2"
next linked 3 run:prepare/output
ok 'links of a node that lead out of its results change nothing' all_have linked 3 "$results"
ok 'the links are not followed' between $PART $((PART + MB))
rm -rf "$(root 3)/runs/$first/output"
mkdir "$WORK/node3/root/all"
mv "$WORK/node3/root/outside/part2" "$WORK/node3/root/all/"
ln -s /root/all "$(root 3)/runs/$first/output"
next replaced 3 run:prepare/output
ok 'a link in the place of its output changes nothing' all_have replaced 3 "$results"
ok 'the link is not followed' between $PART $((PART + MB))
back 3

echo "another cluster" >"$(root 2)/owners/other"
owner=$(root 2)/runs/$first/owner
cp "$owner" "$WORK/mine"
echo other >"$owner"
next foreign 3 run:prepare/output
ok 'results with the mark of another cluster are left alone' all_have foreign 3 "$results"
ok 'the part of that node is sent' between $PART $((PART + MB))
cp "$WORK/mine" "$owner"

# ---- a node that has another file of the same name
next again 3 run:prepare/output
ok 'results that are back are taken again' test "$bytes" -lt $MB
ok 'all nodes have the same bytes as before' all_have again 3 "$results"

# ---- tasks of one file
cat >>dtctl.toml <<'END2'
[train]
nodes = "3"
nproc_per_node = "1"
[tasks.one]
command = ["make.sh"]
[tasks.two]
after = ["one"]
shell = 'cd $DTCTL_INPUT_IN && find . -type f | wc -l'
inputs.in = { source = "run:one/output" }
END2
before=$(sent)
run dtctl run
is "$status" 0 'dtctl run starts both tasks' || diag "$err"
like "$out" '123' 'the second has the files of the first'
bytes=$(($(sent) - before))
ok 'these files are not sent' test "$bytes" -lt $MB
done_testing
