#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two to five hosts, each with a bare dtrun, and random faults by a seed: agents and workers are
# killed, ended, frozen and restarted, cables are unplugged, hosts are lost, several at once. Then
# all faults are repaired and the promises of README.md must hold: the run continues with all nodes,
# restarts are counted once each, two groups of workers never run at the same time, a worker is
# ended once, no other process ends, and at the end no process remains.
#
#     SOAK_AT=SCENE tests/soak/elastic.t   one scene alone
# shellcheck disable=SC2317 # called by name
source "${0%/*}/../lib.sh"
hosts_up 5
SOAK_SECONDS=${SOAK_SECONDS:-40} SOAK_SEED=${SOAK_SEED:-1}
FAILED_ONCE=(302 28730686701) # scenes, which run first
WAIT=60           # seconds for anything that takes a few on an idle machine
REJOIN=30         # seconds; dtrun's own default
SETTLED_US=1500000
RESTARTS_MAX=12
PAUSES=(0 0 0.05 0.2 0.7 2 4)

# Workers log their start, a line every 0.1 s, and an order to end:
# TIME WHAT GROUP RANK WORLD_SIZE RESTARTS HOST.PID
cat >worker.sh <<'END'
#!/bin/bash
exec 9<> <(:)
say() {
    echo "${EPOCHREALTIME/[.,]/} $1 $MASTER_ADDR:$MASTER_PORT/$DTCTL_ROUND $RANK $WORLD_SIZE" \
        "$TORCHELASTIC_RESTART_COUNT $HOSTNAME.$$" >>/tmp/beats
}
left=
trap 'say term; left=${left:-2}' TERM
say begin
while [ ! -e /tmp/finish ]; do
    [ ! -e /tmp/fail ] || exit 7
    read -rt 0.1 -u 9
    say beat
    [ -z "$left" ] || [ $((left -= 1)) -gt 0 ] || exit 0
done
END
for i in 1 2 3 4 5; do cp "$BIN/dtrun" worker.sh "node$i/tmp/"; done

# ---- hosts --------------------------------------------------------------------------------------
# Per host: the process of its agent, its start, its faults. Hosts without network; hosts whose
# agent was killed or ended since the last recovery, and hosts that may have been silent.
agents=() since=() done_to=() cut=() dead=() silent=()

agent_start() { # HOST; not with `on`, whose process would be a shell that waits for the agent
    DTRUN_KEY=k TMPDIR=/tmp nsenter --target "$(cat "node$1/holder")" --mount --net --uts \
        /tmp/dtrun \
        --rdzv-backend c10d --rdzv-id x --nnodes "$min:$hosts" --nproc-per-node "$nproc" \
        --max-restarts $RESTARTS_MAX --rdzv-endpoint "$endpoints" --no-python \
        --rdzv-conf "silence=3,rejoin_timeout=$REJOIN" bash /tmp/worker.sh >>"node$1.log" 2>&1 &
    agents[$1]=$! since[$1]=${EPOCHREALTIME/./} done_to[$1]=
}
agent_lives() { kill -0 "${agents[$1]}" 2>/dev/null; }
agent_has_ended() { ! agent_lives "$1"; }
processes() { host_processes "$1" '/tmp/(dtrun|worker.sh)'; } # HOST: those of the run
workers() { host_processes "$1" '^bash./tmp/worker.sh'; }
none_left() {
    local i
    for ((i = 1; i <= hosts; i++)); do [ -z "$(processes "$i")" ] || return 1; done
}

# ---- what happens -------------------------------------------------------------------------------
pick() { picked=$((RANDOM % $1)); } # never in a subshell, which would have numbers of its own

act_kill() { # HOST
    done_to[$1]+=' kill' dead[$1]=1
    kill -KILL "${agents[$1]}" 2>/dev/null
    wait "${agents[$1]}" 2>/dev/null
}
act_term() {
    done_to[$1]+=' term' dead[$1]=1
    kill -TERM "${agents[$1]}" 2>/dev/null
}
act_freeze() {
    silent[$1]=1
    kill -STOP "${agents[$1]}" 2>/dev/null
}
act_thaw() {
    kill -CONT "${agents[$1]}" 2>/dev/null
}
act_cut() {
    cut[$1]=1 silent[$1]=1
    link_down "$1"
}
act_heal() {
    unset "cut[$1]"
    link_up "$1"
}
act_worker() {
    local pids
    mapfile -t pids < <(workers "$1")
    [ ${#pids[@]} -gt 0 ] && kill -KILL "${pids[0]}" 2>/dev/null && failures=$((failures + 1))
}
act_restart() {
    act_kill "$1"
    ended_well "$1"
    agent_start "$1"
}
act_lose() {
    local pid
    act_cut "$1"
    act_kill "$1" # first, so that it sees none of its workers end
    for pid in $(processes "$1"); do kill -KILL "$pid" 2>/dev/null; done
}
ACTIONS=(kill kill term freeze freeze thaw cut cut heal worker worker restart lose)

# An agent ends with what it was ended by.
ended_well() { # HOST
    local status how=${done_to[$1]}
    wait "${agents[$1]}"
    status=$?
    case $status in
    137) [[ $how == *kill* ]] && return ;;
    1) [[ $how == *term* ]] && return ;;
    143) # before it could set its signal handler
        [[ $how == *term* ]] && [ $((${EPOCHREALTIME/./} - since[$1])) -lt 9000000 ] && return ;;
    esac
    fault "the agent of node$1 ended with $status after '${how# }'"
}

