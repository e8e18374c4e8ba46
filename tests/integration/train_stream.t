#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = stream: ranks read objects by addresses of their own node while they come.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=4
mkdir set
for i in 0 1 2 3 4 5; do head -c $((i * 1500000 + 17)) /dev/urandom >"set/part-$i.tar"; done
: >"set/a b+c"
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
events() { cat .dtctl/default/nodes/*/runs/"$(newest_id "$1")"/events.jsonl; }
sums() { (cd "$1" && sha256sum ./* | sed 's|\./||' | sort -k 2); }

cp "$SRC/tests/tools/read_stream.py" read.py

# ---- runs ---------------------------------------------------------------------------------------
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >dtctl.toml <<'END'
[inputs.set]
source = "s3://bucket/set"
deliver = "stream"
END
run dtctl train --dry-run -- true
like "$err" 'input    set: 7 files, .*all to every node, streamed' \
    'the plan says that it is streamed'
s3_ask '/-/hold?key=*-5.tar' >/dev/null
run dtctl train --name all -- python3 read.py 1 "curl -fsS $S3/-/release"
is "$status" 0 'ranks read while objects are still to come'

for rank in 0 1; do
    is "$(sort -k 2 "$(newest_run all)/output/$rank")" "$(sums set)" \
        "rank $rank has read every byte"
done
is "$(events all | grep -c '"kind":"stream".*"what":"whole"')" 2 'each node says when all was there'
is "$(events all | grep -c '"what":"first"')" 2 'each node reports when its first reader got bytes'
like "$err" 'input set \(.*\) is on node[01] after' 'the time until all was there is shown'
is "$(find .dtctl -name stream.sock)" '' 'the servers have ended with the run'
is "$(grep -rlE 'SECRETTEST|X-Amz-Signature=' .dtctl | wc -l)" 0 'no signed address is left behind'
s3_ask /-/forget >/dev/null
run dtctl train --name shard --set inputs.set.mode=sharded --set inputs.set.shard=key -- \
    python3 read.py
is "$status" 0 'a sharded input is streamed'
is "$(cat "$(newest_run shard)"/output/[01] | sort -k 2)" "$(sums set)" 'each object is on one node'
is "$(s3_ask /-/log | grep -c 'GET /bucket/set/')" 0 'no object in the store is read again'

# ---- what goes wrong ----------------------------------------------------------------------------
refused() { # WHY ARGUMENTS…
    run dtctl train --dry-run "${@:2}" -- true
    is "$status" 2 "refused: ${*:2}"
    like "$err" "$1" "  $1"
}
refused "'Pipe' is not available" --set inputs.set.deliver=Pipe
refused 'has to fit into the cache' --set inputs.set.cache_max=1M
refused 'does not hold .part-2.tar' --set inputs.set.cache_max=2M --set inputs.set.window=1M
refused 'programs open files in the folder' --set compat.sagemaker=true \
    --set inputs.set.deliver=FastFile
run dtctl train --dry-run --set train.data=set
like "$err" "'part-0.tar' by the file 'shards.dtindex'.*try: dtctl data index" \
    'the native trainer needs an index'
mkdir more
head -c 300000 /dev/urandom >more/x
dtdata put more s3://bucket/new >put.out
cat >change.py <<'END'
import os, sys, urllib.error, urllib.request
url = open(os.environ["DTCTL_INPUT_SET_URLS"]).read().split()[0]
try:
    urllib.request.urlopen(url).read()
except urllib.error.HTTPError as e:
    sys.exit(f"{e.code}: {e.read().decode()}")
END
s3_fault denied new/x 100
run dtctl train --nodes 1 --name denied --set inputs.set.source=s3://bucket/new -- python3 change.py
ok 'a rank that cannot read fails' test "$status" != 0
like "$out$err" "502: 's3://bucket/new/x': the server answers 403 AccessDenied" \
    'the read gets the reason'
like "$err" "node0: 's3://bucket/new/x': the server answers 403" 'dtctl shows the reason'
like "$(cat .dtctl/default/nodes/node0/runs/denied-*/agent.log)" 'cannot be read.*AccessDenied' \
    'the log of the agent has the reason'
s3_stop
done_testing
