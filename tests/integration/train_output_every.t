#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# outputs.every: files that the nodes have finished come while the run is active; the end brings
# the rest, and the results are those of a run without it.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions are called by name
source "${0%/*}/../lib.sh"

nodes=.dtctl/default/nodes runs=.dtctl/default/runs
patient=heartbeat=2,silence=30 # a busy machine is no loss; a killed agent is seen at once
# shellcheck disable=SC2012 # plain names
live() { echo "$(newest_run "$1")/live/$2"; }   # NAME NODE
here() { [ -e "$(live "$1" "$2")/$3" ]; }   # NAME NODE FILE
holds() { [ "$(cat "$(live "$1" "$2")/$3" 2>/dev/null)" = "$4" ]; }
# came RUN: bytes of output that came while the run went on.
came() {
    sed -n 's/.*"output-published".*"bytes":"\([0-9]*\)".*/\1/p' "$runs/$1/events.jsonl" |
        awk '{ n += $1 } END { print n + 0 }'
}
fetched() { sed -n 's/^fetch_bytes = //p' "$runs/$1/run.toml"; }
tree() { (cd "$1" && find . -type f ! -name .dtctl-run -print0 | sort -z | xargs -0 sha256sum); }
go() { touch "$WORK/go"; }
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- files as they are finished -----------------------------------------------------------------
cat >work.sh <<'E2'
cd "$DTCTL_OUTPUT_DIR" || exit 1
mkdir -p sub
yes "$RANK" | head -c 2000000 >"sub/big-$RANK"
echo "of $RANK" >same
echo equal >equal
echo first >changes
echo old >"name "
echo x >temp
exec 5>open
echo half >&5
until [ -e "$GO" ]; do sleep 0.2; done
rm temp
echo second >changes
exec 5>&-
echo last >late
echo m >"$DTCTL_MODEL_DIR/weights"
sleep "${LINGER:-0}"
E2
start() { # NAME [FLAG…]
    local name=$1
    shift
    rm -f "$WORK/go"
    dtctl train --name "$name" --rdzv-conf "$patient" --env "GO=$WORK/go" --file work.sh "$@" \
        -- sh work.sh >"$WORK/out/$name.log" 2>&1 &
    pid=$!
}
go
run dtctl train --name plain --env "GO=$WORK/go" --file work.sh -- sh work.sh
is "$status" 0 'a run without outputs.every'
start each --set outputs.every=1s
for node in node0 node1; do
    ok "a finished file of $node comes" wait_for 60 here each $node "output/sub/big-${node#node}"
    ok "$node: also one that is removed later" wait_for 60 here each $node output/temp
done
ok 'a file with the name of one of another node stays apart' holds each node1 output/same 'of 1'
id=$(newest_id each)
ok 'a file that is open for writing does not come' test ! -e "$(live each node0)/output/open"
run dtctl path --live each
is "$status $out" "0 $PWD/$runs/$id/live" 'path --live prints where they are'
run dtctl path --live --s3 each
is "$status" 2 'path takes one of --live and --s3'
go
wait "$pid"
is $? 0 'the run ends well'
is "$(tree "$runs/$id/output")" "$(tree "$(newest_run plain)/output")" \
    'the results are those of a run without outputs.every'
is "$(ls -d $runs/"$id"/{live,incoming} 2>/dev/null)" '' 'nothing else is left'
ok 'the end brings only the rest' test "$(fetched "$id")" -lt 100000
ok 'no file came twice' test "$(came "$id")" -lt 4100000
run dtctl path --live "$id"
like "$status $err" "^1 .*is over, and its results are in" 'path --live of a run that is over'
run dtctl path --live plain
like "$status $err" "^1 .*without outputs.every" 'path --live of a run without it'

# ---- what changes while the run is active -------------------------------------------------------
start changes --set outputs.every=1s --env LINGER=60
ok 'the first content comes' wait_for 60 holds changes node0 output/changes first
go
ok 'a file that is written again comes again' wait_for 60 holds changes node0 output/changes second
ok 'a file comes once it is closed' wait_for 60 holds changes node0 output/open half
ok 'a file of the model comes' wait_for 60 holds changes node1 model/weights m
gone() { ! here changes node0 output/temp; }
ok 'a file that is removed goes' wait_for 60 gone
run dtctl stop "$(newest_id changes)"
wait "$pid"

