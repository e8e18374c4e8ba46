#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tasks: dtctl run takes them in order, finished runs stand in, a changed part runs again with what
# comes after it, and a failed task ends the command.
# shellcheck disable=SC2016 # the workers' shell expands
source "${0%/*}/../lib.sh"

mkdir folder && cd folder || exit 1
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'
cat >dtctl.toml <<'E2'
[env]
COMMON = "1"
[inputs.corpus]
source = "corpus"
[tasks.train]
command = ["work.sh", "train"]
after = ["prep"]
env = { OWN = "2" }
[tasks.prep]
shell = 'cat $DTCTL_INPUT_CORPUS >$DTCTL_OUTPUT_DIR/data'
once = true
E2
echo 'echo "$1 task=$DTCTL_TASK prep=${DTCTL_TASK_PREP%%-*} common=$COMMON own=$OWN"' >work.sh
echo words >corpus

run_of() { # TASK: its newest run
    dtctl ps --all --json | grep -o "\"$1-2[^\"/]*\"" | tr -d '"' | sort | tail -1
}
reused() { # tasks of the last dtctl run for which a finished run was reused
    grep -o "task '[a-z]*' is done" <<<"$err" | cut -d"'" -f2 | xargs
}

# ---- the order, and what is reused --------------------------------------------------------------
run dtctl run --dry-run
like "$err" 'prep \(1 of 2\).*train \(2 of 2\), after prep' '--dry-run prints the order'
is "$(dtctl ps --all --json | wc -l)" 0 '--dry-run runs no task'
run dtctl run
is "$status" 0 'dtctl run ends well'
like "$err" 'task +prep \(1 of 2\).*task +train \(2 of 2\)' 'the tasks run in their order'
is "$(grep -c 'train task=train prep=prep common=1 own=2' <<<"$out")" 2 \
    'a task has the values of the file and its own'
is "$(cat ".dtctl/default/runs/$(run_of prep)/output/data")" words 'the first task has its output'
run dtctl run
is "$status $(reused)" '0 prep train' 'finished runs are reused for both tasks'
run dtctl run --json
is "$(grep -c '"event":"task".*"stood_in":true' <<<"$out")" 2 '--json says it, too'

# ---- what runs again ----------------------------------------------------------------------------
first=$(run_of prep)
echo '# a comment' >>work.sh
run dtctl run
is "$status $(reused)" '0 prep' 'a changed script runs its own task again'
like "$err" "is not reused: its files changed: 'work.sh'" 'the message names the file'
echo more >>corpus
run dtctl run
is "$status $(reused)" '0 ' 'a changed input runs its task and the task after it'
is "$([ "$(run_of prep)" != "$first" ] && echo new)" new 'the task has a new run'
run dtctl run --task prep --force
is "$status $(reused)" '0 ' '--force runs a task'
run dtctl run
is "$status $(reused)" '0 prep train' 'a forced run with the same key changes no later task'
rm -rf ".dtctl/default/runs/$(run_of train)/output"
run dtctl train --task train --if-changed
is "$status $(reused)" '0 ' 'without its results no run is reused'
like "$err" 'does not hold its results any more' 'the message names the missing results'

# ---- failures -----------------------------------------------------------------------------------
cat >fails.toml <<'E2'
[tasks.a]
shell = "exit 3"
exit_code = true
[tasks.b]
shell = "echo never"
after = ["a"]
E2
run dtctl run fails.toml
is "$status" 3 'the status is that of the task that failed'
like "$err" "task 'a' failed; not started: b" 'the later tasks are named'
unlike "$out" never 'the later tasks do not run'
run dtctl train -f fails.toml --task b
is "$status" 1 'a task does not start before the earlier one has finished'
like "$err" "task 'a' has no finished run" 'the message names the earlier task'

# ---- wrong files --------------------------------------------------------------------------------
printf '[tasks.x]\nnodez = 2\nname = "y"\n[tasks.x.cluster]\nnodes = 1\n' >wrong.toml
run dtctl run wrong.toml
is "$status" 2 'a wrong file is refused'
like "$err" "wrong.toml:2:1: tasks.x.nodez: unknown key \(did you mean 'nodes'\?\)" \
    'an unknown key is refused'
like "$err" 'wrong.toml:3:1: tasks.x.name: cannot be set here' 'a key that no task may have'
like "$err" 'wrong.toml:4:10: tasks.x.cluster: cannot be set here' \
    'a table of the whole file is refused in a task'
