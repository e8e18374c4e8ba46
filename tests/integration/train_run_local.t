#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl with provider local: up, train with any command and with the trainer, failures, detaching,
# picking up after dtctl was killed, stopping, fetching, gc, down.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by ok; plain names
source "${0%/*}/../lib.sh"

going() { dtctl ps --json 2>/dev/null | grep -q '"state":"running"'; }
agents() { pgrep -f "$WORK/.dtctl/default/nodes/.* --node" | wc -l; }
none_left() { [ "$(agents)" = 0 ]; }

# ---- before up ----------------------------------------------------------------------------------
run dtctl status
is "$status" 1 'status before up fails'
like "$err" 'is not up .*dtctl up' "the error names 'dtctl up'"
run dtctl run true
like "$err" "cannot read 'true'.*for a command: dtctl train -- true" \
    'run of other tools is explained'
run dtctl launch true
like "$err" "no command 'launch' .did you mean 'train'" 'the word of other tools is understood'
run dtctl plan
is "$status" 0 'plan succeeds'
like "$out" '\+ node0 +127\.0\.0\.2' 'plan lists what would be made'
ok 'plan makes nothing' test ! -e .dtctl
run dtctl up --provider aws --region us-east-1
is "$status" 2 'up without consent is refused where nodes cost money'
like "$err" 'say dtctl up -y' "the error names 'dtctl up -y'"
run env -u AWS_REGION -u AWS_DEFAULT_REGION dtctl plan --provider aws
like "$err" 'no region.*AWS_REGION' 'a region that is missing is asked for'
mkdir -p no-terraform
run env -C no-terraform PATH=/nowhere "$BIN/dtctl" up -y --provider aws \
    --region us-east-1 --operator-cidr 198.51.100.7/32
like "$err" 'neither terraform nor tofu is on PATH' \
    'the error names the programs that provider aws needs'
run dtctl up --nodes 0
is "$status" 2 'no nodes is a configuration error'

# ---- up -----------------------------------------------------------------------------------------
run dtctl up --nodes 3
is "$status" 0 'up with three nodes'
is "$(grep -c '^name = "node' .dtctl/default/cluster.toml)" 3 'the inventory has them'
is "$(stat -c %a .dtctl/default)" 700 'the folder is the owner'"'"'s alone'
run dtctl up --nodes 3 --json
like "$out" '"installed":0' 'a second up installs nothing'
run dtctl up -y --nodes 2
is "$status" 0 'up with fewer nodes'
ok 'up with fewer nodes removes the third' test ! -e .dtctl/default/nodes/node2
run dtctl status --json
is "$(grep -c '"state":"idle"' <<<"$out")" 2 'two nodes are idle'

# ---- any command --------------------------------------------------------------------------------
mkdir code
cd code || exit
cat >job.sh <<'END'
echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"
. ./part.sh
echo "loss=0.$((5 - RANK)); SageMaker's form"
echo "to stderr $RANK" >&2
echo "$RANK" >"$DTCTL_OUTPUT_DIR/rank$RANK.txt"
[ "$RANK" != 0 ] || echo weights >"$DTCTL_MODEL_DIR/model.bin"
END
echo 'echo part of $RANK' >part.sh
cd .. || exit
(cd code && ln -s ../.dtctl .dtctl)
run dtctl train --metric 'loss=([0-9' -- touch "$WORK/began"
is "$status" 2 'an expression that does not compile is refused'
like "$err" "--metric: expression '.*': missing .*, at character 5 of 5" \
    'the error has the reason and the place'
ok 'nothing was started' test ! -e "$WORK/began"
run bash -c 'cd code &&
    dtctl train --nproc-per-node 2 --metric "train:loss=loss=(.*?);" -- sh job.sh'
is "$status" 0 'a script and the file that it needs are sent'
for r in 0 1 2 3; do
    like "$out" "\\[node$((r / 2)):$r\\] rank $r of 4 at 127.0.0.2" "rank $r ran on its node"