# ---- a dtctl that is killed, and another one ----------------------------------------------------
start killed --set outputs.every=1s --env LINGER=4
ok 'a file comes to the first dtctl' wait_for 60 here killed node1 output/sub/big-1
ok 'a file of the other node comes, too' wait_for 60 here killed node0 output/sub/big-0
kill -KILL "$pid"
wait "$pid" 2>/dev/null
id=$(newest_id killed)
run dtctl fetch "$id"
like "$status $err" "^0 .*still going.*files that came in .*$id/live" \
    'fetch of a run that goes on says where they are'
dtctl logs -f "$id" >"$WORK/out/again.log" 2>&1 &
pid=$!
dtctl logs -f "$id" >"$WORK/out/second.log" 2>&1 &
second=$!
go
ok 'the interval counts for a later dtctl, too' wait_for 60 here killed node1 output/late
wait "$pid" "$second"
is "$(tree "$runs/$id/output")" "$(tree "$(newest_run plain)/output")" 'the results are the same'
ok 'nothing came twice' test $(($(came "$id") + $(fetched "$id"))) -lt 4200000 ||
    diag "$(grep published "$runs/$id/events.jsonl")"

# ---- a node that is lost with its disk ----------------------------------------------------------
lose() { # RUN NODE: the files of the run are gone at once, and the agent and workers end
    local file=$nodes/$2/runs/$1/status.json lost
    lost=$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$file")
    mv "$nodes/$2/runs/$1" "$WORK/out/gone-$2-$1"
    kill -KILL "$lost"
}
start lost --set outputs.every=1s
ok 'a file of the node comes' wait_for 60 here lost node1 output/sub/big-1
ok 'a file of the other node comes' wait_for 60 here lost node0 output/sub/big-0
id=$(newest_id lost)
lose "$id" node1
wait "$pid"
like "$(cat "$WORK/out/lost.log")" 'node1: its files that were fetched during the run are used' \
    'a note says which files are used'
is "$(tree "$runs/$id/output" | grep -c "  ./sub/big-1\|  ./node1/same")" 2 \
    'the files of the lost node are in the results' || diag "$(find "$runs/$id")"
run dtctl fetch "$id"
is "$(tree "$runs/$id/output" | grep -c "  ./sub/big-1\|  ./node1/same")" 2 \
    'a later fetch leaves them there'

# ---- a node that comes back with another disk ---------------------------------------------------
cat >back.sh <<'E2'
cd "$DTCTL_OUTPUT_DIR" || exit 1
echo here >"disk-$(ls "$WORK_DIR" | wc -l)-$RANK"
until [ -e "$GO" ]; do sleep 0.2; done
E2
rm -f "$WORK/go"
mkdir -p "$WORK/count"
dtctl train --name back --set outputs.every=1s --rdzv-conf "$patient" --max-restarts 3 \
    --env "GO=$WORK/go" --env "WORK_DIR=$WORK/count" --file back.sh -- sh back.sh \
    >"$WORK/out/back.log" 2>&1 &
pid=$!
ok 'a file of the first disk comes' wait_for 60 here back node1 output/disk-0-1
id=$(newest_id back)
touch "$WORK/count/one"
lose "$id" node1
ok 'a file of the second disk comes' wait_for 60 here back node1 output/disk-1-1
ok 'the file of the first disk stays' here back node1 output/disk-0-1
sleep 2.5 # two more intervals
ok 'the file stays at later intervals' here back node1 output/disk-0-1
go
wait "$pid"
is "$? $(find "$runs/$id/output" -name 'disk-[01]-1' | wc -l)" '0 2' 'both are in the results' ||
    diag "$(cat "$WORK/out/back.log")"

# ---- rank0, kinds, and what is refused ----------------------------------------------------------
start rank0 --set outputs.every=1s --merge rank0
ok 'with rank0 the files of rank 0 come' wait_for 60 here rank0 node0 output/sub/big-0
sleep 2.5 # two more intervals
ok 'no file of the other node comes' test ! -e "$(live rank0 node1)"
go
wait "$pid"
ok 'the results are those of rank 0' cmp -s "$(newest_run rank0)/output/same" - <<<'of 0'
start logs --set outputs.every=1s --fetch logs,state --env LINGER=2
sleep 3
ok 'kinds that stay on the nodes do not come' test ! -e "$(newest_run logs)/live"
go
wait "$pid"
for value in 0s soon 2d; do
    run dtctl train --set outputs.every=$value -- true
    is "$status" 2 "outputs.every = $value is refused"
done
run dtctl down -y --force
is "$status" 0 'down removes the nodes'
done_testing
