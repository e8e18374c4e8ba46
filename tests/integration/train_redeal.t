#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sharded inputs of a run whose nodes come and go: each round deals the files anew, a node takes
# what its share lacks from the others and nothing else, and copies let a node be lost.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by name; plain names
source "${0%/*}/../lib.sh"

WAIT=60 # seconds for anything that takes a few on an idle machine
cat >work.sh <<'END'
# Each rank writes the hashes of its share, and whether the list says the same.
out=$DTCTL_OUTPUT_DIR/round-$DTCTL_ROUND.$DTCTL_SHARD_INDEX-of-$DTCTL_SHARD_COUNT
(cd "$DTCTL_INPUT_SET" && find . -type f | sort | xargs sha256sum) >.part
sed -n 's/.*"path":"\([^"]*\)".*"sha256":"\([^"]*\)".*/\2  .\/\1/p' "$DTCTL_INPUT_SET_LIST" |
    sort -k 2 | cmp - .part || echo 'list differs' >>.part
mv .part "$out"
echo "round $DTCTL_ROUND of $DTCTL_SHARD_COUNT"
trap 'exit 0' TERM
while [ ! -e "$1" ]; do sleep 0.1; done
END
mkdir -p set/deep/er
for i in 1 2 3 4 5 6 7; do head -c $((i * 1000)) /dev/urandom >set/small-$i; done
for i in 1 2 3; do head -c $((i * 700000)) /dev/urandom >set/deep/large-$i; done
: >set/deep/er/empty
(cd set && find . -type f | sort | xargs sha256sum) >all

folder() { echo ".dtctl/default/nodes/node$1/runs/$id"; } # NODE
agent() { # NODE
    json_value "$(folder "$1")/status.json" pid
}
shares() { # ROUND N
    cat .dtctl/default/nodes/node*/runs/"$id/output/round-$1".*-of-"$2" | sort -k 2
}
begun() { # ROUND N: all of its ranks have written their shares
    [ "$(ls .dtctl/default/nodes/node*/runs/"$id/output/round-$1".*-of-"$2" 2>/dev/null |
        wc -l)" = "$2" ]
}
share() { cut -c 67- "$(folder "$1")/output/round-$2".*; } # NODE ROUND: names
event() { # NODE KIND ROUND: "files bytes" of an event
    grep "\"kind\":\"$2\",\"round\":$3,\"input\":\"set\"" "$(folder "$1")/events.jsonl" |
        sed 's/.*"files":\([0-9]*\),"bytes":\([0-9]*\).*/\1 \2/'
}
finished() { grep -q '"state":"finished"' "$(folder "$1")/status.json"; } # NODE
kept() { # ROUND NODE…: they have the copies that they are to keep
    local round=$1 node
    shift
    for node in "$@"; do [ -n "$(event "$node" input-kept "$round")" ] || return 1; done
}
figures() { # NAME…: "files bytes" of files of the set, without empty ones
    local name files=0 bytes=0 size
    for name in "$@"; do
        size=$(stat -c %s "set/$name")
        [ "$size" = 0 ] && continue
        files=$((files + 1)) bytes=$((bytes + size))
    done
    echo $files $bytes
}
lacks() { # NODE ROUND HAS: what a share has that is not among these names
    # shellcheck disable=SC2046 # plain names
    figures $(comm -23 <(share "$1" "$2" | sort) <(printf '%s\n' "$3" | sort -u))
}
begin() { # NAME ARGUMENT…
    local name=$1
    shift
    rm -f "$WORK/enough"
    run dtctl train --name "$name" --detach --input set=set:sharded --file work.sh "$@" \
        -- sh work.sh "$WORK/enough"
    id=$(newest_id "$name")
}

run dtctl up --nodes 4
is "$status" 0 'four local nodes' || diag "$err"

# ---- the plan -----------------------------------------------------------------------------------
run dtctl train --nodes 2:3 --input set=set:sharded --dry-run -- true
is "$status" 0 'a sharded input with MIN:MAX nodes' || diag "$err"
like "$err" 'input +set: 11 files, .*, a share to every node by size' 'the plan has its deal'
like "$err" 'dealt anew when nodes come or go; replicas of each file: 1' \
    'the plan says that rounds deal anew'
