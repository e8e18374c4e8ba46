#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The start of a run fails, or is interrupted, once agents have begun: they are stopped, and a run
# is never recorded as failed while an agent of it works. The program of a node is a wrapper here,
# which lets one verb fail or wait.
# shellcheck disable=SC2016,SC2317 # the wrapper expands it; called by name
source "${0%/*}/../lib.sh"
dtctl up -q >up.log || bail_out 'up failed'
root=$PWD/.dtctl/default/nodes

# wrap NODE: the real program becomes NODE/bin/real. The answer to hello names the wrapper, and
# every other verb finds what to do in NODE/VERB.
wrap() {
    local program
    program=$(find "$root/$1/bin" -name 'dtrun-*')
    mv "$program" "$root/$1/bin/real"
    cat >"$program" <<-END
		#!/usr/bin/env bash
		real='$root/$1/bin/real' here='$root/$1'
		shift
		verb=\$1
		if [ "\$verb" = hello ]; then
		    "\$real" --node "\$@" | {
		        IFS= read -r line
		        printf '%s\n' "\${line//"\$real"/"\$0"}"
		        exec cat
		    }
		    exit
		fi
		[ ! -f "\$here/\$verb" ] || . "\$here/\$verb"
		exec "\$real" --node "\$@"
	END
    chmod 755 "$program"
}
wrap node0
wrap node1
# The log of node1's agent cannot be opened, which is found out once the list of nodes is there.
bad_log='for i; do [ -z "$next" ] || id=$i; next=; [ "$i" != --run ] || next=1; done
    mkdir -p "$here/runs/$id/agent.log"'
agents() { pgrep -f "^$root/node[01]/bin/real --node start" | wc -l; }
no_agent() { [ "$(agents)" = 0 ]; }
state_of() { sed -n 's/^state = "\(.*\)"/\1/p' ".dtctl/default/runs/$1/run.toml"; }
newest() { basename "$(ls -d .dtctl/default/runs/"$1"-*)"; }

# ---- a node fails after the list of nodes -------------------------------------------------------
echo "$bad_log" >"$root/node1/start"
run dtctl train --name half -- sleep 600
is "$status" 3 'a start that fails on one node fails' || diag "$err"
like "$err" "'node1': the agent did not start: cannot write .*agent.log" \
    'the error names the reason'
like "$err" 'calling the run off on 2 nodes' 'both nodes are asked to stop'
is "$(agents)" 0 'no agent works when the command ends'
is "$(state_of "$(newest half)")" failed 'the run has failed'

# ---- the other one does not answer --------------------------------------------------------------
echo 'exit 1' >"$root/node0/stop"
run dtctl train --name deaf -- sleep 600
is "$status" 3 'a start that cannot be called off fails' || diag "$err"
deaf=$(newest deaf)
is "$(agents) $(state_of "$deaf")" '1 started' 'a run whose agent works is not recorded as failed'
like "$err" "run '$deaf' may still be active on node0, .*\(try: dtctl stop $deaf\)" \
    'the error names the node and the remedy'
run dtctl down -y
is "$(agents):$status" 1:1 'down does not end it' || diag "$err"
rm "$root/node0/stop" "$root/node1/start"
run dtctl stop "$deaf"
ok 'dtctl stop ends the agent' wait_for 30 no_agent || diag "$err"

# called_off NAME POINT END: a signal at a point that node1 marks with begun and leaves with go
called_off() {
    local pid
    dtctl train --name "$1" -- sleep 600 >"$1.out" 2>"$1.err" &
    pid=$!
    ok "$2" wait_for 30 test -e "$root/node1/begun"
    kill -TERM $pid
    ok "$1: the run is called off" wait_for 30 grep -q 'calling the run off on 2 nodes' "$1.err"
    : >"$root/node1/go"
    wait $pid
    is $? 143 "$1: the command ends with the signal" || diag "$(cat "$1.err")"
    is "$(agents) $(state_of "$(newest "$1")")" '0 failed' "$3"
}

# ---- a signal while the last agent begins -------------------------------------------------------
# Its answer comes when the file go is there; the agent works before that.
echo '"$real" --node "$@" | {
    IFS= read -r line && echo "$line"
    IFS= read -r line && : >"$here/begun"
    until [ -e "$here/go" ]; do sleep 0.05; done
    echo "$line"
}
exit' >"$root/node1/start"
called_off asked 'the last agent begins' 'no agent works, and the run has failed'
rm "$root/node1/begun" "$root/node1/go"

# ---- a signal before the last agent begins ------------------------------------------------------
# The list of nodes is on its way to it: that start has to end before its agent can be stopped.
cat >hold.py <<'END'
# FOLDER: passes on the job, and the list of nodes once the file go is there
import os, sys, time

def read(n):
    data = b""
    while len(data) < n:
        data += os.read(0, n - len(data)) or sys.exit(1)
    return data

for record in "job", "nodes":
    head = read(4)
    body = read(int.from_bytes(head, "little"))
    if record == "nodes":
        open(sys.argv[1] + "/begun", "w").close()
        while not os.path.exists(sys.argv[1] + "/go"):
            time.sleep(0.02)
    os.write(1, head + body)
END
echo "python3 '$PWD/hold.py' \"\$here\" | \"\$real\" --node \"\$@\"; exit" >"$root/node1/start"
called_off early 'the list of nodes is on its way' 'no agent begins later'
rm "$root/node1/start"
run dtctl down -y
is "$status" 0 'nothing is in the way of down' || diag "$err"
done_testing