done
like "$out" '\[node1:3\] part of 3' 'the current folder went along'
unlike "$err" 'node0:-1' 'every line has its rank'
r=$(newest_run)
is "$(cat "$r"/output/rank{0,1,2,3}.txt | paste -sd' ')" '0 1 2 3' 'output of every rank came back'
is "$(cat "$r/output/model/model.bin")" weights 'the model was fetched'
is "$(cat "$r/logs/node1/3.err")" 'to stderr 3' 'logs are kept by rank'
is "$(json_value "$r/summary.json" state)" finished 'the summary says it finished'
is "$(grep -c '"name":"train:loss"' "$r/metrics.jsonl")" 4 \
    'there is a value of the metric for each rank'
like "$(cat "$r/events.jsonl")" 'operator.*made.*node-joined.*workers-started.*finished' \
    'the events are in order'
written=$(cat "$r"/*.toml "$r"/summary.json "$r"/events.jsonl .dtctl/default/nodes/*/runs/*/*.toml)
unlike "$written" \
    'key *=|"key"' 'the key is written nowhere'
like "$out" "output +.*output" 'the last screen says where things are'

printf '#!/bin/sh\n. ./part.sh\n' >code/job
chmod +x code/job
run bash -c 'cd code && dtctl train -- ./job'
is "$status" 0 'a program of the current folder is run'
like "$out" '\[node1:1\] part of 1' 'a program in the current folder is sent'

# ---- many lines in the first moment -------------------------------------------------------------
TIMEFORMAT='%U %S'
{
    time dtctl train --metric 'loss=loss ([0-9]+)' -- sh -c 'exec seq 20000' >flood.out 2>flood.err
} 2>flood.time
is "$(grep -c '^\[node0:0\] ' flood.out)/$(grep -c '^\[node1:1\] ' flood.out)" 20000/20000 \
    'a rank that prints 20,000 lines at once: each is shown, with its rank'
ok "dtctl needs $(<flood.time) s of processor time for it" \
    awk '{ exit !($1 + $2 < 6) }' flood.time
is "$(grep -c 'no line of rank 0 has matched.*metric="loss" lines=100 newest="100"' flood.err)" 1 \
    'one warning has the metric that the first 100 lines do not match'

# ---- two that follow ----------------------------------------------------------------------------
dtctl train --name two --metric 'n=n=([0-9]+)' -- sh -c 'for i in $(seq 15); do
    echo n=$i; sleep 0.2; done; echo $RANK >$DTCTL_OUTPUT_DIR/$RANK' >two.out 2>two.err &
first=$!
wait_for 20 grep -q '^.*n=3$' two.out
run dtctl logs -f
is "$status" 0 'a second dtctl follows from the middle'
wait "$first"
is "$?" 0 'the first dtctl ends well'
r=$(newest_run)
is "$(grep -c '] n=' two.out)/$(grep -c '] n=' <<<"$out")" 30/30 'both show every line once'
is "$(grep -c '"name":"n"' "$r/metrics.jsonl")" 30 'every value is kept once'
is "$(cat "$r/logs/node0/0.out" "$r/logs/node1/1.out" | wc -l)" 30 'every line is kept once'
is "$(grep -c '"kind":"fetched"' "$r/events.jsonl")" 1 'one of the two fetches the results'
is "$(grep -c '"kind":"workers-started"' "$r/events.jsonl")" 2 'every event is kept once'
is "$(cat "$r/output/0" "$r/output/1" | xargs)" '0 1' 'the results were fetched'

# ---- failures -----------------------------------------------------------------------------------
run dtctl train --name fails -- sh -c 'echo before
    [ $RANK = 0 ] || { echo boom >&2; exit 7; }; sleep 60'
is "$status" 1 'a failing rank fails the run'
like "$out" "rank 1 on node 'node1' failed first: exit status 7" 'the first failure is named'
like "$out" '\| boom' 'the last screen has the last line of the failed rank'
unlike "$err" 'lost sight' 'no connection was lost'
run dtctl train --name fails --exit-code -- sh -c '[ $RANK = 0 ] || exit 7; sleep 60'
is "$status" 7 '--exit-code passes its status on'
run dtctl train --name fails --exit-code -- sh -c '[ $RANK = 0 ] || kill -9 $$; sleep 60'
is "$status" 137 'a signal is the status, too'
like "$out" 'SIGKILL' 'the last screen names the signal'
run dtctl train --name again --max-restarts 2 -- \
    sh -c 'echo try $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 1'
is "$status" 0 'a restart repairs the run'
is "$(json_value "$(newest_run)/summary.json" restarts)" 2 'restarts are counted'
run dtctl train -- /no/such/program
is "$status" 1 'a command that is not there fails'
run dtctl train --nodes 5 -- true
is "$status" 2 'more nodes than the cluster has are a configuration error'
like "$err" 'has 2' 'the error has the number of nodes'
run dtctl train --file /no/such/file -- true
is "$status" 2 'a file that is not there is refused'
run dtctl train --input 'data=/no/such' -- true
is "$status" 2 'an input that is not there is refused'
run dtctl train --dry-run -- true
is "$status" 0 'a dry run succeeds'

# ---- inputs -------------------------------------------------------------------------------------
mkdir -p in/a in/b
for i in 1 2 3 4 5 6; do head -c $((i * 1000)) /dev/zero >in/a/f$i; done
echo text >in/b/note
run dtctl train --name inputs --input all=in --input part=in:sharded -- \
    sh -c 'cd $DTCTL_INPUT_PART && find . -type f | sort >$DTCTL_OUTPUT_DIR/$RANK
        cd $DTCTL_INPUT_ALL && find . -type f | wc -l'
is "$status" 0 'a run with inputs succeeds'
r=$(newest_run)
is "$(grep -h . "$r"/logs/node*/*.out | paste -sd' ')" '7 7' 'replicated: every node has every file'
is "$(sort "$r"/output/[01] | paste -sd' ')" "$(cd in && find . -type f | sort | paste -sd' ')" \
    'sharded: every file is on exactly one node'