refused() { # WHY SETTING…
    local why=$1 one
    shift
    for one in "$@"; do set -- "$@" --set "$one" && shift; done
    run dtctl train --nodes 2:3 --input set=set:sharded --dry-run "$@" -- true
    is "$status" 2 "refused: $*"
    like "$err" "$why" "  $why"
}
refused 'which unit = sample does not allow \(try: unit = file, or --nodes N\)' \
    inputs.set.unit=sample
refused 'which uneven = drop does not allow \(try: uneven = pad' inputs.set.uneven=drop
refused 'which compat.sagemaker does not allow \(try: mode = replicated' compat.sagemaker=true
refused '11 files make 5 to 6 for each of 2 nodes, and uneven = refuse' inputs.set.shard=count \
    inputs.set.uneven=refuse
run dtctl train --nodes 2:3 --input data=set:sharded --dry-run
like "$status $err" "^2 .*the native trainer's checkpoints belong to the shares of one deal" \
    'refused: the native trainer'
run dtctl train --nodes 2 --input set=set --set inputs.set.replicas=2 --dry-run -- true
like "$status $err" '^2 .*replicas is for an input with mode = sharded' 'refused: copies of all'

# ---- a node goes, and comes back ----------------------------------------------------------------
begin wave --nodes 2:3 --set inputs.set.shard=count
is "$status" 0 'a run on three nodes' || diag "$err"
ok 'the run begins' wait_for $WAIT begun 0 3
is "$(shares 0 3)" "$(cat all)" 'three nodes have every file once between them'
for n in 0 1 2; do is "$(event $n input-dealt 0)" '0 0' "nothing moved to node$n"; done
ok 'the copies are made' wait_for $WAIT kept 0 0 1 2
for n in 0 1 2; do
    before=$(((n + 2) % 3))
    # shellcheck disable=SC2046 # plain names
    is "$(event $n input-kept 0)" "$(figures $(share $before 0))" \
        "node$n has taken the share of node$before"
done
has0=$(share 0 0; share 2 0) has2=$(share 2 0; share 1 0)
first=$(shares 0 3)
gone=$(agent 1)
kill -STOP "$gone"
ok 'a node falls silent, and two go on' wait_for $WAIT begun 1 2
is "$(shares 1 2)" "$(cat all)" 'two nodes have every file once between them'
is "$(event 0 input-dealt 1)" "$(lacks 0 1 "$has0")" 'node0 took what it lacked, and no more'
is "$(event 2 input-dealt 1)" "$(lacks 2 1 "$has2")" 'node2 took what it lacked, and no more'
unlike "$(event 0 input-dealt 1) $(event 2 input-dealt 1)" '^0 0 0 0$' 'something has moved'
ok 'the copies are made anew' wait_for $WAIT kept 1 0 2
kill -CONT "$gone"
ok 'the node is back, and three go on' wait_for $WAIT begun 2 3
is "$(shares 2 3)" "$first" 'three nodes have every file once again'
for n in 0 1 2; do is "$(event $n input-dealt 2)" '0 0' "nothing moved to node$n"; done
touch enough
ok 'the run ends' wait_for $WAIT finished 0
no_agents() { ! pgrep -f "$WORK/.dtctl/default/nodes/.* --node start" >/dev/null; }
ok 'no process is left' wait_for $WAIT no_agents
run dtctl data ls
like "$out" 'set .*set-[0-9a-f]{16}-of2\.0' 'data ls has the folder of a share'

# ---- two at once --------------------------------------------------------------------------------
begin two --nodes 2:4 --set inputs.set.replicas=2 --set inputs.set.shard=key
ok 'two: four nodes' wait_for $WAIT begun 0 4
ok 'two: the copies are made' wait_for $WAIT kept 0 0 1 2 3
kill -KILL "$(agent 2)" "$(agent 3)"
ok 'two: with two copies, two nodes are killed at once and two go on' wait_for $WAIT eval \
    'begun 1 2 || begun 2 2'
is "$(cat "$(folder 0)"/output/round-*-of-2 "$(folder 1)"/output/round-*-of-2 | sort -k 2)" \
    "$(cat all)" 'two: they have every file'
touch enough
ok 'two: the run ends' wait_for $WAIT finished 0

# ---- a disk is lost, and the node comes back ----------------------------------------------------
rm -f enough
dtctl train --name back --nodes 2:3 --max-restarts 3 --input set=set:sharded --file work.sh \
    -- sh work.sh "$WORK/enough" >back.log 2>&1 &
