#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl top: samples of the nodes of a run, on a terminal and elsewhere, until the run is over; and
# agents that are silent, old, hostile, or hang with nvidia-smi.
# shellcheck disable=SC2317 # called by run
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

home=$'\e[H\e[J'
answer() { "$SRC/tests/tools/answer.py" 60 "$@"; }
run_of() { basename "$(echo .dtctl/default/nodes/node0/runs/"$1"-*)"; }
top() { timeout 60 dtctl top "$@"; }
shows() { top --once "${@:2}" 2>/dev/null | grep -q -E -- "$1"; }
# A driver that hangs: the program prints once, and only SIGKILL ends it.
mkdir -p stub && cat >stub/nvidia-smi <<'E2'
#!/bin/sh
trap '' TERM INT HUP
echo $$ >>"$WORK_OF_STUB/smi.pids"
printf '0, 40, 1000, 24000\n1, 60, 3000, 24000\n'
while :; do sleep 1; done
E2
sed -i "s,\$WORK_OF_STUB,$WORK," stub/nvidia-smi && chmod 755 stub/nvidia-smi
export PATH=$PWD/stub:$PATH
printf '[metrics]\nloss = "loss ([0-9.]+)"\n' >dtctl.toml

run top
is "$status" 1 'top without a cluster fails'
like "$err" "^dtctl: error: no run of cluster 'default' is active \\(try: dtctl ps --all\\)$" \
    'the error is one sentence'
run dtctl train --dry-run --set monitor.interval=100ms -- true
is "$status" 2 'an interval that is too short is refused'
like "$err" 'neither 0 nor between 500ms and 1h' 'the error has the limits'

# ---- a detached run ------------------------------------------------------------------------------
dtctl up >made.log 2>&1 || bail_out "no cluster: $(cat made.log)"
dtctl train -d --nodes 2 --name a --set monitor.interval=500ms -- sh -c "i=10
    until [ -e '$PWD/go' ]; do echo loss 0.\$i; i=\$((i + 1)); sleep 0.1; done" \
    >made.log 2>&1 || bail_out "no run: $(cat made.log)"
ok 'a detached run has figures' wait_for 30 shows 'node1 .*/s'
run top --once
is "$status" 0 'top --once ends with 0'
like "$out" 'run a-[^ ]* +running, 2 ranks on 2 of 2 nodes' 'the table has the state of the run'
like "$out" 'loss 0\.[0-9]+' 'the table has the newest metric'
like "$out" 'node0 +running +[0-9]+ % +[0-9.]+/[0-9.]+ .B +2 +50 % +4\.2/50\.3 GB' \
    'the table has processors, memory and GPUs of a node'
is "$(grep -c . <<<"$out")" 5 'there is a line for each node, besides three'
run top --once --json
ok 'a look is one JSON object' python3 -c '
import json, sys
top, = [json.loads(line) for line in sys.argv[1].splitlines()]
assert top["event"] == "top" and top["state"] == "running" and top["nodes_going"] == 2, top
assert 0 < top["metrics"]["loss"] < 1 and top["elapsed_ms"] > 0 and top["cost_usd"] is None, top
assert [n["node"] for n in top["nodes"]] == ["node0", "node1"], top
for n in top["nodes"]:
    s = n["sample"]
    assert n["reason"] is None and 0 <= s["cpu_percent"] <= 100 and s["cpus"] >= 1, n
    assert 0 < s["memory_bytes"] < s["memory_limit_bytes"] and s["disk_free_bytes"] > 0, n
    assert s["gpu_percent"] == [40, 60] and s["gpu_memory_mib"] == [1000, 3000], n
' "$out"
run answer NODE '' NODE '' NODE '\x03' -- dtctl top --every 100ms
like "$out" 'NODE +STATE +CPU +MEMORY +BUSY +GPU MEMORY +DISK FREE' \
    'a terminal of 80 columns has the columns that fit'