sum() { (cd in && xargs cat <"$1" | wc -c); }
a=$(sum "$WORK/$r/output/0") b=$(sum "$WORK/$r/output/1")
ok "shares are balanced by bytes ($a and $b)" test $((a > b ? a - b : b - a)) -le 6000

# ---- detached, killed, found again --------------------------------------------------------------
mkdir -p below/it
run env -C below/it dtctl status
like "$err" "not up in this folder; there is one in '$WORK/.dtctl' .try: cd $WORK, or" \
    'in a folder below, the error names the cluster above'
run dtctl train --detach --name long -- sh -c 'for i in 1 2 3; do echo line $i; sleep 0.5; done'
is "$status" 0 '--detach returns'
id=$out
like "$id" '^long-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}$' '--detach prints the run'
run dtctl logs -f "$id"
is "$status" 0 'logs -f follows it to its end'
is "$(grep -c '0\] line' <<<"$out")" 3 'logs -f shows every line'
ok 'the results were fetched' grep -q 'fetched = true' ".dtctl/default/runs/$id/run.toml"

dtctl train --name killed -- sh -c 'echo begun; until [ -e "$0" ]; do sleep 0.1; done
    echo ended $RANK; echo $RANK >$DTCTL_OUTPUT_DIR/$RANK' "$WORK/go-killed" \
    >killed.out 2>&1 &
pid=$!
wait_for 10 grep -q '^\[node1:1\] begun' killed.out
kill -9 $pid
wait $pid 2>/dev/null
ok 'the run continues without dtctl' going
run dtctl ps
like "$out" 'killed-.*running.*on nodes' 'ps finds it'
run dtctl status
like "$out" 'node0.*busy.*killed-' 'status finds it'
run dtctl logs
is "$status" 0 'logs without -f succeeds'
like "$out" 'begun' 'logs shows the lines so far'
unlike "$out" 'ended' 'logs without -f ends before the run'
(sleep 1 && touch go-killed) & # at best while logs -f follows
run dtctl logs -f
is "$status" 0 'logs -f picks it up'
is "$(grep -c 'ended' <<<"$out")" 2 'logs -f follows the run to its end'
is "$(grep -c 'begun' <<<"$out")" 2 'logs -f shows no line twice'
is "$(cat "$(newest_run)/output/"[01] | paste -sd' ')" '0 1' 'the results were fetched'
run dtctl logs --rank 1
is "$status/$out" 0/$'begun\nended 1' 'the log of one rank is printed'
run dtctl logs --rank 99
is "$status" 1 'logs of a rank that does not exist fails'
like "$err" "run 'killed-.*' has no rank 99: its highest is 1" 'the error names the highest rank'
run dtctl fetch
is "$status" 0 'a second fetch succeeds'
like "$out" 'are here' 'a second fetch has nothing to do'

