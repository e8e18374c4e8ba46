#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl data index s3://…: the index of shards in a bucket is that of the same shards in a folder,
# and the shards leave no copy here.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=3
dtctl data make-shapes images --images 200 --test-images 30 --image-size 32 -q
dtctl data pack images set --shard-size 1M -q
cp set/train/000000.tar set/train/000001.tar
# One shard is larger than what is fetched by one request.
mkdir big && head -c 9000000 /dev/zero >big/rest.bin
tar -C big -rf set/train/000001.tar rest.bin
mkdir -p set/train/deep && cp set/val/000000.tar set/train/deep/other.tar
dtctl data index set -q
mkdir bucket && cp -r set/. bucket && find bucket -name '*.dtindex' -delete
dtdata put bucket s3://bucket/set >put.out || bail_out "$(cat put.out)"
left() { find .dtctl -name 'index.*' 2>/dev/null; }
servers() { pgrep -fc "serve $PWD/.dtctl/default/index"; }

run dtctl data index s3://bucket/set --json
is "$status" 0 'a bucket is indexed' || diag "$err"
like "$out" '"event":"data-indexed",.*"to":"s3://bucket/set","folders":2,"shards":3,' \
    'the event counts shards of the top and of train and val alone'
mkdir got && dtdata list s3://bucket/set | sed -n 's/.*"path":"\([^"]*dtindex\)".*/\1/p' >names
is "$(sort names | paste -sd' ')" 'train/shards.dtindex val/shards.dtindex' \
    'the files are beside the shards'
cat >take.py <<'END'
import json, subprocess, sys, urllib.request
for line in subprocess.run(["dtdata", "list", "s3://bucket/set"], capture_output=True,
                           text=True).stdout.splitlines():
    o = json.loads(line)
    if o.get("path", "").endswith("dtindex"):
        open("got/" + o["path"].replace("/", "-"), "wb").write(
            urllib.request.urlopen(o["url"]).read())
END
python3 take.py
ok 'the index of train is that of a folder' cmp got/train-shards.dtindex set/train/shards.dtindex
ok 'the index of val is that of a folder' cmp got/val-shards.dtindex set/val/shards.dtindex
is "$(left)" '' 'no file is left here'
ok 'no server is left' wait_for 10 test "$(servers)" = 0
like "$(dtctl data index s3://bucket/set 2>&1)" \
    's3://bucket/set: 430 images of 3 shards are in 2 index files' 'a second call writes it anew'
dtctl up --nodes 1 >made.log 2>&1
run dtctl train --input data=s3://bucket/set --set inputs.data.deliver=stream \
    --set inputs.data.exclude=deep --set train.model=mlp --set train.epochs=1 --set train.threads=1
is "$status" 0 'the trainer streams the bucket with this index' || diag "$out$err"

# ---- what goes wrong ----------------------------------------------------------------------------
refused() { # STATUS WHY ARGUMENTS…
    run dtctl data index "${@:3}"
    is "$status" "$1" "refused: ${*:3}"
    like "$err" "$2" "  $2"
    is "$(left)" '' '  no file is left'
}
refused 2 'is one object; index takes a folder' s3://bucket/set/train/000000.tar
refused 2 'index takes a folder, here or s3://' https://example.invalid/set
mkdir none && echo x >none/x
dtdata put none s3://bucket/none >put.out
refused 1 'holds no shards: looked for' s3://bucket/none
mkdir bad && head -c 5000 /dev/urandom >bad/a.tar
dtdata put bad s3://bucket/bad >put.out
refused 1 "'a.tar', about byte" s3://bucket/bad
is "$(dtdata list s3://bucket/bad | grep -c dtindex)" 0 'a bucket with a bad shard gets no index'
s3_fault denied set/train/000000.tar 100
refused 1 "train/000000.tar.*403" s3://bucket/set
s3_ask '/-/fault?kind=denied&key=set/train/000000.tar&count=0' >/dev/null
# Ended at each of many instants: before, while and after the server of the objects starts.
s3_ask '/-/hold?key=*0.tar' >/dev/null
there() { [ -n "$(left)" ]; }
leaks=''
for after in $(seq 0 0.02 0.5) 1; do
    dtctl data index s3://bucket/set >held.out 2>&1 &
    pid=$!
    wait_for 20 there || leaks+=" $after:began"
    sleep "$after"
    kill -TERM "$pid"
    wait "$pid"
    ended="$? $(paste -sd' ' held.out)"
    [[ $ended =~ ^143\ .*'stopped by a signal' ]] || leaks+=" $after: $ended"
    [ -z "$(left)" ] || leaks+=" $after:$(left)"
done
is "$leaks" '' 'a signal ends it at any instant, and no file is left'
ok 'no server is left then, either' wait_for 10 test "$(servers)" = 0
s3_ask /-/release >/dev/null
s3_stop
done_testing