unlike "$out" 'RECEIVED|WRITTEN' '  and no part of others'
unlike "${out#*NODE}" 'connect ' 'nodes are connected once, before the first table'
is "$status" 130 'Ctrl-C ends it with 130'
ok 'a terminal shows each table in place of the last one' \
    test "$(grep -o -F -- "$home" <<<"$out" | wc -l)" -ge 3
plain() { top --every 100ms | grep -m 3 NODE; }
run plain
is "$(wc -l <<<"$out")" 3 'elsewhere the tables follow one another'
unlike "$out" $'\e' 'elsewhere there are no control sequences'

# ---- a node that cannot be reached, and the end of the run ---------------------------------------
mv .dtctl/default/nodes/node1 aside && : >.dtctl/default/nodes/node1
run top --once
is "$status" 3 'a node that fails gives status 3'
like "$out" 'node1 +no answer +.*node1' 'the row of the node says why'
like "$out" 'node0 +running +[0-9]+ %' 'the other node has its figures'
rm .dtctl/default/nodes/node1 && mv aside .dtctl/default/nodes/node1
top --json >looks 2>&1 &
watcher=$!
ok 'top repeats its looks' wait_for 30 grep -q '"nodes_going":2' looks
sampled() { [ "$(wc -l <".dtctl/default/nodes/node1/runs/$(run_of a)/samples.jsonl")" -ge 3 ]; }
ok 'a node takes one sample after the other' wait_for 30 sampled
touch go
wait "$watcher"
is $? 0 'top ends with the run'
like "$(tail -n 1 looks)" '"state":"finished".*"nodes_going":0' 'the last look has the final state'
dead() { while read -r pid; do [ ! -e "/proc/$pid" ] || return 1; done <smi.pids; }
ok 'a program that hangs does not survive its agent' wait_for 10 dead
id=$(run_of a)
run top "$id"
is "$status" 1 'top of a run that is over fails'
like "$err" "run 'a-[^']*' is not active: its state is 'finished' \\(try: dtctl logs a-" \
    'the error has the state'
dtctl logs -f >/dev/null 2>&1
ok 'samples are among the results' cmp ".dtctl/default/nodes/node1/runs/$id/samples.jsonl" \
    ".dtctl/default/runs/$id/nodes/node1/samples.jsonl"
ok 'every line is a sample' python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) >= 3 and all(a["time_ms"] < b["time_ms"] for a, b in zip(lines, lines[1:])), lines
assert all(s["memory_bytes"] > 0 and len(s["gpu_percent"]) == 2 for s in lines[1:]), lines
' ".dtctl/default/runs/$id/nodes/node1/samples.jsonl"

# ---- steps of the native trainer ----------------------------------------------------------------
dtctl train -d --nodes 2 --name native --set train.dataset=shapes \
    --set 'train.model=mlp(hidden=64)' --set train.train_size=256 --set train.test_size=32 \
    --set train.batch=8 --set train.print_every=1 --set train.epochs=100000 >made.log 2>&1 ||
    bail_out "$(cat made.log)"
ms='[0-9.]+ ms'
steps="^step $ms, $ms to $ms; rank 0 waits [0-9]+ % for data, [0-9]+ % for ranks"
ok 'top shows the time of a step, its spread and the waits' wait_for 60 shows "$steps" native
ok 'the JSON has them' python3 -c '
import json, sys
s = json.loads(sys.argv[1])["steps"]
assert 0 < s["least_ms"] <= s["step_ms"] <= s["most_ms"], s
assert 0 <= s["wait_data_percent"] and 0 < s["wait_ranks_percent"] <= 100, s
' "$(top --once --json native)"
dtctl stop native >/dev/null 2>&1

# ---- an agent without samples --------------------------------------------------------------------
dtctl train -d --nodes 1 --name b --set monitor.interval=0 -- sleep 600 >/dev/null 2>&1
like "$(top --once --json b)" '"steps":null' 'a command has no steps'
run top --once b
like "$out" 'node0 +running +it is not sampled \(monitor.interval is 0\)' \
    'samples can be switched off'
