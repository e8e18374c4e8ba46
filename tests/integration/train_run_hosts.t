#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run on real SSH servers: push, train, logs, stop, fetch, down; SSH dropped in mid-run, operator
# gone in mid-run, a worker killed, a busy port, a node that goes away.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by ok; plain names
source "${0%/*}/../lib.sh"
hosts_up 2

on_all() {
    local i
    for i in 1 2; do on "$i" "$@"; done
}
none_left() { ! pgrep -f "dtrun-[0-9a-f]* --node start" >/dev/null; }
has() { grep -q "$2" "$1"; }

hosts_config
run dtctl up
is "$status" 0 'up succeeds'

# ---- push and fetch -----------------------------------------------------------------------------
mkdir -p tree/sub tree/.git
for i in $(seq 1 200); do echo "$i" >"tree/sub/$i"; done
head -c 3000000 /dev/urandom >tree/big
ln -s big tree/link
echo secret >tree/.git/config
run dtctl push tree --to /tmp/put
is "$status" 0 'push succeeds'
is "$(on 2 sh -c 'cd /tmp/put/tree && find . -type f | wc -l')" 201 \
    'everything but .git has arrived'
is "$(on 1 cksum </dev/null /tmp/put/tree/big | cut -d' ' -f1,2)" \
    "$(cksum <tree/big | cut -d' ' -f1,2)" 'the files have the right content'
run dtctl push tree --to /tmp/put --json
like "$out" '"bytes_sent":0,' 'pushed again nothing travels'
head -c 200000000 /dev/urandom >large
dtctl push large --to /tmp/put >push.out 2>push.err &
pid=$!
wait_for 20 on 1 sh -c 'test "$(du -sm /root/.dtctl | cut -f1)" -gt 20'
ssh_cut 1
wait $pid
is "$?" 0 'a connection that is cut in mid-push is made again'
like "$(cat push.err)" 'connection was lost; trying again.*node1' 'the new connection is reported'
is "$(on 1 cksum /tmp/put/large | cut -d' ' -f1,2)" "$(cksum <large | cut -d' ' -f1,2)" \
    'the file arrives complete'
rm large
on 2 sh -c 'echo other >/tmp/put/tree/sub/1'
run dtctl fetch --path /tmp/put/tree --to got
is "$status" 0 'fetch of a path succeeds'
ok 'the fetched files are equal' diff -r --exclude=.git tree got/node1/tree
run dtctl fetch --path /tmp/put/tree --to got2 --merge
is "$status" 1 'files that contradict each other are an error'
like "$err" 'sub/1' 'the error names the file'

# ---- train --------------------------------------------------------------------------------------
run dtctl train --name hello -- sh -c 'echo "$RANK of $WORLD_SIZE, master $MASTER_ADDR"
    hostname >$DTCTL_OUTPUT_DIR/$RANK'
is "$status" 0 'train'
like "$out" '\[node2:1\] 1 of 2, master 10\.77\.0\.1' 'rank 1 is on node2 and sees the master'
is "$(cat "$(newest_run)/output/"[01] | paste -sd' ')" 'node1 node2' \
    'results of both nodes are fetched'

# ---- SSH dropped in mid-run ---------------------------------------------------------------------
dtctl train --name dropped -- sh -c 'for i in $(seq 1 40); do echo "$RANK:$i"; sleep 0.1
    [ $i != 30 ] || until [ -e /tmp/dropped ]; do sleep 0.1; done; done' \
    >dropped.out 2>dropped.err &
pid=$!
wait_for 10 has dropped.out '1:3$'
ssh_cut 1
ssh_cut 2
touch node{1,2}/tmp/dropped
wait $pid
is "$?" 0 'a dropped connection does not end the run'
like "$(cat dropped.err)" 'lost sight of node1' 'the lost connection is reported'
like "$(cat dropped.err)" 'in sight again' 'the new connection is reported'
is "$(grep -c '^.node2:1.' dropped.out)" 40 'no line is lost or shown twice'
is "$(cut -d' ' -f2 dropped.out | grep '^1:' | paste -sd' ')" \
    "$(seq -f '1:%g' 1 40 | paste -sd' ')" 'the lines are in order'
is "$(wc -l <"$(newest_run)/logs/node1/0.out")" 40 'the log has each line once'

# ---- operator gone in mid-run -------------------------------------------------------------------
dtctl train --name gone -- sh -c 'for i in $(seq 1 20); do echo "$RANK:$i"; sleep 0.1
    [ $i != 10 ] || until [ -e /tmp/gone ]; do sleep 0.1; done; done
    echo $RANK >$DTCTL_OUTPUT_DIR/$RANK' \
    >gone.out 2>&1 &
