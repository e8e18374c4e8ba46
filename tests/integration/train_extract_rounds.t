#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# deliver = extract in a run whose nodes come and go: each round deals the archives anew, and a node
# unpacks its share before its workers start, once for each share.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by name; plain names
source "${0%/*}/../lib.sh"

WAIT=60 # seconds for anything that takes a few on an idle machine
cat >work.sh <<'END'
# Each rank writes the members that it has, and the archives of its list.
out=$DTCTL_OUTPUT_DIR/round-$DTCTL_ROUND.$DTCTL_SHARD_INDEX-of-$DTCTL_SHARD_COUNT
(cd "$DTCTL_INPUT_SET" && find . -type f | sort | xargs sha256sum) >.part
sed -n 's/.*"path":"\([^"]*\)".*/list \1/p' "$DTCTL_INPUT_SET_LIST" >>.part
mv .part "$out"
trap 'exit 0' TERM
while [ ! -e "$1" ]; do sleep 0.1; done
END
mkdir -p set/a m
for i in 1 2 3 4 5 6; do
    head -c $((i * 100000)) /dev/urandom >"m/m$i"
    tar -C m -cf "set/a/p$i.tar" "m$i"
    (cd m && sha256sum "m$i" | sed 's,  m,  ./a/m,') >>all
done
zstd -q --rm set/a/p2.tar
archives=$(cd set && find . -type f | sed 's,^\./,list ,' | sort)

id=
folder() { echo ".dtctl/default/nodes/node$1/runs/$id"; } # NODE
agent() { grep -o '"pid":[0-9]*' "$(folder "$1")/status.json" | head -n 1 | cut -d: -f2; } # NODE
parts() { cat .dtctl/default/nodes/node*/runs/"$id/output/round-$1".*-of-"$2"; }           # ROUND N
members() { parts "$@" | grep -v '^list' | sort -k 2; }
begun() { # ROUND N: all of its ranks have written their shares
    [ "$(ls .dtctl/default/nodes/node*/runs/"$id/output/round-$1".*-of-"$2" 2>/dev/null |
        wc -l)" = "$2" ]
}
kept() { # ROUND NODE…: they have the copies that they are to keep
    local round=$1 node
    shift
    for node in "$@"; do
        grep -q "\"kind\":\"input-kept\",\"round\":$round," "$(folder "$node")/events.jsonl" ||
            return 1
    done
}
finished() { grep -q '"state":"finished"' "$(folder "$1")/status.json"; } # NODE
trees() { compgen -G ".dtctl/default/nodes/*/inputs/set-*-of$1.*-extracted"; } # N
begin() { # NAME ARGUMENT…
    rm -f enough
    run dtctl train --name "$1" --detach --nodes 2:3 --file work.sh --input set=set:sharded \
        --set inputs.set.deliver=extract --set inputs.set.shard=count "${@:2}" \
        -- sh work.sh "$WORK/enough"
    id=$(basename "$(ls -d .dtctl/default/runs/"$1"-* -t 2>/dev/null | head -n 1)")
}

run dtctl up --nodes 3
is "$status" 0 'three nodes are up' || diag "$err"
begin wave
is "$status" 0 'a run on three nodes' || diag "$err"
ok 'the run begins' wait_for $WAIT begun 0 3
is "$(members 0 3)" "$(cat all)" 'three nodes have every member once between them, and no archive'
is "$(parts 0 3 | grep '^list' | sort)" "$archives" 'the lists of the shares have the archives'
ok 'the copies are made' wait_for $WAIT kept 0 0 1 2
mapfile -t before < <(trees 3)
is "${#before[@]}" 3 'each node has one tree'
made=$(stat -c '%n %i %Z' "${before[@]}")
gone=$(agent 1)
kill -STOP "$gone"
ok 'a node falls silent, and two go on' wait_for $WAIT begun 1 2
is "$(members 1 2)" "$(cat all)" 'two nodes have every member once between them'
kill -CONT "$gone"
ok 'the node is back, and three go on' wait_for $WAIT begun 2 3
is "$(members 2 3)" "$(cat all)" 'three nodes have every member once again'
is "$(stat -c '%n %i %Z' "${before[@]}")" "$made" 'a share that was unpacked is not unpacked again'
touch enough
ok 'the run ends' wait_for $WAIT finished 0
run dtctl data ls
like "$out" 'set +node0 .*set-[0-9a-f]{16}-of3\.0-extracted' 'data ls has the tree of a share'

# ---- killed while it unpacks --------------------------------------------------------------------
run dtctl data rm -y set
is "$status $(trees '*')" '0 ' 'data rm removes the trees, too'
python3 - <<'END'
import tarfile
for k in range(3):
    with tarfile.open(f"set/a/many{k}.tar", "w") as t:
        for i in range(30000):
            t.addfile(tarfile.TarInfo(f"k{k}/{i}"))
END
dtctl train --name cut --nodes 2:3 --max-restarts 3 --input set=set:sharded \
    --set inputs.set.deliver=extract --set inputs.set.shard=count \
    --shell 'echo "has $(find "$DTCTL_INPUT_SET" -path "*/k?/*" | wc -l)"' >cut.log 2>&1 &
pid=$!
lock() { ls -t .dtctl/default/nodes/node1/tmp/set-*-of3.1-extracted.lock | head -n 1; }
begins() { compgen -G '.dtctl/default/nodes/node1/inputs/set-*-extracted.dtctl-new-*/a/k?'; }
ok 'a share is being unpacked' wait_for $WAIT begins
kill -KILL "$(sed 's/^pid \([0-9]*\):.*/\1/' "$(lock)")"
wait "$pid"
like "$? $(cat cut.log)" '^0 .*the process that fetches the files of inputs was killed' \
    'the next round unpacks again'
is "$(grep -o 'has [0-9]*' cut.log | awk '{ n += $2 } END { print n }')" 90000 \
    'the nodes have all members' || diag "$(cat cut.log)"
is "$(compgen -G '.dtctl/default/nodes/*/inputs/*.dtctl-new-*')" '' \
    'nothing of the killed one is left'

# ---- refused ------------------------------------------------------------------------------------
rm set/a/many*.tar
for i in 1 2 3 4 5 6; do tar -C m -cf "set/a/p$i.tar" m1; done
run dtctl train --nodes 2:3 --input set=set:sharded --set inputs.set.deliver=extract --shell true
like "$status $out" "^1 .*node[0-9].*'set': archive 'a/p[0-9].tar': member 'm1' is in 'a/p" \
    'two archives of a share with one member end the run'
done_testing
