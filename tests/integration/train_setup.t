#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# [setup]: a script prepares each node once for each hash of its text and of the files it needs.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called by ok
source "${0%/*}/../lib.sh"

run dtctl up --nodes 2
is "$status" 0 'two nodes are up'
mkdir conf
echo one >conf/req.txt
cat >dtctl.toml <<'E2'
[setup]
run = """
echo "in $PWD: $GREETING $(cat conf/req.txt)"
echo made >>"$DTCTL_SETUP_DIR/tool"
"""
needs = ["conf/req.txt"]
[env]
GREETING = "hello"
E2
made() { find .dtctl/default/nodes/*/setup -mindepth 1 -maxdepth 1 -type d | wc -l; }
# shellcheck disable=SC2012 # plain names

# ---- once for the same lines and files ----------------------------------------------------------
show='cat "$DTCTL_SETUP_DIR/tool"; ls'
run dtctl train --shell "$show"
is "$status" 0 'a run with a setup succeeds'
is "$(grep -c '\] made$' <<<"$out")" 2 'both ranks find what the setup has made'
is "$(cat "$(newest_run)"/setup/*.log | grep -c '/work: hello one')" 2 \
    "the setup runs in the command's folder, with the job's variables and the needed files"
like "$out" 'time +push .*, setup [0-9]' 'the summary shows its time'
ok 'the events have it' grep -q '"kind":"prepared"' "$(newest_run)/events.jsonl"
run dtctl train --shell "$show"
is "$(grep -c '\] made$' <<<"$out")" 2 'a second run finds it'
is "$(cat "$(newest_run)"/setup/*.log | wc -c)" 0 'the second run does not run the setup'
is "$(made)" 2 'each node has one folder of the setup'
echo two >conf/req.txt
run dtctl train --shell "$show"
is "$(cat "$(newest_run)"/setup/*.log | grep -c 'hello two')" 2 'a changed file makes it run again'
is "$(made)" 4 'a changed setup has its own folder'
run dtctl train --set setup.run= --shell 'echo "none: $DTCTL_SETUP_DIR."'
is "$(grep -c 'none: \.' <<<"$out")" 2 'without a setup there is no folder'

# ---- failures -----------------------------------------------------------------------------------
run dtctl train --setup 'echo first; false; echo never' -- sh -c 'echo started'
is "$status" 3 'a setup that fails ends the run'
like "$err" "node 'node0': the setup ended with status 1" 'node and status are named'
like "$err" '\[node1 setup\] first' 'the last lines are shown'
unlike "$err$out" 'never|\] started' 'the first failure ends the script, and no rank starts'
run dtctl train --setup 'echo again >>"$DTCTL_SETUP_DIR/count"; false' -- true
run dtctl train --setup 'echo again >>"$DTCTL_SETUP_DIR/count"; false' -- true
is "$(cat .dtctl/default/nodes/node0/setup/*/count | wc -l)" 2 'a failed setup is run again'
run dtctl train --setup 'exec sleep 4711' --set setup.timeout=1s -- true
is "$status" 3 'a setup that takes too long is ended'
like "$err" 'takes longer than 1 s \(setup.timeout\)' 'the error names setup.timeout'
gone() { ! pgrep -f 'sleep 4711' >/dev/null; }
ok 'the processes of the setup are ended' wait_for 15 gone
run dtctl train --set 'setup.needs=["../dtctl.toml"]' -- true
is "$status" 2 'a file outside of the folder is refused'
like "$err" "setup.needs: '../dtctl.toml' is not below the current folder" \
    'the error names the file'

# ---- interrupted --------------------------------------------------------------------------------
dtctl train --setup 'echo begun >begun; exec sleep 4712' -- true >"$WORK/out/cut.log" 2>&1 &
pid=$!
begun() { pgrep -f 'sleep 4712' >/dev/null; }
ok 'a setup runs' wait_for 20 begun
kill -TERM "$pid"
wait "$pid"
gone() { ! pgrep -f 'sleep 4712' >/dev/null; }
ok 'a signal to dtctl ends it on the nodes' wait_for 15 gone

# ---- two runs at once ---------------------------------------------------------------------------
slow='echo x >>"$DTCTL_SETUP_DIR/times"; sleep 1'
dtctl train --setup "$slow" -- true >"$WORK/out/a.log" 2>&1 &
pid=$!
run dtctl train --setup "$slow" -- true
is "$status" 0 'two runs with one setup succeed'
ok 'both runs finish' wait "$pid"
is "$(cat .dtctl/default/nodes/*/setup/*/times | wc -l)" 2 'each node was set up once'
run dtctl down -y --force
ok 'down removes the setups' test ! -e .dtctl/default/nodes
done_testing
