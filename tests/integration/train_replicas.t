#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# state.replicas: the nodes copy whole generations of their states to each other. A spare takes over
# the state of a host that is gone with its disk, in a detached run; a node that comes
# back without a disk has its own state again.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by name; plain names
source "${0%/*}/../lib.sh"
hosts_up 3

WAIT=60 # seconds for anything that takes a few on an idle machine
hosts_config
cat >work.sh <<'END'
cd "$DTCTL_STATE_DIR" || exit 1
i=$(cat a 2>/dev/null)
cmp -s a deep/b && whole=whole
echo "begins with ${i:-nothing} $whole"
mkdir -p deep
while :; do
    i=$((i + 1))
    echo "$i" >.part && mv .part a
    echo "$i" >.part && mv .part deep/b
    ln -sf deep/b newest
    sleep 2
done
END
folder() { echo "node$1/root/.dtctl/nodes/node$1/runs/$id"; } # NODE
copies() { # OWNER: the figures of its copies on all nodes, newest last
    cat "$WORK"/node*/root/.dtctl/nodes/*/runs/"$id/copies/node$1"/[0-9]*/state/a 2>/dev/null |
        sort -n
}
copied() { [ "$(copies "$1" | tail -n 1)" -ge "${2:-1}" ] 2>/dev/null; } # OWNER LEAST
halves() { # copies and generations on all nodes that are not whole
    local part count=0
    for part in node*/root/.dtctl/nodes/*/runs/*/{copies/*,generations}/[0-9]*; do
        [ -e "$part" ] || continue
        [ -s "$part/list" ] && [ -L "$part/state/newest" ] &&
            cmp -s "$part/state/a" "$part/state/deep/b" || count=$((count + 1))
    done
    echo $count
}
begins() { # NODE: what its newest worker says
    cat "$(ls -d "$(folder "$1")"/attempt_*/0/stdout.log 2>/dev/null | sort -V | tail -n 1)"
}
began() { # NODE TIMES
    [ "$(grep -lc . "$(folder "$1")"/attempt_*/0/stdout.log | wc -l)" -ge "$2" ]
}
kept() { find "$(folder 1)/copies/node$1" -maxdepth 1 -name '[0-9]*' | wc -l; } # NODE: on node1
two_are_kept() { [ "$(kept "$1")" = 2 ]; }
none_runs() { [ -z "$(host_processes 1 'dtrun-')$(host_processes "$spare" 'dtrun-')" ]; }
run dtctl up
is "$status" 0 'three hosts are up' || diag "$err"

# ---- a plan -------------------------------------------------------------------------------------
run dtctl train --nodes 2 --set state.replicas=1 --dry-run -- true
like "$status $err" '^2 .*state.replicas: states are copied every state.every, which is 0' \
    'copies without an interval are refused'

# ---- a host and its disk are gone, detached -----------------------------------------------------
run dtctl train --name work --detach --nodes 2 --spares 1 --max-restarts 3 \
    --set state.every=1s --file work.sh -- sh work.sh
is "$status" 0 'a run on two hosts with a spare begins' || diag "$err"
id=$(basename "$(ls -d .dtctl/default/runs/work-*)")
ok 'another host has a copy of the state of node1' wait_for $WAIT copied 1 2
lost=2 spare=3 # whichever came first
[ ! -e "$(folder 3)/attempt_0" ] || lost=3 spare=2
ok "node1 has a copy of the state of node$lost" wait_for $WAIT copied $lost 2
ok "node1 keeps two generations of node$lost" wait_for $WAIT two_are_kept $lost
is "$(ls -d "$(folder $spare)"/copies/* 2>/dev/null)" '' 'the spare holds nothing'
newest=$(copies $lost | tail -n 1)
link_down $lost
host_processes $lost 'dtrun-' | xargs kill -KILL
rm -rf node$lost/root/.dtctl
ok 'the spare takes the place' wait_for $WAIT began $spare 1
like "$(begins $spare)" 'begins with [0-9]+ whole' 'workers of the spare begin with a whole state'
figure=$(begins $spare | sed 's/.*with \([0-9]*\).*/\1/')
is "$((figure >= newest))" 1 "the state is not older than the newest copy ($figure, $newest)"
like "$(cat "$(folder $spare)/events.jsonl")" \
    '"kind":"state-restored","peer":"node1","number":[0-9]+,"bytes":[0-9]+,"of":"node[23]"' \
    'the event names the holder and the node whose state it was'