operator=$!
made() { [ -n "$(newest_run back)" ]; }
ok 'back: another run begins' wait_for $WAIT made
id=$(newest_id back)
ok 'back: three nodes are there' wait_for $WAIT begun 0 3
ok 'back: the copies are made' wait_for $WAIT kept 0 0 1 2
gone=$(agent 1)
rm -rf .dtctl/default/nodes/node1/{runs/"$id",cas,inputs}
kill -KILL "$gone"
three() { begun 1 3 || begun 2 3; }
ok 'back: the node is sent the run, and three go on' wait_for $WAIT three || diag "$(cat back.log)"
round=$(ls "$(folder 1)/output" | sed 's/round-\([0-9]*\).*/\1/' | tail -n 1)
is "$(shares "$round" 3)" "$(cat all)" 'back: they have every file once between them'
touch enough
wait $operator
is "$?" 0 'back: the run ends well'

# ---- a spare ------------------------------------------------------------------------------------
begin spare --nodes 3 --spares 1
ok 'spare: three nodes' wait_for $WAIT begun 0 3
is "$(shares 0 3)" "$(cat all)" 'spare: they have every file'
active() { [ -e "$(folder "$1")/attempt_0" ]; }
used=() && for n in 0 1 2 3; do active $n && used+=("$n"); done
ok 'spare: the copies are made' wait_for $WAIT kept 0 "${used[@]}"
kill -KILL "$(agent "${used[2]}")"
ok 'spare: it takes the place' wait_for $WAIT begun 1 3
is "$(shares 1 3)" "$(cat all)" 'spare: the nodes have every file'
touch enough
ok 'spare: the run ends' wait_for $WAIT finished "${used[0]}"

# ---- files that are on no node ------------------------------------------------------------------
for n in 0 1 2 3; do rm -rf ".dtctl/default/nodes/node$n"/{cas,inputs}; done
begin lost --nodes 2:3 --set inputs.set.replicas=0 --rdzv-conf rejoin_timeout=1
ok 'lost: three nodes are there' wait_for $WAIT begun 0 3
kill -KILL "$(agent 1)"
failed() { grep -q '"state":"failed"' "$(folder 0)/status.json"; }
ok 'lost: without copies, and with no dtctl, the run fails' wait_for $WAIT failed
run dtctl logs -f "$id"
like "$out$err" \
    "input 'set': [0-9]+ of the files of this node's share, such as '[a-z/0-9-]+', are on no node" \
    'lost: the reason has the input, how many files, and one of them'
like "$out$err" 'start the run again, which sends them; a larger inputs.set.replicas than 0 keeps' \
    'lost: it says what to do'
for n in 0 1 2 3; do rm -rf ".dtctl/default/nodes/node$n"/{cas,inputs}; done
rm -f enough
dtctl train --name sent --nodes 2:3 --input set=set:sharded --set inputs.set.replicas=0 \
    --file work.sh -- sh work.sh "$WORK/enough" >sent.log 2>&1 &
operator=$!
made() { [ -n "$(newest_run sent)" ]; }
ok 'sent: another run begins' wait_for $WAIT made
id=$(newest_id sent)
ok 'sent: three nodes are there' wait_for $WAIT begun 0 3
kill -KILL "$(agent 1)"
ok 'sent: without copies, two go on' wait_for $WAIT begun 1 2 || diag "$(cat sent.log)"
is "$(shares 1 2)" "$(cat all)" 'sent: they have every file once between them'
like "$(cat sent.log)" 'sending files of input set to node[02], since no node has them' \
    'sent: dtctl has sent what was lost'
touch enough
wait $operator
is "$?" 0 'sent: the run ends well'

# ---- a node that fails before the start ---------------------------------------------------------
mv .dtctl/default/nodes/node2 aside && : >.dtctl/default/nodes/node2
begin less --nodes 2:3
is "$status" 0 'less: a run begins although a node cannot be used' || diag "$err"
ok 'less: two nodes' wait_for $WAIT begun 0 2
is "$(shares 0 2)" "$(cat all)" 'less: they have every file'
touch enough
ok 'less: the run ends' wait_for $WAIT finished 0
rm .dtctl/default/nodes/node2 && mv aside .dtctl/default/nodes/node2
run dtctl down -y --force
is "$status" 0 'the cluster is removed'
done_testing
