#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output in a real terminal (tmux): the demonstration with its live line, Ctrl-C that detaches
# and Ctrl-C twice that stops, a shell on a node that follows the window's size.
# Clock: the content of a screen at a moment.
# shellcheck disable=SC2016,SC2317,SC2012 # the workers' shell expands; called by ok; plain names
source "${0%/*}/../lib.sh"
command -v tmux >/dev/null || skip_all 'there is no tmux here'

tm() { tmux -S "$WORK/tmux" -f /dev/null "$@"; }
screen_text() { tm capture-pane -p -J -S -200; }
shows() { screen_text | grep -qE -- "$1"; }
type_line() { tm send-keys "$1" Enter; }
tm_stop() { tm kill-server 2>/dev/null; }
at_end tm_stop
tm new-session -d -x 100 -y 30 \
    "cd '$WORK'; exec env HOME='$HOME' PATH='$PATH' PS1='ready> ' bash --norc --noprofile"
wait_for 5 shows '^ready> '

# ---- the demonstration, cut short ---------------------------------------------------------------
cat >dtctl.toml <<'END'
[train]
model = "mlp"
dataset = "shapes"
train_size = 16000
test_size = 500
epochs = 2
END
tm pipe-pane 'cat >screen.log' # a line that is overwritten at once may never be seen
type_line 'dtctl up && dtctl train; echo "ended with $?"'
ok 'the agent is put there, with a row per node' \
    wait_for 10 shows '(connect|programs) +node1 .* in '
ok 'the run finishes' wait_for 180 shows 'ended with 0'
ok 'a live line says how far it is' grep -qaE \
    'epoch [12]/2 \[[# ]{16}\] +[0-9]+ %  loss [0-9.]+  acc [0-9.]+ %  [0-9]+ images/s' screen.log
ok 'the trainer'"'"'s lines have no label' shows '^Epoch: \[0\]\['
ok "the last screen names the model's folder" \
    shows 'model +\.dtctl/default/runs/mlp-.*/output/model'
ok 'the last screen has the result' shows 'result +[0-9.]+ % top-1'
is "$(screen_text | grep -cE 'ranks running|^epoch')" 0 'the live line is gone'
is "$(screen_text | grep '^Epoch' | sed 's|…$|.|' | awk 'length > 100')" '' \
    'no line of the trainer wraps'
ok 'the log has them whole' \
    grep -qE 'Acc@5 +[0-9.]+ \( *[0-9.]+\)$' .dtctl/default/runs/*/logs/node0/0.out

run env TERM=dumb script -qec 'dtctl train -- sh -c "sleep 0.5"' /dev/null
is "$status/$(grep -c $'\033' <<<"$out")" 0/0 'TERM=dumb: no cursor is moved'
run env -u TERM script -qec 'dtctl train -- sh -c "sleep 0.5"' /dev/null
is "$status/$(grep -c $'\033' <<<"$out")" 0/0 'no TERM: no cursor is moved'

# ---- Ctrl-C leaves ------------------------------------------------------------------------------
tm clear-history
cat >turns.sh <<'END'
for i in 1 2 3 4 5 6; do
    echo turn $i
    printf '\rbar %d' $i >&2
    sleep 0.5
    [ $i != 5 ] || until [ -e "$1" ]; do sleep 0.1; done
done
END
type_line 'clear; dtctl train --name left --file turns.sh -- sh turns.sh $PWD/go; echo left with $?'
wait_for 10 shows 'turn 2'
ok 'a progress bar moves below the lines' wait_for 5 shows '^\[node0:0\] bar [2-6]'
ok 'the live line counts the ranks' wait_for 5 shows ' 2 of 2 ranks running'
tm send-keys C-c
ok 'Ctrl-C says that it leaves' wait_for 2 shows 'detached; the run continues'
ok 'dtctl says how to follow the run' shows 'follow:  dtctl logs -f left-'
ok 'dtctl says how to stop the run' shows 'stop:    dtctl stop left-'
ok 'leaving a run is no failure' wait_for 4 shows 'left with 0'
run dtctl ps
like "$out" 'left-.*running' 'the run is still active'
touch go
run dtctl logs -f
is "$status" 0 'the run can be followed again'
is "$(grep -c 'turn' <<<"$out")" 12 'the log has all lines'

# ---- Ctrl-C twice stops -------------------------------------------------------------------------
tm clear-history
echo 'echo begun; sleep 60' >long.sh
type_line 'clear; dtctl train --name stopped --nodes 1 --file long.sh -- sh long.sh; '\
'echo "stopped with $?"'
wait_for 10 shows 'begun'
ok 'a single rank is counted in the singular' wait_for 5 shows ' 1 of 1 rank running'
tm send-keys C-c
wait_for 2 shows 'Ctrl-C again'
tm send-keys C-c
ok 'a second Ctrl-C asks to stop' wait_for 2 shows 'stopping the run on all nodes'
ok 'dtctl follows the stopped run to its end' wait_for 20 shows 'stopped with 1'
ok 'the last screen says stopped' shows 'stopped-.*: stopped, 1 rank '

# ---- a shell on a node --------------------------------------------------------------------------
tm clear-history
type_line 'clear; dtctl ssh node1; echo "shell gave $?"'
shell_answers() {
    type_line 'tty; pwd; stty size'
    sleep 0.3
    shows '^/dev/pts'
}
ok 'a shell has a terminal' wait_for 10 shell_answers
ok "the shell is in the node's folder" shows 'nodes/node1$'
ok 'the terminal has the size of the window' shows '^30 100'
tm resize-window -x 80 -y 24
sleep 0.3
type_line 'stty size'
ok 'the terminal follows a change of the size' wait_for 5 shows '^24 80'
type_line "sh -c 'echo begun; exec sleep 100'" # the terminal is that process's when it prints
ok 'a command runs in the shell' wait_for 5 shows '^begun'
tm send-keys C-c
type_line 'echo "interrupted: $?"'
ok 'Ctrl-C reaches the node' wait_for 5 shows '^interrupted: 130'
type_line 'exit 3'
ok "the shell's status is returned" wait_for 5 shows 'shell gave 3'
type_line 'stty -a | grep -o " icanon"'
ok 'the terminal is restored' wait_for 5 shows '^ icanon'
done_testing