ok 'the other node begins, too' wait_for $WAIT began 1 2
like "$(begins 1)" 'begins with [0-9]+ whole' 'the other node has its own state'
ok 'the copies are placed anew' wait_for $WAIT copied $spare $((figure + 2))
ok 'both nodes hold copies' wait_for $WAIT test -e "$(folder $spare)/copies/node1"
is "$(halves)" 0 'every copy and every generation is whole'
is "$(kept $lost)" 2 'node1 still keeps two generations of the lost node'
run dtctl stop "$id"
ok 'nothing is left running' wait_for 5 none_runs
run dtctl fetch "$id"
like "$err" "node$lost: its newest state" 'fetch takes the state of the lost host from its copy'
part=$(find .dtctl/default/runs/"$id" -path "*state/node$lost/a")
ok 'the state of the lost host is among the results' test "$(cat "$part")" -ge "$newest"
is "$(ls -d .dtctl/default/runs/"$id"/copies 2>/dev/null)" '' 'fetch leaves nothing else'
link_up $lost
ok 'the host is there again' wait_for $WAIT host_answers $lost
run dtctl up
is "$status" 0 'the host is up with an empty disk' || diag "$err"

# ---- a node comes back without a disk -----------------------------------------------------------
dtctl train --name back --nodes 2 --max-restarts 3 --set state.every=1s --set state.replicas=1 \
    --file work.sh -- sh work.sh >"$WORK/out/back.log" 2>&1 &
operator=$!
back() { ls -d .dtctl/default/runs/back-* >/dev/null 2>&1; }
ok 'another run begins' wait_for $WAIT back
id=$(basename "$(ls -d .dtctl/default/runs/back-*)")
ok 'the state of node2 is copied' wait_for $WAIT copied 2 2
ok 'another generation is copied' wait_for $WAIT copied 2 4
agent=$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$(folder 2)/status.json")
newest=$(copies 2 | tail -n 1)
on 2 sh -c "mv /root/.dtctl/nodes/node2/runs/$id /root/gone; kill -KILL $agent"
ok 'the node is back' wait_for $WAIT began 2 1 || diag "$(cat "$WORK/out/back.log")"
figure=$(begins 2 | sed 's/.*with \([0-9]*\).*/\1/')
like "$(begins 2)" 'begins with [0-9]+ whole' 'workers of node2 begin with a whole state'
is "$((figure >= newest))" 1 "the state of node2 is not older than the copy ($figure, $newest)"
run dtctl stop "$id"
wait "$operator"

# ---- the keeper is killed -----------------------------------------------------------------------
run dtctl train --name kept --detach --nodes 2 --set state.every=1s --file work.sh -- sh work.sh
id=$(basename "$(ls -d .dtctl/default/runs/kept-*)")
ok 'copies are made again' wait_for $WAIT copied 1 2
keeper() { on 1 pgrep -xo dtrun-keeper; }
first=$(keeper)
on 1 kill -KILL "$first"
another() { [ -n "$(keeper)" ] && [ "$(keeper)" != "$first" ]; }
ok 'another keeper is started' wait_for $WAIT another
ok 'copies go on' wait_for $WAIT copied 1 $(($(copies 1 | tail -n 1) + 2))
run dtctl ps
like "$out" 'running' 'the run has gone on'
run dtctl stop "$id"
run dtctl down -y --force
is "$status" 0 'down removes the nodes'
done_testing