pid=$!
wait_for 10 has gone.out '1:3$'
kill -9 $pid
wait $pid 2>/dev/null
run dtctl ps
like "$out" 'gone-.*running' 'a killed dtctl leaves the run going'
touch node{1,2}/tmp/gone
run dtctl logs -f
is "$status" 0 'logs -f picks it up'
is "$(grep -c ':[0-9]*$' <<<"$out")" 40 'logs -f shows each line once'
is "$(cat "$(newest_run)/output/"[01] | paste -sd' ')" '0 1' 'the results were fetched'

# ---- a link down for a while --------------------------------------------------------------------
dtctl train --name away -- sh -c '[ $RANK = 1 ] || exec sleep 3
    for i in $(seq 1 4); do echo $i; sleep 0.5; done' \
    >away.out 2>away.err &
pid=$!
wait_for 10 has away.out ' 1$'
ssh_cut 2
wait $pid
is "$?" 0 'one node is cut off for a moment: the run finishes'
is "$(grep -c '\[node2:1\]' away.out)" 4 'all lines of that node are shown'

# ---- a worker killed, and nothing left ----------------------------------------------------------
dtctl train --name victim -- sh -c 'echo $$ >/tmp/victim; echo here; sleep 300' >victim.out 2>&1 &
pid=$!
wait_for 10 has victim.out '\[node2:1\] here'
kill -9 "$(on 2 cat /tmp/victim)"
wait $pid
is "$?" 1 'a killed worker fails the run'
like "$(cat victim.out)" "on node 'node2' failed first" \
    'the last screen names the node of the killed worker'
ok 'no process is left on any node' wait_for 10 none_left

# ---- stop ---------------------------------------------------------------------------------------
run dtctl train --detach --name stopme -- sleep 300
id=$out
run dtctl stop "$id"
is "$status" 0 'stop succeeds'
ok 'no process is left after stop' wait_for 10 none_left
run dtctl fetch "$id"
is "$status" 0 'the results of a stopped run can be fetched'

# ---- the master's port is taken -----------------------------------------------------------------
on 1 sh -c 'python3 -m http.server 29500 --bind 10.77.0.1 >/dev/null 2>&1 &' 2>/dev/null
run dtctl train --name port -- sh -c 'echo "port $MASTER_PORT"'
is "$status" 0 'a port in use elsewhere does not matter'
unlike "$out" 'port 29500$' 'another port is used'

# ---- a disk that is full ------------------------------------------------------------------------
dtctl down -q 2>/dev/null
on 2 sh -c 'mkdir -p /root/.dtctl && mount -t tmpfs -o size=300m tmpfs /root/.dtctl'
run dtctl up
is "$status" 0 'up succeeds on a small disk'
on 2 sh -c 'head -c 1G /dev/zero >/root/.dtctl/fill 2>/dev/null'
run dtctl push tree --to files/again
is "$status" 3 'push to a full disk fails'
like "$err" 'node2.*([Nn]o space|free)' 'the error names the node with the full disk'
unlike "$err" "error: node .?node1" 'the error names no other node'
run dtctl train --name full --file tree -- true
is "$status" 3 'train with a full disk on one node'
like "$err" 'node2' 'the error names the node with the full disk'
on 2 rm /root/.dtctl/fill
run dtctl push tree --to files/again
is "$status" 0 'push succeeds when there is free space'
dtctl down -q 2>/dev/null
wait_for 10 on 2 umount /root/.dtctl
run dtctl up
is "$status" 0 'up succeeds again'

# ---- the trainer: the same here as on provider local ---------------------------------------------
cat >>dtctl.toml <<'END'
[train]
model = "mlp"
hidden = [64]
dataset = "shapes"
train_size = 2000
test_size = 500
epochs = 1
END
run dtctl train --name native
is "$status" 0 'the trainer succeeds on two hosts'
remote=$(grep -o '"final_loss":[^,]*' "$(newest_run)/summary.json" | head -n 1)
ok 'the model was fetched' test -s "$(newest_run)/output/model/model.safetensors"
sed 's/"hosts"/"local"/' dtctl.toml >local.toml
run dtctl -f local.toml -c local train --name native
is "$status" 0 'the trainer succeeds on two local nodes'
local=$(cat .dtctl/local/runs/*/summary.json | grep -o '"final_loss":[^,]*' | head -n 1)
is "$local" "$remote" 'hosts and local nodes end with the same loss'
dtctl -f local.toml -c local down -q

# ---- exit codes of ssh --------------------------------------------------------------------------
run bash -c 'echo "hostname; exit 5" | dtctl ssh node2'
is "$status" 5 'ssh gives the shell its status'
is "$out" node2 'the shell runs on the named node'

# ---- down ---------------------------------------------------------------------------------------
run dtctl down
is "$status" 0 'down succeeds'
is "$(on_all find /root/.dtctl 2>/dev/null)" '' 'nothing is left on the nodes'
ok 'files that were pushed to other folders are kept' on 1 test -e /tmp/put/tree/big
done_testing