ok 'no file is written then' test ! -e ".dtctl/default/nodes/node0/runs/$(run_of b)/samples.jsonl"
dtctl stop b >/dev/null 2>&1

# ---- agents that are silent, old or hostile ------------------------------------------------------
dtctl train -d --nodes 1 --name c -- sleep 600 >/dev/null 2>&1
folder=.dtctl/default/nodes/node0/runs/$(run_of c)
agent=$(sed -n 's/.*"pid":\([0-9]*\),"round".*/\1/p' "$folder/status.json")
instead() { # TEXT: a server in the place of the agent's socket sends it to every client
    local last=${server-}
    rm -f ready
    python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
work = os.getcwd()
os.chdir(sys.argv[1])
s.bind("other.sock")
s.listen(9)
os.rename("other.sock", "control.sock")
open(work + "/ready", "w").close()
clients = []
while True:
    clients.append(s.accept()[0])
    try:
        clients[-1].sendall(eval(sys.argv[2]))
    except OSError:
        pass' "$folder" "$1" 2>server.log &
    server=$!
    wait_for 30 test -e ready || bail_out "no server: $(cat server.log)"
    [ -z "$last" ] || kill "$last"
}
kill -STOP "$agent"
run top --once
like "$out" 'node0 +running +its agent does not answer' 'the row of a silent agent says so'
like "$out" '^run c-[^ ]* +running, 0 ranks on 1 of 1 nodes, [^,]*, 1 without an answer' \
    'the head counts no ranks of a silent agent'
is "$status" 0 'a silent agent is no failure of its node'
# More clients than its socket has room for.
python3 -c '
import os, socket, sys, time
os.chdir(sys.argv[1])
open_ones = []
try:
    while len(open_ones) < 9999:
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
        s.connect("control.sock")
        open_ones.append(s)
except BlockingIOError:
    print("full", flush=True)
    time.sleep(600)' "$folder" >full &
clients=$!
wait_for 30 grep -q full full || bail_out 'the socket of a silent agent is never full'
run top --once
like "$out" 'node0 +running +its agent does not answer' 'a full socket does not hold the look'
kill "$clients"
instead 'b"{\"ok\":true}\n"'
run top --once
like "$out" 'node0 +running +its agent is of an older dtctl' 'the row of an older agent says so'
for text in 'b"x" * 9000000' 'b"[1]\n"' 'b"\x1b]0;P\x07\n"' \
    'b"{\"every_ms\":1e99,\"sample\":{}}\n"'; do
    instead "$text"
    run top --once
    like "$out" 'node0 +running +its agent (does not answer|is of an older)' "hostile answer: $text"
    unlike "$out$err" $'[\e\a]' "no control character of it is shown: $text"
done
instead 'b"{\"every_ms\":1,\"sample\":{\"time_ms\":1,\"cpu_percent\":1e9,\"gpu_percent\":[-1]}}\n"'
run top --once
like "$out" 'node0 +running +- +- +1 +- ' 'figures outside their bounds are not known'
kill "$server" && kill -CONT "$agent"

# ---- a node that lies ----------------------------------------------------------------------------
bin=.dtctl/default/nodes/node0/bin
real=$(echo "$bin"/dtrun-*)
cp "$real" "$bin/real" && ln -s "$PWD/$bin/real" "$bin/REAL"
for kind in escapes flip cut numbers flood noise; do
    echo "$kind 1 $WORK/victim" >"$bin/MODE"
    cp "$SRC/tests/soak/hostile_node.py" "$bin/new" && chmod 700 "$bin/new" && mv "$bin/new" "$real"
    run top --once c
    ok "top ends properly on a node that lies: $kind" test "$status" -le 4
    unlike "$(tr -d '\n' <<<"$out$err")" $'[\x01-\x08\x0b-\x1f\x7f]' "no control character: $kind"
done
mv "$bin/real" "$real"
dtctl down -y -q --force >/dev/null 2>&1
done_testing