# ---- signals and stop ---------------------------------------------------------------------------
begin_trapped() { # NAME ACTION: a run whose ranks do that when they get SIGTERM; sets $pid
    dtctl train --name "$1" -- sh -c "trap '$2; exit 0' TERM; echo ready; sleep 60 & wait" \
        >"$1.out" 2>&1 &
    pid=$!
    wait_for 10 grep -q '^\[node1:1\] ready' "$1.out"
}
begin_trapped signalled 'echo asked'
kill -INT $pid
wait $pid
is "$?" 1 'not a terminal: the first signal stops the run'
is "$(json_value "$(newest_run)/summary.json" state)" stopped \
    'summary.json says that the run was stopped'
like "$(cat signalled.out)" 'asked' 'the workers got SIGTERM'
# timeout(1) sends its signal to dtctl, and once more to the group that dtctl is in.
begin_trapped twice 'sleep 2; echo over >$DTCTL_OUTPUT_DIR/o'
kill -TERM $pid
wait_for 10 grep -q 'stopping the run' twice.out
kill -TERM $pid
wait $pid
is "$?" 1 'a signal that comes twice at once stops the run as one does' || diag "$(cat twice.out)"
is "$(cat "$(newest_run)/output/o")" over '  and the results are fetched'
# A later one leaves the run while it stops, and a hang-up leaves one that continues.
begin_trapped later "until [ -e $PWD/end ]; do sleep 0.1; done"
kill -TERM $pid
sleep 1.1 # MONITOR_SAME_MS_MAX, at the least
kill -TERM $pid
wait $pid
is "$?" 143 'a second signal that comes later leaves the run'
like "$(cat later.out)" "left the run 'later-.*' while it stops \(try: dtctl logs -f later-" \
    'the error says how to follow it again'
touch end
dtctl logs -f >later.log 2>&1
like "$(cat later.log)" 'stopped' '  which shows its end'
dtctl train --name hung -- sleep 60 >hung.out 2>&1 &
pid=$!
wait_for 10 grep -q 'round 0' hung.out
kill -HUP $pid
wait $pid
like "$?$(cat hung.out)" "^0.*detached; the run continues.*  follow:  dtctl logs -f hung-" \
    'a hang-up says how to follow the run again'
dtctl stop >stop.log 2>&1
dtctl fetch >fetch.log 2>&1
dtctl train --detach --name stopme -- sleep 60 >stop.id 2>/dev/null
wait_for 5 going
nth=$BUILD/release/tests/tools/nth_call
run "$nth" -n 0 -c pipe2 -- dtctl fetch 3>looked
is "$status" 0 'fetch waits for an active run'
calls=$(sed 's/calls=\([0-9]*\).*/\1/' looked)
run "$nth" -n "$calls" -s TERM -c pipe2 -- dtctl fetch 3>looked
is "$status" 143 'one signal ends the waiting fetch'
like "$err" 'stopped by a signal before all .* was here' 'fetch says that it was stopped'
ok 'the run is still active' going
run bash -c 'ulimit -n 8; exec timeout -k 1 10 dtctl fetch'
is "$status" 1 'fetch without free descriptors fails'
like "$err" "cannot make a pipe: No file desc.*; dtctl may have 8 open .try: ulimit -n 1024" \
    'the error has the limit of this computer'
unlike "$err" 'lost sight' 'no node is reported as lost'
run dtctl stop
is "$status" 0 'stop succeeds, too'
ok 'no process is left' wait_for 5 none_left
run dtctl stop
is "$status" 0 'stop again does no harm'
run dtctl train --signals-to-handle FOO -- true
is "$status" 2 'an unknown signal is refused before the start'
like "$err" "signals.to.handle.*'FOO' is not a signal" 'the error names the signal'
run dtctl exec --ssh-config nowhere -- true
is "$status" 2 'a missing ssh configuration file is refused'
run dtctl extend 4x
is "$status" 2 'a malformed time is refused'
dtctl exec -- echo x >/dev/full 2>full.err
is "$?" 1 'a result that cannot be written is a failure'
like "$(cat full.err)" 'cannot write the result: No space left' \
    'the error says that the result was not written'
