#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Inputs: which node gets which files and samples, what is refused, and results of earlier runs.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"

dtctl up --nodes 6 >made.log 2>&1 || diag "$(cat made.log)"
config() { cat >dtctl.toml; }

# ---- by key, with SageMaker's words --------------------------------------------------------------
mkdir set
for i in $(seq -w 1 20); do head -c $((10#$i * 100)) /dev/zero >"set/part-$i"; done
config <<'END'
[inputs.set]
source = "set"
mode = "ShardedByS3Key"
deliver = "File"
END
run dtctl train --dry-run -- true
is "$status" 0 '20 files are dealt to 6 nodes'
like "$err" 'input    set: 20 files, 21.0 kB, a share to every node by key, 3 to 4 files each' \
    'the plan says how files are dealt'
is "$(grep -c '^ *node[0-5]: [34] files, ' <<<"$err")" 6 'every node gets 3 or 4 files'
like "$err" 'node0: 3 files, 600 B: part-01, part-02, part-03' 'files are dealt in runs of names'
run dtctl train --name keys -- sh -c 'ls $DTCTL_INPUT_SET | paste -sd" " >$DTCTL_OUTPUT_DIR/$RANK'
is "$status" 0 'a run with these files succeeds'
is "$(cat "$(newest_run keys)"/output/[0-5] | paste -sd' ')" "$(cd set && echo part-*)" \
    'the nodes have these files, in the order of ranks'

# ---- uneven, order, patterns, --set --------------------------------------------------------------
run dtctl train --dry-run --set inputs.set.uneven=refuse -- true
is "$status" 2 'uneven = refuse'
like "$err" "input 'set': 'set': 20 files make 3 to 4 for each of 6 nodes, and uneven = refuse" \
    'the error has the numbers'
run dtctl train --dry-run --set inputs.set.uneven=pad -- true
is "$(grep -c '^ *node[0-5]: 4 files, ' <<<"$err")" 6 'uneven = pad gives all the same count'
run dtctl train --dry-run --set inputs.set.uneven=drop -- true
is "$(grep -c '^ *node[0-5]: 3 files, ' <<<"$err")" 6 'uneven = drop gives the same'
run dtctl train --dry-run --set inputs.set.order=shuffle:3 -- true
unlike "$err" 'node0: 3 files, 600 B: part-01, part-02, part-03' \
    'order = shuffle:SEED changes the order'
run dtctl train --dry-run --set 'inputs.set.include=part-1*' --set inputs.set.exclude=part-1[5-9] \
    --nodes 2 -- true
like "$err" 'input    set: 5 files, .* 2 to 3 files each' 'include and exclude are applied'

refused() { # KEY=VALUE WHY
    run dtctl train --dry-run --set "inputs.set.$1" -- true
    is "$status" 2 "the input is refused: $1"
    like "$err" "$2" "  $2"
}
refused mode=Sharded "'Sharded' is none of replicated, sharded, FullyReplicated"
refused deliver=Pipe "'Pipe' is not available"
refused deliver=unpack "'unpack' is none of copy, stream, extract, File, FastFile"
refused window=1M 'window is for an input with deliver = stream'
refused order=random "neither name nor shuffle:SEED"
refused shard=count 'ShardedByS3Key is shard = key'
refused 'include=*.jpg' "no file of 'set' matches include"
refused unit=sample 'there is no .tar file'
refused shards=key "unknown key 'inputs.set.shards' \(did you mean 'inputs.set.shard'\?\)"
run dtctl train --dry-run --nodes 2:4 -- true
is "$status" 0 'shares for a number of nodes that changes are dealt'
like "$err" 'dealt anew when nodes come or go; replicas of each file: 1' 'the plan says so'
run dtctl train --dry-run --nodes 2 --set train.spares=1 -- true
like "$status $err" '^0 .*dealt anew when nodes come or go' 'shares with spare nodes are dealt'
unlike "$err" '0 to 10 files' 'spare nodes are not counted'
run dtctl train --dry-run --set inputs.other.shard=key -- true
like "$err" 'there is no \[inputs.other\] before it' \
    'a field of an input that is not there is refused'
run dtctl train --dry-run --input a-b=set --input A_b=set -- true
is "$status" 2 'two names that are one variable are refused'
like "$err" "inputs 'a-b' and 'A_b' would both have the variable DTCTL_INPUT_A_B" \
    'the error names both inputs'

# ---- results that differ between nodes ----------------------------------------------------------
dtctl train --nodes 2 --name differs -- sh -c 'echo same >$DTCTL_OUTPUT_DIR/same
    echo $RANK >$DTCTL_OUTPUT_DIR/own; echo same >$DTCTL_MODEL_DIR/same
    echo $RANK >$DTCTL_MODEL_DIR/weights' >differs.log 2>&1 || diag "$(cat differs.log)"
run dtctl train --nodes 2 --input d=run:differs/output -- sh -c 'cd $DTCTL_INPUT_D || exit
    find . -type f | sort | xargs'
is "$(grep -c '\] ./node0/model/weights ./node0/own ./node1/model/weights ./node1/own ./same$' \
    <<<"$out")" 2 'an input has the differing files of each node'
like "$err" 'differ between the nodes .* input=run:differs/output folders=2 first=node0' \
    'a warning names the folders of nodes'
run dtctl train --nodes 2 --input d=run:differs/model -- true
like "$err" 'lacks the files that differ .* others=run:differs/output/node0/model' \
    'a warning names the model files that are left out'
dtctl train --nodes 2 --name alike -- sh -c 'echo same >$DTCTL_OUTPUT_DIR/same' >alike.log 2>&1
run dtctl train --nodes 2 --input d=run:alike/output -- true
unlike "$err" 'differ' 'results that are alike give no warning'

# ---- links ---------------------------------------------------------------------------------------
mkdir -p tied/sub outside
echo kept >outside/word
for i in 1 2 3 4 5 6; do echo "$i" >"tied/f$i"; done
ln -s ../outside tied/dir
ln -s "$PWD/outside/word" tied/word
ln -s ../f1 tied/sub/f1
run dtctl train --nodes 2 --input tied=tied -- sh -c 'cd $DTCTL_INPUT_TIED || exit
    echo "$(readlink dir) $(cat sub/f1) $(find . -type f | wc -l)"'
is "$status $(grep -c '\] ../outside 1 6$' <<<"$out")" '0 2' 'nodes get links as links'
like "$err" 'links lead out of an input; .* input=tied links=2 first="dir" target="../outside"' \
    'links that lead out are named, with their number'
unlike "$err" 'link of a share' 'links of an input that is whole on every node are fine'
run dtctl train --dry-run --nodes 2 --input tied=tied:sharded -- true
like "$err" 'link of a share may .* input=tied links=1 first="sub/f1" target="../f1"' \
    'links whose files may be on another node are named'
rm tied/dir && mkdir tied/dir && echo new >tied/dir/word
dtctl train --nodes 2 --input tied=tied -- true >tied.log 2>&1 || diag "$(cat tied.log)"
is "$(cat outside/word "$(find .dtctl -path '*/dir/word' | head -1)" | xargs)" 'kept new' \
    'a folder in the place of a link is a folder, and the target of the link stays'

# ---- samples -------------------------------------------------------------------------------------
mkdir members tars
for i in $(seq -w 1 25); do
    echo "picture $i" >"members/s$i.jpg"
    echo "$((10#$i % 3))" >"members/s$i.cls"
done
(cd members && tar cf ../tars/a.tar -- s0* s1* && tar cf ../tars/b.tar -- s2*)
echo names >tars/classes.txt
config <<'END'
[inputs.data]
source = "tars"
mode = "sharded"
shard = "count"
unit = "sample"
END
run dtctl train --dry-run --nodes 4 -- true
like "$err" 'input    data: 3 files, 25 samples, .* by count, 6 to 7 samples each' \
    'samples are counted and dealt'
like "$err" 'node0: 3 files, 7 samples, .*: a.tar, b.tar, classes.txt' \
    'plan shows the files of each node'
ok 'a dry run writes no archives' test -z "$(find .dtctl/default/runs -name '*.tar')"
run dtctl train --nodes 4 --name samples -- sh -c 'cd $DTCTL_INPUT_DATA && cat classes.txt &&
    mkdir $DTCTL_OUTPUT_DIR/$RANK && for t in *.tar; do tar xf $t -C $DTCTL_OUTPUT_DIR/$RANK; done'
is "$status" 0 'a run with samples succeeds'
got=$(newest_run samples)/output
is "$(for n in 0 1 2 3; do find "$got/$n" -name '*.jpg' | wc -l; done | paste -sd' ')" '7 6 6 6' \
    'every node has its samples'
mkdir all
cp "$got"/[0-3]/* all/
ok 'all together are all samples, as they were' diff -r members all
is "$(find .dtctl/default/runs .dtctl/default/parts -name '*.tar' | wc -l)" 0 \
    'no part of an archive stays here'
dtctl train --nodes 4 --name killed -- sleep 60 >killed.log 2>&1 &
dtctl=$!
wait_for 30 sh -c 'ls .dtctl/default/parts/killed-*/data/3/b.tar && grep -q "round 0" killed.log'
kill -9 $dtctl
wait $dtctl 2>/dev/null || true
run dtctl stop
run dtctl train --nodes 4 --name later -- true
is "$status" 0 'a run after a killed dtctl succeeds'
is "$(find .dtctl/default/parts -name '*.tar' | wc -l)" 0 \
    'the next dtctl removes the parts of a killed one'
zstd -q tars/b.tar && rm tars/b.tar
run dtctl train --dry-run --nodes 4 -- true
is "$status" 2 'a compressed archive is refused'
like "$err" "'b.tar.zst' is compressed and cannot be split" 'the error names the compressed archive'
rm tars/b.tar.zst && head -c 9000 tars/a.tar >tars/cut.tar
run dtctl train --dry-run --nodes 4 -- true
like "$err" "tars/cut.tar': archive ends in the middle" 'the error names the truncated archive'

# ---- a folder without files ----------------------------------------------------------------------
mkdir bare
config </dev/null
run dtctl train --name bare --input in=bare -- \
    sh -c 'ls -A "$DTCTL_INPUT_IN" >$DTCTL_OUTPUT_DIR/all'
is "$status" 0 'an input without files is a folder on every node' || diag "$out"
is "$(cat "$(newest_run bare)/output/all")" '' '  and nothing is in it'

# ---- with tasks ----------------------------------------------------------------------------------
config <<'END'
[tasks.prepare]
command = ["sh", "-c", "for i in 1 2 3 4 5; do echo $i >$DTCTL_OUTPUT_DIR/f$i; done"]
once = true
[tasks.use]
after = ["prepare"]
command = ["sh", "-c", "cd $DTCTL_INPUT_DATA && echo * >$DTCTL_OUTPUT_DIR/$RANK"]
nodes = 2
[tasks.use.inputs.data]
source = "run:prepare/output"
mode = "sharded"
shard = "key"
END
run dtctl run
is "$status:$(cat "$(newest_run use)"/output/[01] | paste -sd' ')" '0:f1 f2 f3 f4 f5' \
    'the second task gets shares of the output of the first'
run dtctl run
like "$err" "task 'use' is done" 'a second dtctl run repeats neither task'
done_testing
