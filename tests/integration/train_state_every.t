#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# state.every: states come as whole generations while the run is active, and stand in for a node
# that is lost with its disk.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions are called by name
source "${0%/*}/../lib.sh"

nodes=.dtctl/default/nodes runs=.dtctl/default/runs
patient=heartbeat=2,silence=30 # a busy machine is no loss; a killed agent is seen at once
# shellcheck disable=SC2012 # plain names
generations() { grep -c "\"state-published\",\"peer\":\"$2\"" "$(newest_run "$1")/events.jsonl"; }
have() { [ "$(generations "$1" "$2")" -ge "$3" ]; } # NAME NODE COUNT
# lose RUN NODE…: the files of the run are gone at once, and the agents and workers end.
lose() {
    local id=$1 node file pids=()
    shift
    for node in "$@"; do
        file=$nodes/$node/runs/$id/status.json
        pids+=("$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$file")")
        mv "$nodes/$node/runs/$id" "$WORK/out/gone-$node-$id"
    done
    kill -KILL "${pids[@]}"
}
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- a node that is lost with its disk ----------------------------------------------------------
cat >work.sh <<'E2'
cd "$DTCTL_STATE_DIR" || exit 1
echo "begins with $(cat a 2>/dev/null)"
[ -z "$SHORT" ] || exit 0
for i in $(seq 1 1000); do
    mkdir -p deep
    echo "$i" >.part && mv .part a
    sleep 0.3
    echo "$i" >.part && mv .part deep/b
    ln -sf deep/b newest
    sleep 2
done
E2
dtctl train --name work --set state.every=1s --rdzv-conf "$patient" --file work.sh \
    -- sh work.sh >"$WORK/out/work.log" 2>&1 &
pid=$!
ok 'two generations of node0 come' wait_for 60 have work node0 2
ok 'two generations of node1 come' wait_for 60 have work node1 2
id=$(newest_id work)
is "$(find $runs/"$id"/published/node1 -mindepth 1 -maxdepth 1 -name '[0-9]*' | wc -l)" 2 \
    'the two newest are kept'
halves=0
for part in "$runs/$id"/published/*/[0-9]*/state; do
    cmp -s "$part/a" "$part/newest" && [ -s "$part/a" ] && [ -L "$part/newest" ] ||
        halves=$((halves + 1))
done
is $halves 0 'every generation is whole'
last=$(cat $runs/"$id"/published/node1/[0-9]*/state/a | sort -n | head -n 1)
lose "$id" node1
wait "$pid"
isnt_zero=$?
is "$((isnt_zero != 0))" 1 'the run fails without the node'
like "$(cat "$WORK/out/work.log")" 'node1: its newest state .* fetched during the run is used' \
    'a note names the state that is used'
state=$runs/$id/output/state/node1
ok "the results have a state of the lost node, not older than $last" \
    test "$(cat "$state/a")" -ge "$last"
ok 'the state is whole' cmp "$state/a" "$state/deep/b"
is "$(ls -d $runs/"$id"/published 2>/dev/null)" '' 'nothing else is kept of it'
run dtctl fetch "$id"
ok 'a later fetch leaves the state as it is' cmp "$state/a" "$state/deep/b"
run dtctl train --name work --env SHORT=1 --file work.sh -- sh work.sh
is "$(grep -c "node1:1\] begins with $(cat "$state/a")\$" <<<"$out")" 1 \
    'the next run gives it back to the node'

# ---- a node that comes back with another disk ---------------------------------------------------
dtctl train --name back --set state.every=1s --rdzv-conf "$patient" --max-restarts 3 \
    --file work.sh -- sh work.sh >"$WORK/out/back.log" 2>&1 &
pid=$!
ok 'a generation of each node comes' wait_for 60 have back node1 1 && wait_for 60 have back node0 1
id=$(newest_id back)
lose "$id" node1
begins() { grep -Eq '^\[node1:.*begins with [0-9]' "$WORK/out/back.log"; }
ok 'the node gets its state back in the run' wait_for 60 begins ||
    diag "$(cat "$WORK/out/back.log")"
run dtctl stop "$id"
wait "$pid"

# ---- a state that is being written --------------------------------------------------------------
dtctl train --name busy --once --set state.every=1s --shell \
    'exec 3>"$DTCTL_STATE_DIR/open"; echo half >&3; sleep 60' >"$WORK/out/busy.log" 2>&1 &
