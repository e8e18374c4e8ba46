#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = stream of files of this computer, and of results of an earlier run: the dtctl that
# follows the run serves them.
# shellcheck disable=SC2016,SC2317 # workers expand their variables; functions are called by name
source "${0%/*}/../lib.sh"

# Deep enough for paths of sockets that the kernel does not take.
mkdir -p "$WORK/a folder with a long name/job/set/sub"
cd "$WORK/a folder with a long name/job" || exit 1
for i in 0 1 2 3 4 5; do head -c $((i * 3000000 + 17)) /dev/urandom >"set/part-$i.tar"; done
echo x >'set/sub/a b+c'
: >set/empty
events() { cat .dtctl/default/nodes/*/runs/"$(newest_id "$1")"/events.jsonl; }
sums() { (cd "$1" && find . -type f -print0 | xargs -0 sha256sum | sed 's|\./||' | sort -k 2); }
stored() { find .dtctl/default/nodes/"$1"/cas -type f -size +1M -printf '%s\n' | wc -l; }

cp "$SRC/tests/tools/read_stream.py" read.py
# Before its third file each rank waits: what is read next has not come, if the window is small.
waits="touch '$WORK/half-'\$RANK; until [ -e '$WORK/go' ]; do sleep 0.1; done"
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >dtctl.toml <<'END'
[inputs.set]
source = "set"
deliver = "stream"
[train]
files = ["read.py"]
END

# ---- reading begins before all is there ---------------------------------------------------------
run dtctl train --dry-run -- python3 read.py
like "$err" 'input    set: 8 files, .*all to every node, streamed' \
    'the plan says that it is streamed'
dtctl train --name half --nproc-per-node 1 --set inputs.set.window=1M -- \
    python3 read.py 2 "$waits" \
    >half.log 2>&1 &
pid=$!
half() { [ -e "$WORK/half-0" ] && [ -e "$WORK/half-1" ]; }
ok 'ranks have read the first files' wait_for 15 half
ok 'the last file is not on a node yet' test "$(stored node0)" -lt 5
touch "$WORK/go"
wait "$pid"
is $? 0 'the run ends well' || diag "$(cat half.log)"
for rank in 0 1; do
    is "$(sort -k 2 "$(newest_run half)/output/$rank")" "$(sums set)" \
        "rank $rank has read every byte"
done
is "$(events half | grep -c '"what":"whole"')" 2 'each node says when all was there'
is "$(find .dtctl -name '*.sock')" '' 'the servers have ended with the run'
run dtctl train --name shard --nproc-per-node 1 --set inputs.set.mode=sharded \
    --set inputs.set.shard=key \
    --env "NAMES=$(cd set && find . -type f | sed 's|./||' | LC_ALL=C sort | paste -sd:)" \
    -- python3 read.py
is "$status" 0 'a sharded input is streamed'
is "$(cat "$(newest_run shard)"/output/[01] | sort -k 2)" "$(sums set)" 'each file is on one node'
is "$(events shard | grep '"what":"first"' | grep -c '"bytes":0')" 2 \
    'content that is in the store is not sent again'
run dtctl train --name one --once --set inputs.set.source=set/part-1.tar -- python3 read.py
is "$status" 0 'one file is streamed'
is "$(sed 's/ .*//' "$(newest_run one)/output/0")" "$(sha256sum <set/part-1.tar | sed 's/ .*//')" \
    'the rank has read the bytes of the file'

# ---- results of an earlier run ------------------------------------------------------------------
run dtctl train --name make --once --shell \
    'head -c 3000000 /dev/urandom >"$DTCTL_OUTPUT_DIR/made"'
run dtctl train --name take --nproc-per-node 1 --set inputs.set.source=run:make/output -- \
    python3 read.py
is "$status" 0 'results of a run are streamed' || diag "$err"
is "$(sed 's/ .*//' "$(newest_run take)/output/1")" \
    "$(sha256sum <"$(newest_run make)/output/made" | sed 's/ .*//')" \
    'the rank has read the bytes of the run'

# ---- a dtctl that is killed, and another one ----------------------------------------------------
for i in 0 1 2 3 4 5; do head -c $((i * 3000000 + 17)) /dev/urandom >"set/part-$i.tar"; done
rm -f "$WORK/go" "$WORK"/half-*
dtctl train --name killed --nproc-per-node 1 --set inputs.set.window=1M -- \
    python3 read.py 2 "$waits" >killed.log 2>&1 &
pid=$!
ok 'ranks read the first files' wait_for 15 half
kill -KILL "$pid"
wait "$pid" 2>/dev/null
touch "$WORK/go"
sleep 1
is "$(events killed | grep -c '"what":"whole"')" 0 'without dtctl the rest does not come'
# A node whose program asks for a file of a number that no input has.
id=$(newest_id killed)
for program in .dtctl/default/nodes/node0/bin/dtdata-*; do mv "$program" program; done
printf '#!/bin/sh\nhead -c 28 /dev/zero | tr "\\\\0" "\\\\377"\nexec sleep 60\n' >"$program"
chmod 755 "$program"
dtctl logs -f "$id" >hostile.log 2>&1 &
pid=$!
warned() { grep -q 'a node asks for what no streamed input has.*node=node0' hostile.log; }
ok 'a node that asks for what there is not is named' wait_for 30 warned
ok 'dtctl follows the run all the same' kill -HUP "$pid"
wait "$pid"
mv program "$program"
run dtctl logs -f "$id"
is "$status" 0 'a later dtctl serves the rest'
is "$(sort -k 2 "$(newest_run killed)/output/1")" "$(sums set)" 'the rank has read every byte'

# ---- a file that changes ------------------------------------------------------------------------
cat >change.py <<'END'
import os, sys, time, urllib.error, urllib.request
open(sys.argv[1] + "/half-0", "w").close()
while not os.path.exists(sys.argv[1] + "/go"):
    time.sleep(0.1)
url = open(os.environ["DTCTL_INPUT_SET_URLS"]).read().split()[-2]
try:
    urllib.request.urlopen(url).read()
except urllib.error.HTTPError as e:
    sys.exit(f"{e.code}: {e.read().decode()}")
END
changes() { # NAME COMMAND…: the command runs when the run has begun
    rm -f "$WORK/go" "$WORK"/half-*
    for i in 0 1 2 3 4 5; do head -c 2000000 /dev/urandom >"set/part-$i.tar"; done
    dtctl train --name "$1" --once --set inputs.set.window=1M --file change.py -- \
        python3 change.py "$WORK" >"$1.log" 2>&1 &
    pid=$!
    ok 'a rank is there' wait_for 15 test -e "$WORK/half-0"
    "${@:2}"
    touch "$WORK/go"
    wait "$pid"
    ok 'the rank that cannot read fails' test $? != 0
}
changes other touch set/part-5.tar
like "$(cat other.log)" \
    "409: 'part-5.tar': '.*/set/part-5.tar' on the operator's computer has changed since it" \
    'a file that has changed is refused by name'
like "$(cat other.log)" "node0: 'part-5.tar': .* has changed since it was listed" \
    'dtctl shows it, too'
changes gone rm set/part-5.tar
like "$(cat gone.log)" "part-5.tar' on the operator's computer is not there any more" \
    'a file that is gone is named'

# ---- what is refused ----------------------------------------------------------------------------
refused() { # WHY ARGUMENTS…
    run dtctl train --dry-run "${@:2}" -- true
    is "$status" 2 "refused: ${*:2}"
    like "$err" "$1" "  $1"
}
refused 'serves the files of this computer while it follows the run.*without --detach' --detach
refused 'unit = sample makes archives' --set inputs.set.unit=sample --set inputs.set.mode=sharded
ln -s empty set/link
refused "'link' is a symbolic link" --name link
run dtctl train --dry-run --set train.data=set
like "$err" "by the file 'shards.dtindex'|is a symbolic link" 'the native trainer needs an index'

# ---- a node that asks for what it must not have -------------------------------------------------
# The program on the node is replaced: it asks for a file of a number that no input has.
rm set/link
for i in 4 5; do head -c 2000000 /dev/urandom >"set/part-$i.tar"; done
rm -f "$WORK/go" "$WORK"/half-*
dtctl train --name hostile --once --set inputs.set.window=1M --file change.py -- \
    python3 change.py "$WORK" >hostile.log 2>&1 &
pid=$!
ok 'a rank is there' wait_for 15 test -e "$WORK/half-0"
id=$(newest_id hostile)
python3 - ".dtctl/default/nodes/node0/runs/$id/source.sock" <<'END'
import socket, struct, sys, os
os.chdir(os.path.dirname(sys.argv[1]))
s = socket.socket(socket.AF_UNIX)
s.connect("source.sock")  # takes the place of dtctl's connection, and answers with what is none
s.sendall(struct.pack("<BII", 1, 3, 1 << 30))
assert s.recv(64) is not None
END
is "$?" 0 'another process of the node connects'
touch "$WORK/go"
wait "$pid"
is $? 0 'the server drops it, and dtctl serves on' || diag "$(cat hostile.log)"
run dtctl down -y --force
done_testing