run dtctl ssh node1 -- sh -c 'echo "$PWD $1"; exit 7' x 'a b'
is "$status ${out##*/}" '7 node1 a b' 'ssh runs a command on a node'
dtctl train --detach --name false -- sleep 60 >false.id 2>/dev/null
sed -i 's/^state = .*/state = "failed"/; s/^fetched = .*/fetched = true/' \
    ".dtctl/default/runs/$(cat false.id)/run.toml"
run dtctl stop
is "$status" 0 'stop of a run that the record has as over, but that is active'
ok 'stop ends the processes all the same' wait_for 10 none_left
run dtctl down --dry-run
is "$status" 0 'a dry down succeeds'
dtctl train --detach --name busy -- sleep 60 >busy.id 2>/dev/null
run dtctl down
is "$status" 1 'down is refused while a run is active'
like "$err" 'dtctl stop' "the error names 'dtctl stop'"
ok 'a refused down leaves the inventory' test -f .dtctl/default/cluster.toml
dtctl stop -q >/dev/null 2>&1

# ---- a worker puts pipes in the place of files, whose open would wait ---------------------------
run timeout -k 5 40 dtctl train --name pipes -- sh -c \
    'mkfifo $DTCTL_OUTPUT_DIR/metrics.jsonl; echo bye'
is "$status" 0 'a run whose metrics are a pipe ends'
like "$out" bye 'the output of the run is shown'
run timeout -k 5 40 dtctl train --name pipe --max-restarts 0 -- sh -c \
    'rm -f $TORCHELASTIC_ERROR_FILE; mkfifo $TORCHELASTIC_ERROR_FILE; exit 7'
is "$status" 1 'a worker whose error file is a pipe fails'
like "$err" 'rank [01] on node[01] failed: exit status 7' 'the status of the worker is the reason'
run timeout -k 5 40 dtctl train --name logs --nodes 1 -- sh -c \
    'find $DTCTL_OUTPUT_DIR/../attempt_0 -type f -exec sh -c "rm {}; mkfifo {}; echo {}" \; \
    >$DTCTL_OUTPUT_DIR/made'
is "$status" 0 'a run whose logs are pipes ends' || diag "$out$err"
ok 'the worker has made the pipes' grep -q attempt_0/0/ .dtctl/default/runs/logs-*/output/made
mkdir tree && echo a >tree/a && mkfifo tree/.dtctlignore
run timeout -k 5 20 dtctl push tree/
is "$status" 0 'a tree whose .dtctlignore is a pipe is pushed'

# ---- a node's agent dies ------------------------------------------------------------------------
agent_of() { # NODE RUN-PREFIX: the pid of its agent
    cat .dtctl/default/nodes/"$1"/runs/"$2"*/status.json 2>/dev/null | grep -o '"pid":[0-9]*' |
        head -n 1 | cut -d: -f2
}
dtctl train --name shrinks --nodes 1:2 -- sh -c 'echo start of $WORLD_SIZE
    [ $WORLD_SIZE = 1 ] || sleep 60; echo $RANK >$DTCTL_OUTPUT_DIR/end' \
    >shrinks.out 2>shrinks.err &
pid=$!
wait_for 10 grep -q '^\[node1:1\] start of 2' shrinks.out
kill -9 "$(agent_of node1 shrinks)"
wait $pid
is "$?" 0 'with MIN:MAX nodes a run survives the loss of a node'
like "$(cat shrinks.err)" 'node node1 is lost' 'the loss is reported'
like "$(cat shrinks.out)" '\[node0:0\] start of 1' 'the next round has the nodes that are left'
is "$(cat "$(newest_run)/output/end")" 0 'the run finishes with its results'
dtctl train --name breaks -- sh -c 'echo start; sleep 60' >breaks.out 2>&1 &
pid=$!
wait_for 10 grep -q '^\[node1:1\] start' breaks.out
kill -9 "$(agent_of node1 breaks)"
wait $pid
is "$?" 1 'with a fixed number of nodes the run fails'
ok 'no process is left' wait_for 10 none_left