pid=$!
written() { [ -s "$(echo "$nodes"/node0/runs/busy-*/state/open)" ]; }
ok 'a worker has a file open' wait_for 30 written
id=$(newest_id busy)
snapshot() { dtrun --node snapshot --root "$PWD/$nodes/node0" --run "$id" "$@"; }
run snapshot
like "$status $out" "^0 .*\"new\":true,\"whole\":false,\"reason\":\"'open' is being written\"" \
    'a state with a file that is open for writing is not whole'
is "$(generations busy node0)" 0 'a state that is not whole is not published'
run dtctl stop "$id"
wait "$pid"
run snapshot
like "$status $out" '^0 .*"new":true,"whole":true' 'the state is whole once the file is closed'
digest=$(sed -n 's/.*"digest":"\([0-9a-f]*\)".*/\1/p' <<<"$out")
run snapshot --known "$digest"
like "$status $out" '^0 .*"new":false' 'the same state is no new generation'
state=$nodes/node0/runs/$id/state
truncate -s 2M "$state/.part" && mv "$state/.part" "$state/large"
run snapshot
digest=$(sed -n 's/.*"digest":"\([0-9a-f]*\)".*/\1/p' <<<"$out")
echo more >>"$state/open"
run snapshot --again --known "$digest"
like "$status $out" '^0 .*"whole":true' 'a line that is appended to a small file later does no harm'
run snapshot
echo more >>"$state/large"
run snapshot --again --known "$digest"
like "$status $out" '^0 .*"whole":false,"reason":"a finished file was written again"' \
    'a snapshot whose large file is written again is not whole'
for i in 1 2 3 4 5 6; do
    echo "$i" >"$state/.part" && mv "$state/.part" "$state/step" && sleep 0.3
done &
run snapshot
like "$status $out" '^0 .*"whole":true' 'a pause between changes is waited for'
wait $!
run snapshot --again --known none
ok 'the snapshot is removed' test ! -e "$nodes/node0/runs/$id/snapshot"

# ---- logs in the state --------------------------------------------------------------------------
# One log stays open, one is opened for each line; neither ever rests.
cat >logs.sh <<'E2'
cd "$DTCTL_STATE_DIR" || exit 1
echo 0 >step
exec 3>>kept-open.log
for i in $(seq 1 2000); do
    echo "line $i" >&3
    echo "line $i" >>opened.log
    if [ $((i % 50)) = 0 ]; then echo "$i" >.part && mv .part step; fi
    sleep 0.05
done
E2
dtctl train --name logs --once --set state.every=1s --file logs.sh -- sh logs.sh \
    >"$WORK/out/logs.log" 2>&1 &
pid=$!
ok 'generations of a state with logs come' wait_for 60 have logs node0 2 ||
    diag "$(cat "$WORK/out/logs.log")"
id=$(newest_id logs)
torn=0
for part in "$runs/$id"/published/node0/[0-9]*/state; do
    for log in kept-open opened; do
        last=$(tail -n 1 "$part/$log.log")
        [ "$last" = "line $(wc -l <"$part/$log.log")" ] || torn=$((torn + 1))
    done
    [ "${last#line }" -ge "$(cat "$part/step")" ] || torn=$((torn + 1))
done
is $torn 0 'each has the beginning of the logs, in whole lines, not older than the rest'
run dtctl stop "$id"
wait "$pid"

# ---- the native trainer -------------------------------------------------------------------------
native() {
    dtctl train --name net --set state.every=1s --set train.model=mlp --set train.dataset=shapes \
        --set train.train_size=2048 --set train.test_size=16 --set train.batch=1 \
        --set train.threads=1 --set train.print_every=1000 --rdzv-conf "$patient" "$@"
}
native --set train.epochs=1000 >"$WORK/out/net.log" 2>&1 &
pid=$!
ok 'a generation of the trainer comes' wait_for 90 have net node0 1
is "$(generations net node1)" 0 'one node is enough'
id=$(newest_id net)
lose "$id" node0 node1
wait "$pid"
run native --set train.epochs=1000 --dry-run
like "$err" "resumes +$id at epoch" 'the next run resumes from it' ||
    diag "$(tail "$WORK/out/net.log")"
run dtctl down -y --force
is "$status" 0 'down removes the nodes'
done_testing
