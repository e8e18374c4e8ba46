#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command of a run: scripts without an interpreter, a shell line, hyperparameters, one process
# for a task, and the time limit.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

command -v python3 >/dev/null || skip_all 'there is no python3'
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- scripts and shell lines --------------------------------------------------------------------
cat >show.py <<'E2'
import os, sys
print("argv", sys.argv[1:], os.environ.get("SM_HPS"), os.environ.get("SM_HP_BATCH_SIZE"))
E2
echo 'echo "bash $BASH_VERSION, $1"' >show.sh
printf '#!/bin/sh\necho "own first line, $1"\n' >own.sh
chmod +x own.sh

run dtctl train --nodes 1 -- show.py a 'b c'
like "$out" "argv \['a', 'b c'\] None None" 'a .py file runs with python3'
run dtctl train --nodes 1 -- show.sh word
like "$out" 'bash [0-9.]+.*, word' 'a .sh file runs with bash'
run dtctl train --nodes 1 -- ./own.sh word
like "$out" 'own first line, word' 'an executable that is named with a folder runs by itself'
run dtctl train --shell 'cat show.sh | wc -l; echo "rank $RANK of $WORLD_SIZE" | tr a-z A-Z'
is "$(grep -cE '\] RANK [01] OF 2$' <<<"$out")" 2 'a shell line has pipes and variables'
like "$err" 'sends +.*current folder' 'the files that the line names are sent'
run dtctl train --shell 'exit 7' --nodes 1 --exit-code
is "$status" 7 "the command's status is returned"

# ---- files that are sent -------------------------------------------------------------------------
mkdir -p code/deep && touch code/a code/deep/b
for given in code/ code; do
    run dtctl train --nodes 1 --file $given -- sh -c ls
    echo "$given: $(sed '/^$/,$d' <<<"$out" | paste -sd' ')" >>sent.txt
done
is "$(cat sent.txt)" $'code/: a deep\ncode: code' \
    'a slash at the end of --file sends the content of the folder, none the folder'

# ---- hyperparameters ----------------------------------------------------------------------------
run dtctl train --nodes 1 --hp batch-size=32 --hp lr=3e-5 --hp 'name="q"' -- show.py in.bin
like "$out" "argv \['in.bin', '--batch-size', '32', '--lr', '3e-5', '--name', '\"q\"'\]" \
    'hyperparameters stand behind the arguments'
like "$out" '\{"batch-size":32,"lr":3e-05,"name":"\\"q\\""\} 32' \
    'hyperparameters are in the environment'
run dtctl train --nodes 1 --shell 'echo "all: $*"' --hp epochs=3
like "$out" 'all: --epochs 3' 'a shell line has them as its arguments'

# ---- lines of Python come when they are printed -------------------------------------------------
run env -u PYTHONUNBUFFERED dtctl train --nodes 1 --shell 'echo "unbuffered: $PYTHONUNBUFFERED."'
like "$out" 'unbuffered: 1\.' 'commands have PYTHONUNBUFFERED'
run dtctl train --nodes 1 --env PYTHONUNBUFFERED= --shell 'echo "unbuffered: $PYTHONUNBUFFERED."'
like "$out" 'unbuffered: \.' '[env] goes before it'

# ---- a flag and the file -------------------------------------------------------------------------
cat >hp.toml <<'E2'
[hyperparameters]
gamma = "0.7"
[train]
command = ["show.py"]
[task]
once = true
E2
run dtctl train -f hp.toml --hp gamma=0.5
is "$(grep -c "'--gamma', '0.5'" <<<"$out")" 1 'a flag goes before the file'
like "$out" 'finished, 1 rank on 1 node' 'the run has one rank on one node'
run dtctl train -f hp.toml --shell 'echo instead'
like "$out" 'instead' 'a shell line on the command line replaces the command of the file'

# ---- refused before anything starts -------------------------------------------------------------
refused() { # REGEX DESCRIPTION ARGUMENT…
    local regex=$1 name=$2
    shift 2
    run dtctl train "$@"
    is "$status" 2 "$name is refused"
    like "$err" "$regex" 'the error has the reason'
}
refused 'a command is given too \(after --\)' 'a shell line and a command' --shell true -- true
refused 'task.once runs one process' '--once with --nodes' --once --nodes 2 -- true
refused 'native trainer has keys of its own .*--set train.lr=1' '--hp for the trainer' --hp lr=1
refused "'a-b' and 'a.b' would both have the variable SM_HP_A_B" 'a twin' \
    --hp a-b=1 --hp a.b=2 -- true
refused "'-x' is not a valid name" 'an odd name' --hp=-x=1 -- true
refused 'above the maximum 365d' 'a limit of ages' --max-time 400d -- true

# ---- the time limit -----------------------------------------------------------------------------
cat >long.sh <<'E2'
trap 'echo notice; echo state >"$DTCTL_STATE_DIR/kept.$RANK"' USR1
trap 'echo term; exit 3' TERM
echo begun
while :; do sleep 0.05; done
E2
run dtctl train --max-time 4s --notice-signal USR1 -- long.sh
is "$status" 1 'a run that takes too long is no success'
like "$out" 'time limit reached: 4 s' 'the reason is said'
like "$out" ': stopped, 2 ranks' 'the run counts as stopped'
is "$(grep -c '\] notice$' <<<"$out")" 2 'every rank got the notice signal before'
is "$(find .dtctl/default/runs -name 'kept.*' -path '*/output/*' | wc -l)" 2 'the state was brought'
run dtctl train --detach --max-time 2s --shell 'sleep 600'
is "$status" 0 'a detached run with a limit starts'
# shellcheck disable=SC2317 # called through wait_for
is_over() { dtctl ps --all --json | head -n 1 | grep -q '"state":"stopped"'; }
ok 'a detached run is stopped at its limit without a follower' wait_for 30 is_over
run dtctl train --max-time 60s -- true
is "$status" 0 'a limit that is not reached changes nothing'
run dtctl down -y --force
is "$status" 0 'down succeeds'
done_testing
