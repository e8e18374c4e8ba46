#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A random walk over results: two clusters of two folders share two hosts, and train, leave, stop,
# fetch, gc, go down and change their hosts in any order, while nodes lose files and dtctl is
# killed. The files of each rank of each run exist somewhere until their owner used --force or their
# node lost them. A summary has its own run's figure. The status is never 0 when a part is missing.
#
#     SOAK_SEED=7 tests/soak/results.t      the same walk again
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; called through wait_for
source "${0%/*}/../lib.sh"
hosts_up 2

SOAK_SECONDS=${SOAK_SECONDS:-25} SOAK_SEED=${SOAK_SEED:-1}
RANDOM=$((SOAK_SEED % 32768))
STEP_SECONDS_MAX=60
declare -A folder figure ranks excused # by run; excused[RUN RANK]: lost or given up
declare -A seen
runs=() rounds=0 faults=0 made=0 steps=''

one_of() { # WORD…: sets $one
    local words=("$@")
    one=${words[RANDOM % $#]}
}

fault() { # WHAT
    faults=$((faults + 1))
    diag "step $rounds ($where $step): $1; status $status"
    diag "$(tail -n 8 "$WORK/out/step.err")"
    diag "steps: $steps"
    diag "repeat: SOAK_SEED=$SOAK_SEED SOAK_SECONDS=$SOAK_SECONDS $SCRIPT"
}

dt() { # ARGUMENT…: a dtctl in the folder of this step
    (cd "$WORK/$where" && exec timeout -k 5 "$STEP_SECONDS_MAX" dtctl "$@") \
        >"$WORK/out/step.out" 2>"$WORK/out/step.err" </dev/null
    status=$?
    [ "$status" -lt 124 ] || fault "dtctl $* ended with $status"
}

nodes_of() { # RUN: the hosts' numbers, by rank
    sed -n 's/^nodes = //p' "$WORK/${folder[$1]}/.dtctl/default/runs/$1/run.toml" | grep -o '[0-9]'
}
on_node() { echo "$WORK/node$3/root/.dtctl/nodes/node$3/runs/$1/output/p-$2"; }
holds() { [ "$(cat "$1" 2>/dev/null)" = "${figure[$2]}-$3" ]; }
is_here() { # RUN RANK
    local file
    for file in "$WORK/${folder[$1]}/.dtctl/default/runs/$1/output"/{,*/}"p-$2"; do
        if holds "$file" "$1" "$2"; then return 0; fi
    done
    return 1
}
is_there() { # RUN RANK
    local i rank=0
    for i in $(nodes_of "$1"); do
        if [ "$rank" = "$2" ] && holds "$(on_node "$1" "$2" "$i")" "$1" "$2"; then return 0; fi
        rank=$((rank + 1))
    done
    return 1
}

check() { # everything that was ever made
    local run rank
    for run in "${runs[@]}"; do
        for ((rank = 0; rank < ranks[$run]; rank++)); do
            [ -z "${excused[$run $rank]-}" ] || continue
            is_here "$run" "$rank" || is_there "$run" "$rank" || {
                fault "the results of rank $rank of $run are lost"
                excused[$run $rank]=reported
            }
        done
    done
}

check_figure() { # RUN: a summary that is here has its own figure
    local file=$WORK/${folder[$1]}/.dtctl/default/runs/$1/summary.json other
    [ -s "$file" ] || return 0
    for other in "${runs[@]}"; do
        [ "$other" = "$1" ] || ! grep -q "\"last\":${figure[$other]}[,.}]" "$file" ||
            fault "the summary of $1 has the figure of $other"
    done
    grep -q "${figure[$1]}" "$file" || fault "the summary of $1 lacks its figure"
}

check_whole() { # RUN: dtctl said 0
    local rank
    for ((rank = 0; rank < ranks[$1]; rank++)); do
        is_here "$1" "$rank" || fault "0 for $1, and rank $rank's part is not here"
    done
    check_figure "$1"
}

# ---- steps --------------------------------------------------------------------------------------
is_up() { [ -e "$WORK/$where/.dtctl/default/cluster.toml" ]; }
bring_up() { is_up || dt up -y --host root@node1 --host root@node2; }
start() { # SECONDS FLAG…: sets $run
    local seconds=$1 n
    shift
    bring_up
    made=$((made + 1))
    local number=$((1000 + made))
    dt train --name "w$made" --metric 'v=v=([0-9]+)' --nproc-per-node 1 "$@" -- sh -c \
        'echo $0-$RANK >$DTCTL_OUTPUT_DIR/p-$RANK; echo v=$0; sleep '"$seconds" "$number"
    run=$(cd "$WORK/$where/.dtctl/default/runs" 2>/dev/null && echo "w$made"-*)
    [ -e "$WORK/$where/.dtctl/default/runs/$run/run.toml" ] || run=
    if [ -z "$run" ]; then return; fi
    folder[$run]=$where figure[$run]=$number
    n=$(nodes_of "$run" | wc -l)
    ranks[$run]=$n
}
begun() { local i; for ((i = 0; i < ranks[$run]; i++)); do is_there "$run" "$i" || return 1; done; }
over() { # RUN: by its nodes
    local i file
    for i in $(nodes_of "$1"); do
        file=$WORK/node$i/root/.dtctl/nodes/node$i/runs/$1/status.json
        grep -qE '"state":"(finished|failed|stopped)"' "$file" || return 1
    done
}
pick() { # sets $run to one of this folder
    local mine=() r
    for r in "${runs[@]}"; do [ "${folder[$r]}" != "$where" ] || mine+=("$r"); done
    run=
    [ ${#mine[@]} = 0 ] || { one_of "${mine[@]}" && run=$one; }
}
excuse() { # RUN RANK WHY: unless it is here
    is_here "$1" "$2" || excused[$1 $2]=$3
}

step_train() {
    start 0
    [ -n "$run" ] || return
    [ "$status" = 0 ] && runs+=("$run") && check_whole "$run"
}
step_leave() {
    start 0 --detach
    [ "$status" = 0 ] && [ -n "$run" ] || return
    wait_for 20 over "$run" || fault "$run does not end"
    runs+=("$run")
}
step_stop() {
    start 60 --detach
    [ "$status" = 0 ] && [ -n "$run" ] || return
    wait_for 20 begun || fault "$run does not begin"
    runs+=("$run")
    dt stop "$run"
    [ "$status" = 0 ] || fault 'stop fails'
}
step_fetch() {
    pick
    [ -n "$run" ] && is_up || return
    dt fetch "$run"
    [ "$status" != 0 ] || check_whole "$run"
}
step_kill() { # a fetch that is killed
    pick
    [ -n "$run" ] && is_up || return
    { (cd "$WORK/$where" && timeout -s KILL "0.0$((1 + RANDOM % 9))" dtctl fetch "$run"); } \
        >/dev/null 2>&1 # bash, too, reports that it was killed
}
step_gc() { ! is_up || dt gc --keep 0 --older-than 0s; }
step_down() { dt down -y; }
step_force() {
    local run rank
    dt down -y --force
    for run in "${runs[@]}"; do
        for ((rank = 0; rank < ranks[$run]; rank++)); do
            [ "${folder[$run]}" != "$where" ] || excuse "$run" "$rank" forced
        done
    done
}
step_hosts() {
    is_up || return
    one_of node1 node2 'node[1-2]'
    dt up -y --host "root@$one"
}
step_lose() { # a node loses its part of a run, or all that dtctl has there
    local i rank r nodes all=$((RANDOM % 4 == 0))
    pick
    [ -n "$run" ] || return
    mapfile -t nodes < <(nodes_of "$run")
    one_of "${nodes[@]}"
    local lost=$one
    for r in "${runs[@]}"; do
        [ "$r" = "$run" ] || [ "$all" = 1 ] || continue
        rank=0
        for i in $(nodes_of "$r"); do
            [ "$i" != "$lost" ] || excuse "$r" "$rank" 'lost by its node'
            rank=$((rank + 1))
        done
    done
    if [ "$all" = 1 ]; then
        rm -rf "$WORK/node$lost/root/.dtctl"
    else
        rm -rf "$WORK/node$lost/root/.dtctl/nodes/node$lost/runs/$run"
    fi
}

# ---- the walk -----------------------------------------------------------------------------------
for where in one two; do
    mkdir "$WORK/$where"
    printf '[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@node[1-2]"]\n' \
        >"$WORK/$where/dtctl.toml"
done
end=$((SECONDS + SOAK_SECONDS))
while [ "$SECONDS" -lt "$end" ] && [ "$faults" -lt 3 ]; do
    rounds=$((rounds + 1)) status=0
    one_of one one two
    where=$one
    one_of train leave leave stop fetch fetch kill gc down hosts hosts force lose
    step=$one
    steps+=" $where:$step"
    seen[$where $step]=1
    "step_$step"
    check
done
is "$faults" 0 'results exist until their owner or their node removes them'
ok "results were at risk (${#runs[@]} runs)" test "${#runs[@]}" -gt 2
for where in one two; do dt down -y --force; done
echo "# results: seed=$SOAK_SEED rounds=$rounds states=${#seen[@]} faults=$faults"
done_testing