# ---- the trainer, stopped and resumed -----------------------------------------------------------
cat >dtctl.toml <<'END'
[train]
model = "mlp"
hidden = [32]
dataset = "shapes"
train_size = 4000
test_size = 200
epochs = 200
END
dtctl train --name resumed >resumed.out 2>&1 &
pid=$!
wait_for 30 grep -q '^Epoch: \[3\]' resumed.out
kill -INT $pid
wait $pid
run dtctl train --name resumed --set train.epochs=100 --json
is "$status" 0 'the trainer resumes'
like "$out" '"event":"plan".*"resumes":"resumed-' 'plan names the stopped run'
unlike "$out" '"text":"Epoch: \[0\]' 'the trainer does not begin at the first epoch'
r=$(newest_run)
ok 'the model was fetched' test -s "$r/output/model/model.safetensors"
like "$(cat "$r/summary.json")" '"accuracy":[0-9.]+' 'the summary has the accuracy'
run dtctl train --name resumed --set train.epochs=1 --resume never
is "$status" 0 '--resume never'
like "$out" 'Epoch: \[0\]' '--resume never starts at the first epoch'
rm dtctl.toml

# ---- lock ---------------------------------------------------------------------------------------
# The lock of an open file description: struct flock is short type, whence; long start, length; pid.
perl -e 'open(F, "+>", ".dtctl/default/lock") or die; my $l = pack("ssx4qqix4", 1, 0, 0, 0, 0);
    fcntl(F, 37, $l) or die "$!"; syswrite(F, "pid 1: a test\n"); print "held\n"; close(STDOUT);
    select(undef, undef, undef, 0.05) until -e "let-go"' >held &
wait_for 5 grep -q held held
dtctl up >up.out 2>up.err &
pid=$!
ok 'a second dtctl waits for the lock, and says for whom' wait_for 10 \
    grep -q 'waiting for another dtctl.*locked by pid 1: a test' up.err
touch let-go
wait $pid
is "$?" 0 'the second dtctl continues when the lock is free'
wait

# ---- a user whose inotify is used up -------------------------------------------------------------
if without_inotify true 2>/dev/null; then
    without_inotify dtctl train --nodes 2 -- sh -c \
        'echo "begun $RANK"; until [ -e "$0/go" ]; do sleep 0.1; done; echo "done $RANK"' "$WORK" \
        >followed 2>followed.err &
    operator=$!
    ok 'without inotify a run is followed' wait_for 10 grep -q 'begun 1' followed
    touch go
    wait "$operator"
    is "$?" 0 'without inotify a run finishes' || diag "$(tail -n 5 followed.err)"
    is "$(grep -c 'done [01]' followed)" 2 'without inotify every line is shown'
else
    skip 3 'this machine lets nobody limit inotify in a user namespace'
fi

# ---- gc and down --------------------------------------------------------------------------------
# ---- so many log files that their offsets are more than is sent at once -------------------------
id=$(dtctl train -d --nodes 1 --name many -- \
    sh -c "echo before; while [ ! -e '$PWD/go-many' ]; do sleep 0.1; done; echo after" 2>/dev/null)
has_line() { dtctl logs "$id" 2>/dev/null | grep -q before; }
wait_for 20 has_line
(cd ".dtctl/default/runs/$id/nodes/node0" && mkdir -p attempt_{100001..100020}/{1000..1999} &&
    touch attempt_{100001..100020}/{1000..1999}/stdout.log)
touch go-many
run timeout -k 1 180 dtctl logs -f "$id"
is "$status" 0 'a run with twenty thousand log files is followed'
is "$(grep -c -x -e before -e after <<<"$out")" 2 'the run is followed to its end'
rm -r ".dtctl/default/runs/$id/nodes"

run dtctl gc --keep 1 --older-than 0s
is "$status" 0 'gc succeeds'
kept=$(cat .dtctl/default/nodes/node0/runs/*/job.toml | grep -c '^id')
like "$kept" '^[123]$' 'gc keeps the newest runs and those that were not fetched'
run dtctl doctor
is "$status" 0 'doctor finds nothing bad'
like "$out" 'every node reaches every other' 'doctor finds the network in order'
run dtctl down
is "$status" 0 'down succeeds'
like "$err" '[0-9]+ runs have their results on this side' 'down says that fetched results stay'
is "$(ls -A .dtctl/default/nodes)" '' 'nothing is left of the nodes'
run dtctl down
is "$status" 0 'a second down succeeds'
ok 'no process is left' wait_for 10 none_left
done_testing
