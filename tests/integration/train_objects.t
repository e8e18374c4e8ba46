#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inputs from a bucket: the deal, the bytes that nodes read and keep, and faults.
# shellcheck disable=SC2016,SC2317 # workers expand their own variables; functions are called by ok
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=7
mkdir -p set/sub
for i in $(seq -w 1 20); do head -c $((10#$i * 100)) /dev/urandom >"set/part-$i"; done
head -c 20000000 /dev/urandom >set/sub/big.bin
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
reads() { s3_ask /-/log | grep -c 'GET /bucket/set/'; }

# ---- the deal -----------------------------------------------------------------------------------
run dtctl train --dry-run --input set=s3://bucket/set:ShardedByS3Key -- true
is "$status" 0 'a prefix is dealt'
like "$err" 'input    set: 21 files, 20.0 MB, a share to every node by key' \
    'the deal is that of a folder of this computer'
like "$err" 'node0: 7 files, .*: part-01, part-02' 'the order is that of keys'
is "$(reads)" 0 'a dry run reads no object'
run dtctl train --dry-run --input set=s3://bucket/set --set 'inputs.set.include=part-1*' \
    --set 'inputs.set.exclude=part-1[5-9]' -- true
like "$err" 'input    set: 5 files, .*all to every node' 'include and exclude are applied to keys'

# ---- runs ---------------------------------------------------------------------------------------
sums='find . -type f -exec sha256sum {} + | sort -k 2'
show="cd \$DTCTL_INPUT_SET && $sums"' >$DTCTL_OUTPUT_DIR/$RANK'
run dtctl train --name shard --input set=s3://bucket/set:sharded -- sh -c "$show"
is "$status" 0 'a run gets shares from a bucket'
is "$(cat "$(newest_run shard)"/output/[012] | sort)" \
    "$(cd set && find . -type f -exec sha256sum {} + | sort)" 'every object is on one node, whole'
like "$out$err" 'nodes read 20.0 MB' 'the nodes have read it themselves'
s3_ask /-/forget >/dev/null
run dtctl train --name again --input set=s3://bucket/set:sharded -- sh -c "$show"
is "$status:$(reads)" 0:0 'a second run reads nothing'
s3_ask /-/forget >/dev/null
began() { [ "$(cat .dtctl/default/nodes/node*/runs/elastic-*/output/"$1".* | wc -l)" = 21 ]; }
run dtctl train --name elastic --detach --nodes 2:3 --input set=s3://bucket/set:sharded \
    --set inputs.set.shard=count -- sh -c "cd \$DTCTL_INPUT_SET && $sums"' \
    >$DTCTL_OUTPUT_DIR/.part; cd $DTCTL_OUTPUT_DIR; mv .part $DTCTL_ROUND.$RANK; sleep 600'
ok 'elastic: three nodes have all objects' wait_for 60 began 0
kept() {
    [ "$(grep -l input-kept .dtctl/default/nodes/*/runs/elastic-*/events.jsonl | wc -l)" = 3 ]
}
ok 'elastic: the copies are made' wait_for 60 kept
reads=$(reads)
kill -KILL "$(grep -o '"pid":[0-9]*' .dtctl/default/nodes/node1/runs/elastic-*/status.json |
    head -n 1 | cut -d: -f2)"
ok 'elastic: the objects of a lost node are dealt to the others' wait_for 60 began 1
is "$(reads)" "$reads" 'elastic: nothing is read from the server again'
run dtctl stop
run dtctl train --name all --nodes 2 --input set=s3://bucket/set -- sh -c "$show"
is "$(cat "$(newest_run all)/output/1")" "$(cd set && sh -c "$sums")" \
    'replicated: every node has all'
run dtctl train --name one --nodes 1 --input set=s3://bucket/set/part-07 -- \
    sh -c 'cat $DTCTL_INPUT_SET >$DTCTL_OUTPUT_DIR/x'
ok 'one object is one file' cmp "$(newest_run one)/output/x" set/part-07
is "$(grep -rlE 'SECRETTEST|X-Amz-Signature=' .dtctl | wc -l)" 0 \
    'no secret and no signed address is left behind'

# ---- what goes wrong ----------------------------------------------------------------------------
refused() { # WHY ARGUMENTS…
    run dtctl train --name bad "${@:2}" -- true
    ok "the command fails: ${*:2}" test "$status" != 0
    like "$err" "$1" "  $1"
}
refused "input 'x': s3://bucket/none/ has no object" --input x=s3://bucket/none
refused 'NoSuchBucket' --input x=s3://absent/none
refused "'gs://b/x' is not available: an input is" --input x=gs://b/x
refused 'one object; mode = sharded is for a folder' --input x=s3://bucket/set/part-07:sharded
refused 'unit = sample needs the archives' --input x=s3://bucket/set:sharded \
    --set inputs.x.unit=sample
refused "on_change = keep: .* reads 's3://bucket/set' again" --input x=s3://bucket/set \
    --set inputs.x.on_change=keep --replace-nodes
refused 'provider local creates no machines' --input x=s3://bucket/set --replace-nodes \
    --set inputs.x.deliver=stream # the input alone is none of the reasons
AWS_SECRET_ACCESS_KEY=wrong refused 'SignatureDoesNotMatch' --input x=s3://bucket/set
head -c 3000000 /dev/urandom >set/part-01
dtdata put set s3://bucket/new >put.out
s3_fault denied new/part-01 3
refused "node 'node[012]': 's3://bucket/new/part-01': .*403 AccessDenied" --input x=s3://bucket/new
s3_fault huge '' 9
refused 'the disk has .* free, and the input needs [0-9.]+ TB' --input x=s3://bucket/set:sharded
is "$(grep -cE "node '?node[012]'?: .*the disk has" <<<"$err")" 3 \
    'every node whose disk is too small is listed'
s3_fault slow '' 0
run dtctl train --name good --nodes 3 --input set=s3://bucket/new -- true
is "$status" 0 'a run starts once the server answers'
s3_stop
done_testing