# By README.md's rules a run continues with more than half of its nodes, and without those whose
# hosts say that their agents are dead.
must_go_on() {
    local i quiet=0
    for ((i = 1; i <= hosts; i++)); do
        [ -n "${dead[i]-}${silent[i]-}" ] || quiet=$((quiet + 1))
    done
    [ ${#silent[@]} = 0 ] || [ $((2 * quiet)) -gt "$hosts" ]
}
may_happen() { # ACTION HOST: one of four rounds may also break those rules
    local may=1
    local -a was_dead=("${!dead[@]}") was_silent=("${!silent[@]}") i
    case $1 in
    kill | term | restart) dead[$2]=1 ;;
    freeze | cut | lose) silent[$2]=1 ;;
    esac
    must_go_on || may=$daring
    dead=() silent=()
    for i in "${was_dead[@]}"; do dead[i]=1; done
    for i in "${was_silent[@]}"; do silent[i]=1; done
    [ "$may" = 1 ]
}
happens() { # one to four things, with pauses
    local i action host count
    pick 4 && count=$((picked + 1))
    pick 4 && daring=$((picked == 0))
    story="$story;"
    for ((i = 0; i < count; i++)); do
        pick ${#ACTIONS[@]} && action=${ACTIONS[picked]}
        pick "$hosts" && host=$((picked + 1))
        pick ${#PAUSES[@]}
        may_happen "$action" $host || continue
        story="$story $action $host,"
        "act_$action" $host
        [ "$action" = worker ] || quiet=
        actions=$((actions + 1))
        sleep "${PAUSES[picked]}"
    done
}

one_worker_dies() { # alone, so that its restart is counted exactly
    pick "$hosts"
    story="$story; worker $((picked + 1)),"
    act_worker $((picked + 1))
    actions=$((actions + 1))
}
all_is_made_good() {
    local i
    for ((i = 1; i <= hosts; i++)); do
        act_thaw $i
        [ -z "${cut[i]-}" ] || act_heal $i
    done
    for ((i = 1; i <= hosts; i++)); do
        [ -n "${done_to[i]}" ] || continue
        wait_for "$WAIT" agent_has_ended $i || fault "the agent of node$i does not end"
        ended_well $i
        agent_start $i
    done
}
# A run that may fail does so everywhere, and begins anew.
start_what_failed() {
    local i
    for ((i = 1; i <= hosts; i++)); do
        agent_has_ended "$i" || continue
        must_go_on && done_to[i]= || done_to[i]=term
        ended_well "$i" || return
        failed=1
        agent_start "$i"
    done
}

# ---- what must hold -----------------------------------------------------------------------------
fault() { # WHAT
    local i
    faults=$((faults + 1))
    diag "$1"
    diag "$story"
    for ((i = 1; i <= hosts; i++)); do diag "node$i: $(tail -n 12 "node$i.log")"; done
}

# The group of all workers that live, its restarts in $restarts_now; false when it is not whole.
together() {
    local i group rank world restarts pid one=
    local -A ranks=()
    for ((i = 1; i <= hosts; i++)); do
        while read -r _ _ group rank world restarts pid; do
            kill -0 "${pid#*.}" 2>/dev/null || continue
            one=${one:-$group}
            [ "$group" = "$one" ] && [ "$world" = $((hosts * nproc)) ] || return 1
            ranks[$rank]=$pid restarts_now=$restarts
        done < <(tail -n $((3 * nproc)) "node$i/tmp/beats")
    done
    [ ${#ranks[@]} = $((hosts * nproc)) ] || return 1
    group_now=$one
}
settled() { # for a while, so that nothing is under way; or something has gone wrong
    local now=${EPOCHREALTIME/./}
    start_what_failed
    [ "$faults" = 0 ] || return 0
    if ! together || [ "$group_now" != "$group_seen" ]; then
        group_seen=${group_now-} seen_us=$now
        return 1
    fi
    [ $((now - seen_us)) -gt "$SETTLED_US" ]
}
goes_on() { # WHAT
    local i
    group_now='' group_seen=''
    wait_for $((WAIT * 2)) settled || fault "$1: no group of all $hosts nodes"
    [ $faults = 0 ] || return 1
    for ((i = 1; i <= hosts; i++)); do
        [ "$(workers $i | wc -l)" = "$nproc" ] || fault "$1: other workers are left on node$i"
    done
}
# The death of one worker costs one restart; of several deaths, some may fall into one round.
# Counting restarts anew only after a failed run, or after all its agents have ended.
counted() {
    local low=$restarts_before
    [ -z "$quiet" ] || [ "$failures" != 1 ] || low=$((low + 1))
    [ -z "$failed" ] && [ ${#dead[@]} -lt "$hosts" ] || low=0
    local high=$((restarts_before + failures))
    if [ "$restarts_now" -lt "$low" ] || [ "$restarts_now" -gt "$high" ]; then
        fault "restarts: $restarts_now, $restarts_before before, and $failures workers died"
    fi
}
# Over the words of all workers of a scene.
judge() {
    sort -n node*/tmp/beats | awk -v nproc="$nproc" -v min="$min" -v hosts="$hosts" '
        !($3 in first) { first[$3] = $1; world[$3] = $5; order[++groups] = $3
            if ($5 % nproc || $5 < min * nproc || $5 > hosts * nproc) print $3 " has " $5 " ranks" }
        { last[$3] = $1 }
        $5 != world[$3] { print $3 " has " world[$3] " and " $5 " ranks" }
        $4 >= $5 { print $3 " of " $5 " has rank " $4 }
        ($3, $4) in of && of[$3, $4] != $7 { print $3 " has rank " $4 " twice" }
        { of[$3, $4] = $7 }
        $2 == "term" && terms[$7]++ { print $7 " was told to end " terms[$7] " times" }
        END { for (i = 2; i <= groups; i++)
            if (first[order[i]] <= last[order[i - 1]])
                print order[i - 1] " and " order[i] " at one time"
            print groups >"/dev/stderr" }' 2>out/groups | sort | uniq -c | head -n 8
}

# ---- one scene ----------------------------------------------------------------------------------
end_finish() {
    local i
    for ((i = 1; i <= hosts; i++)); do touch "node$i/tmp/finish"; done
}
end_fail() {
    pick "$hosts"
    touch "node$((picked + 1))/tmp/fail"
}
end_stop() {
    local i
    for ((i = 1; i <= hosts; i++)); do act_term "$i"; done
}

scene_begins() { # SEED
    RANDOM=$1
    pick 4 && hosts=$((picked + 2))
    pick "$hosts" && min=$((picked + 1))
    pick 2 && nproc=$((picked + 1))
    endpoints=$(seq -s, -f "$HOSTS_NET.%g" "$hosts")
    agents=() since=() done_to=() cut=() dead=() silent=() faults=0 failed='' restarts_now=0
    story="scene $1: $min:$hosts hosts x $nproc"
    for ((i = 1; i <= 5; i++)); do
        rm -f node$i.log node$i/tmp/{finish,fail,beats}
        touch node$i/tmp/beats
    done
    for ((i = 1; i <= hosts; i++)); do agent_start $i; done
}

scene() { # SEED
    local i n count ends=(finish finish fail stop) end want status
    scene_begins "$1"
    goes_on begin || return
    pick 3
    count=$((picked + 2))
    for ((n = 0; n < count; n++)); do
        dead=() silent=() failures=0 quiet=1 failed='' restarts_before=$restarts_now
        if [ $n = 0 ]; then one_worker_dies; else happens; fi
        all_is_made_good
        goes_on "round $n" || return
        counted
        rounds=$((rounds + 1))
        [ "$restarts_now" -lt $((RESTARTS_MAX - 4)) ] || break
    done
    pick ${#ends[@]}
    end=${ends[picked]} want=1
    [ "$end" != finish ] || want=0
    story="$story; $end"
    "end_$end"
    for ((i = 1; i <= hosts; i++)); do
        wait_for "$WAIT" agent_has_ended $i || fault "the agent of node$i does not end"
        wait "${agents[i]}"
        status=$?
        [ $status = $want ] || fault "the agent of node$i ends with $status instead of $want"
    done
    [ "$end" != fail ] || [ "$(cut -d' ' -f6 node*/tmp/beats | sort -n | tail -n 1)" = \
        $RESTARTS_MAX ] || fault 'not all of the restarts were used'
}

cleanly() { # SEED: a scene, and nothing is left of it
    local i pid bad
    scene "$1"
    [ $faults -gt 0 ] || wait_for "$WAIT" none_left || fault 'something is left running'
    for ((i = 1; i <= hosts; i++)); do
        act_heal $i
        for pid in $(processes $i); do kill -KILL "$pid" 2>/dev/null; done
    done
    wait "${agents[@]}" 2>/dev/null
    bad=$(judge)
    [ -z "$bad" ] || fault "$bad"
    groups=$((groups + $(cat out/groups)))
    scenes=$((scenes + 1))
    [ $faults = 0 ] || diag "repeat: SOAK_AT=$1 $SCRIPT"
    result $((faults == 0)) "$story"
}

scenes=0 rounds=0 actions=0 groups=0
if [ -n "${SOAK_AT-}" ]; then
    cleanly "$SOAK_AT"
    done_testing
fi
for seed in "${FAILED_ONCE[@]}"; do cleanly "$seed"; done
for ((k = 0; SECONDS < SOAK_SECONDS; k++)); do cleanly $((SOAK_SEED * 100 + k)); done
echo "# elastic: seed=$SOAK_SEED $scenes scenes, $rounds rounds, $actions actions, $groups groups"
done_testing
