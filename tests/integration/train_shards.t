#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = stream to the native trainer: it reads samples of shards by their index while the shards
# come, and takes the steps that it takes with copy.
# shellcheck disable=SC2317 # functions are called through wait_for
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=4
weights() { # of the trained model
    sha256sum <"$(find "$(newest_run "$1")" -name '*.safetensors' -path '*model*' | sort |
        head -n 1)"
}
losses() { grep -o '"loss":[^,}]*' "$(newest_run "$1")/output/metrics.jsonl"; }
node_log() { cat .dtctl/default/nodes/*/runs/"$(newest_id "$1")"/agent.log; }

# ---- shards, larger than what one request brings, and their index --------------------------------
dtctl data make-shapes images --images 240 --test-images 40 --image-size 32 -q
dtctl data pack images packed -q
cat >split.py <<'END'
import io, os, random, sys, tarfile
members = [(m.name, t.extractfile(m).read()) for t in [tarfile.open("packed/train/000000.tar")]
           for m in t]
os.makedirs("set/train")
random.seed(1)
at = 0
for shard, samples in enumerate([79, 80, 80, 1]):
    with tarfile.open(f"set/train/{shard:06d}.tar", "w", format=tarfile.PAX_FORMAT) as out:
        def add(name, data):
            m = tarfile.TarInfo(name)
            m.size = len(data)
            out.addfile(m, io.BytesIO(data))
        for name, data in members[2 * at:2 * (at + samples)]:
            add(name, data)
            if name.endswith("4.cls"):  # a field that is not read
                add(name[:-3] + "long", b"x" * 100000)
            if name.endswith("5.cls"):
                add(name[:-3] + "json", b"{}")
        add("rest.bin", random.randbytes(6000000))
    at += samples
END
python3 split.py || bail_out 'no shards'
cp packed/train/classes.txt set/train
cp -r packed/val set/val
run dtctl data index set --json
is "$status" 0 'data index'
like "$out" '"event":"data-indexed".*"folders":2,"shards":5,"samples":280' \
    'data index counts what it found'
ok 'pack has written the same index' cmp set/val/shards.dtindex packed/val/shards.dtindex
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"

# ---- the first step, while a shard is still to come ----------------------------------------------
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >dtctl.toml <<'END'
[inputs.data]
source = "s3://bucket/set"
END
small=(--set train.model=mlp --set train.hidden=16 --set train.epochs=2 --set train.batch=8
    --set train.threads=1 --set train.print_every=1 --set train.seed=2) # the last shard comes late
stream=(--set inputs.data.deliver=stream)
steps() { cat .dtctl/default/nodes/node0/runs/"$1"-*/output/metrics.jsonl 2>/dev/null; }
has_steps() { [ "$(steps "$1" | grep -c '"loss"')" -gt 0 ]; }
# The servers of node0, as PARENT PID; the one that serves is the child of the other.
servers() {
    local p words
    for p in /proc/[0-9]*; do
        { words=$(tr '\0' ' ' <"$p/cmdline"); } 2>/dev/null || continue
        [[ $words == "$PWD/.dtctl/default/nodes/node0/bin/dtdata-"*" serve "* ]] || continue
        echo "$(awk '$1 == "PPid:" { print $2 }' "$p/status") ${p#/proc/}"
    done
}
serving() {
    servers | awk '{ up[$2] = $1 } END { for (p in up) if (up[p] in up) print p }'
}

s3_ask '/-/hold?key=*000003.tar' >/dev/null
dtctl train --name held "${small[@]}" "${stream[@]}" >held.log 2>&1 &
held=$!
ok 'steps are taken' wait_for 60 has_steps held
is "$(s3_ask /-/log | grep -c 'GET.*train/000003.tar.*20[06]')" 0 \
    'the node has nothing of one shard then'
killed=$(serving)
kill -KILL "$killed"
again() { [ -n "$(serving)" ] && [ "$(serving)" != "$killed" ]; }
ok 'a server that is killed starts again' wait_for 20 again
s3_ask /-/release >/dev/null
wait "$held"
is "$?" 0 'the run ends well' || diag "$(cat held.log)"
like "$(node_log held)" 'was killed, and starts again.*signal=9' 'the log of the agent says so'

# ---- the same steps -----------------------------------------------------------------------------
run dtctl train --name copy "${small[@]}"
is "$status" 0 'a run with copy' || diag "$out$err"
like "$(cat held.log)" 'webdataset, 240 training and 40 test images' 'the trainer reads the shards'
is "$(losses held)" "$(losses copy)" 'the losses are those of copy, to the last digit'
is "$(weights held)" "$(weights copy)" 'the weights are those of copy'
crops=(--set train.random_resized_crop=true --set train.image_size=24 --set train.decode_threads=3)
run dtctl train --name copy2 "${small[@]}" "${crops[@]}"
run dtctl train --name small "${small[@]}" "${crops[@]}" "${stream[@]}" \
    --set inputs.data.window=1M --set inputs.data.cache_max=13M