printf '[tasks.z]\nnodes = "none"\n' >wrong.toml
run dtctl run wrong.toml
like "$err" "task 'z': wrong.toml:2:9: train.nodes: " 'a wrong value names the task'
printf '[tasks.a]\nshell = "x"\nafter = ["b"]\n[tasks.b]\nshell = "y"\nafter = ["a"]\n' >wrong.toml
run dtctl run wrong.toml
like "$err" "tasks wait for each other: 'a' after 'b' after 'a'" 'a circle is refused'
printf '[tasks.a]\nshell = "echo >ran"\n[tasks.b]\nshell = "x"\ncommand = ["y"]\n' >wrong.toml
run dtctl run wrong.toml
like "$err" "task 'b': wrong.toml:4:9: train.shell: a command is given too" \
    'two commands of one task are refused'
ok '  before the first task runs' test -z "$(find . -name ran)"
# refused_names TEXT MESSAGE: both for the file as it is checked, and for its tasks
refused_names() {
    printf %b "$1" >wrong.toml
    for verb in 'config check' 'run --dry-run'; do
        # shellcheck disable=SC2086 # words
        run dtctl $verb -f wrong.toml
        like "$status:$err" "^2:.*wrong.toml:$2" "two names of one variable are refused by $verb"
    done
}
refused_names '[tasks.a-b]\nshell = "x"\n[tasks.a_b]\nshell = "y"\n' \
    "3:8: tasks 'a-b' and 'a_b' would both have the variable DTCTL_TASK_A_B"
refused_names '[tasks.a]\nshell = "x"\n[inputs.my-x]\nsource = "."\n[inputs.My_X]\nsource = "."\n' \
    "5:1: inputs 'my-x' and 'My_X' would both have the variable DTCTL_INPUT_MY_X"
refused_names '[tasks.a]\nshell = "x"\n[inputs.x-list]\nsource = "."\n[inputs.x]\nsource = "."\n' \
    "5:1: inputs 'x-list' and 'x' would both have the variable DTCTL_INPUT_X_LIST"
refused_names '[tasks.a]\nshell = "x"\n[hyperparameters]\na-b = 1\na_b = 2\n' \
    "3:1: hyperparameters 'a-b' and 'a_b' would both have the variable SM_HP_A_B"
printf '[tasks.a]\nshell = "x"\n[tasks.b]\nshell = "y"\nafter = ["a"]\n' >twice.toml
printf '[tasks.b.inputs.d]\nsource = "run:a/output"\n' >>twice.toml
run dtctl run twice.toml --dry-run
like "$out$err" ' b \(2 of 2\), after a$' 'a task that is named twice comes before once'
run dtctl run --task perp
like "$err" "has no task 'perp' \(did you mean 'prep'\?\)" 'an unknown task is refused'
run dtctl train --task perp
like "$err" "has no task 'perp' \(did you mean 'prep'\?\)" 'dtctl train refuses it, too'
printf '[env]\nA = "1"\n' >none.toml
run dtctl run none.toml
like "$err" 'has no \[tasks.NAME\]' 'a file without tasks is refused'

# ---- signals ------------------------------------------------------------------------------------
sed 's/exit 3/echo up; exec sleep 60/' fails.toml >long.toml
dtctl run long.toml >long.out 2>&1 &
pid=$!
ok 'a task runs' wait_for 30 grep -q '\] up' long.out
kill -TERM "$pid"
wait "$pid"
is "$?" 1 'SIGTERM ends the task and the command'
like "$(cat long.out)" "task 'a' failed; not started: b" 'the later task is not started'

# A record without an end: dtctl was killed while it followed the run.
sed -i 's/^state = .*/state = "started"/' ".dtctl/default/runs/$(run_of a)/run.toml"
run dtctl run long.toml
like "$err" "run 'a-[^']*' of this task may be going on .*logs -f a-" \
    'a run that may be active is named'
like "$err" "task 'a' failed; not started: b" 'the task of that run is not started again'

# ---- state that later runs begin with -----------------------------------------------------------
count='n=$(cat $DTCTL_STATE_DIR/n 2>/dev/null || echo 0)
    echo $((n + 1)) >$DTCTL_STATE_DIR/n; echo "n=$n"'
for n in 0 1; do
    run dtctl train --nodes 1 --name kept --set state.keep=task --shell "$count"
    like "$out" "n=$n" "state.keep = task: run $((n + 1)) begins with the state of the one before"
done
run dtctl train --nodes 1 --name kept --shell "$count"
like "$out" 'n=0' 'state.keep = run: a run after a finished one begins without state'
done_testing