is "$status" 0 'a cache that holds less than the data' || diag "$out$err"
is "$(weights small)" "$(weights copy2)" 'the weights do not depend on it, nor on threads'
run dtctl train --name resum --resume held --set train.epochs=3 "${small[@]}" \
    --set train.epochs=3 --set train.resume=auto
is "$status" 0 'a run with copy resumes one with stream' || diag "$out$err"

run dtctl train --name local "${small[@]}" "${stream[@]}" --set inputs.data.source=set
is "$status" 0 'shards of this computer are streamed, too' || diag "$out$err"
is "$(weights local)" "$(weights copy)" 'the weights are those of copy'

# ---- a part for every node ----------------------------------------------------------------------
mkdir even
for i in 0 1 2 3; do cp packed/train/000000.tar "even/$i.tar"; done
dtctl data index even -q >/dev/null
dtdata put even s3://bucket/even >put.out || bail_out "$(cat put.out)"
sharded=(--set inputs.data.source=s3://bucket/even --set inputs.data.mode=sharded
    --set inputs.data.shard=key --set train.eval=false)
run dtctl train --dry-run "${sharded[@]}" "${stream[@]}"
like "$err" 'node0: 2 files.*0.tar, 1.tar' 'the index is no part of the deal'
like "$err" 'not known: its data is not on this computer.*train.image_size and train.classes' \
    'a dry run says what it needs to foresee the memory'
run dtctl train --dry-run "${small[@]}" "${sharded[@]}" --set train.image_size=32 \
    --set train.classes=10
like "$status $out" '^0 .*parameters' 'with the sizes it does'
run dtctl train --name pcopy "${small[@]}" "${sharded[@]}"
run dtctl train --name part "${small[@]}" "${sharded[@]}" "${stream[@]}"
is "$status" 0 'a sharded input is streamed' || diag "$out$err"
is "$(weights part)" "$(weights pcopy)" 'with the weights of copy'

# ---- what goes wrong ----------------------------------------------------------------------------
refused() { # WHY ARGUMENTS…
    run dtctl train --dry-run "${stream[@]}" "${@:2}"
    is "$status" 2 "refused: ${*:2}"
    like "$err" "$1" "  $1"
}
refused "reads 'train/000000.tar' by the file 'train/shards.dtindex'.*try: dtctl data index" \
    --set 'inputs.data.exclude=train/shards.dtindex'
refused 'webdataset shards .* has none' --set 'inputs.data.include=classes.txt'
refused 'webdataset shards .* has none' --set inputs.data.source=run:copy/output
fails() { # NAME WHY ARGUMENTS…
    run dtctl train --name "$1" --nodes 1 "${small[@]}" "${stream[@]}" "${@:3}"
    ok "$1: the run fails" test "$status" != 0
    like "$out$err" "$2" "  $2"
}
fails once 'train.decode=once .* deliver=copy' --set train.decode=once
# Shards that the index does not describe: of another size, and with another label.
cp -r even odd
cat packed/val/000000.tar >odd/3.tar
dtdata put odd s3://bucket/odd >put.out
fails size "'3.tar' has another size than in the index 'shards.dtindex'" \
    --set inputs.data.source=s3://bucket/odd --set train.eval=false
python3 - <<'END'
data = bytearray(open("even/3.tar", "rb").read())
assert data[:13] == b"000000000.cls"
data[512] = ord("7") if data[512] != ord("7") else ord("8")
open("odd/3.tar", "wb").write(data)
END
dtdata put odd s3://bucket/odd >put.out
fails label "'3.tar' .*is not the one that its index describes" \
    --set inputs.data.source=s3://bucket/odd --set train.eval=false
# An object changes during the run.
head -c 20000000 /dev/urandom >rest.bin
tar -rf even/3.tar rest.bin
dtctl data index even -q >/dev/null
dtdata put even s3://bucket/new >put.out
s3_ask '/-/hold?key=new/3.tar' >/dev/null
dtctl train --name gone --nodes 1 "${small[@]}" "${stream[@]}" --set train.eval=false \
    --set inputs.data.source=s3://bucket/new >gone.log 2>&1 &
gone=$!
ok 'a run has begun' wait_for 60 grep -q 'webdataset' gone.log
dtdata put odd s3://bucket/new >put.out
s3_ask /-/release >/dev/null
wait "$gone"
ok 'a run whose data changes fails' test "$?" != 0
like "$(cat gone.log)" "s3://bucket/new/3.tar.* has changed since it was listed" \
    'the error names the object'
s3_stop
done_testing
