#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtrun in a real Slurm: a controller, and two namespace hosts with a slurmd each. Also under Open
# MPI's mpirun over the same hosts, where that is installed.
source "${0%/*}/../lib.sh"
PATH=$PATH:/usr/sbin:/sbin
for program in slurmctld slurmd srun munged; do
    command -v $program >/dev/null ||
        skip_all "no $program here (Debian's slurmctld, slurmd, slurm-client, munge)"
done
hosts_up 2

# ---- a cluster ----------------------------------------------------------------------------------
cat >"$WORK/slurm.conf" <<-END
	ClusterName=test
	SlurmctldHost=operator($HOSTS_NET.254)
	SlurmUser=root
	SlurmdUser=root
	AuthType=auth/munge
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_CPU
	MpiDefault=none
	ReturnToService=2
	KillWait=5
	SlurmdParameters=config_overrides
	StateSaveLocation=/run/slurm/state
	SlurmdSpoolDir=/run/slurm/spool
	SlurmctldPidFile=/run/slurm/slurmctld.pid
	SlurmdPidFile=/run/slurm/slurmd.pid
	NodeName=node[1-2] CPUs=8 State=UNKNOWN
	PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
head -c 1024 /dev/urandom >"$WORK/munge.key"
export SLURM_CONF=/run/slurm/slurm.conf

# service WHERE… -- DAEMON: files and munged for one machine, then the daemon, all in its /run
service() {
    local where=()
    while [ "$1" != -- ]; do where+=("$1") && shift; done
    shift
    "${where[@]}" mkdir -p -m 755 /run/slurm/state /run/slurm/spool /run/munge
    "${where[@]}" sh -c 'umask 077; cat >/run/munge/key' <"$WORK/munge.key"
    "${where[@]}" sh -c 'cat >/run/slurm/slurm.conf' <"$WORK/slurm.conf"
    # No control groups are used; left to itself, slurmd looks for a mounted tree all the same.
    "${where[@]}" sh -c 'echo CgroupPlugin=cgroup/v1 >/run/slurm/cgroup.conf'
    "${where[@]}" munged --force --foreground --key-file=/run/munge/key \
        --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/pid --log-file=/run/munge/log \
        --seed-file=/run/munge/seed >"$WORK/out/munged.log" 2>&1 &
    wait_for 10 "${where[@]}" test -S /run/munge/munge.socket.2 ||
        diag "$(cat "$WORK/out/munged.log")"
    "${where[@]}" env SLURM_CONF=$SLURM_CONF "$@" >"$WORK/out/$1.${where[1]-operator}.log" 2>&1 &
}
service env -- slurmctld -D
for i in 1 2; do
    service on $i -- slurmd -D -N node$i
done
# shellcheck disable=SC2317 # wait_for calls it
ready() { [ "$(sinfo -h -t idle -o %D)" = 2 ]; }
wait_for 30 ready || {
    diag "$(tail -n 20 "$WORK"/out/*.log)"
    skip_all 'this Slurm does not start here'
}
diag "$(srun --version)"

dtrun=/run/dtrun # a folder that each host has for itself
program=$(command -v dtrun)
for where in env 'on 1' 'on 2'; do
    $where sh -c "cat >$dtrun && chmod 755 $dtrun" <"$program"
done
export DTRUN_KEY=secret
step() { run timeout 60 srun --quiet --chdir / "$@"; }
# shellcheck disable=SC2016 # the workers' shell expands them
say='echo "$RANK/$WORLD_SIZE $GROUP_RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $MASTER_ADDR"'

# ---- steps --------------------------------------------------------------------------------------
step -N 2 "$dtrun" --no-python sh -c "$say"
is "$status" 0 'one task per node: the run succeeds' || diag "$err"
is "$(sort <<<"$out" | paste -sd,)" \
    "0/2 0 0/1 node1 $HOSTS_NET.1,1/2 1 0/1 node2 $HOSTS_NET.1" \
    'one task per node gives nodes, ranks, names and leader'
step -N 2 --ntasks-per-node 3 "$dtrun" --no-python sh -c "$say"
is "$status" 0 'one srun task per process: the run succeeds' || diag "$err"
is "$(sort <<<"$out" | cut -d' ' -f1,3,4 | paste -sd,)" \
    '0/6 0/3 node1,1/6 1/3 node1,2/6 2/3 node1,3/6 0/3 node2,4/6 1/3 node2,5/6 2/3 node2' \
    'there is one agent for each node and one worker for each task'
step -n 3 -N 2 --distribution=block "$dtrun" --no-python sh -c "$say"
is "$(sort <<<"$out" | cut -d' ' -f1,3,4 | paste -sd,)" \
    '0/3 0/2 node1,1/3 1/2 node1,2/3 0/1 node2' 'nodes may have different numbers of tasks' ||
    diag "$err"
step -N 2 "$dtrun" --nproc-per-node 2 --no-python sh -c "$say"
is "$(wc -l <<<"$out")" 4 'the command line wins'
step -N 2 env PET_NPROC_PER_NODE=2 "$dtrun" --no-python sh -c "$say"
is "$(wc -l <<<"$out")" 4 "PET_ variables are preferred to Slurm's"
step -N 2 "$dtrun" --standalone --no-python sh -c "$say"
is "$(sort <<<"$out" | cut -d' ' -f1,4 | paste -sd,)" '0/1 node1,0/1 node2' \
    '--standalone: each node runs by itself'
step -N 2 "$dtrun" --nnodes 1:2 --no-python sh -c "$say"
is "$(sort <<<"$out" | cut -d' ' -f1,2,4 | paste -sd,)" '0/2 0 node1,1/2 1 node2' \
    'a range of nodes joins (c10d), in the same order' || diag "$err"
step -N 2 "$dtrun" --rdzv-backend c10d --rdzv-endpoint "$HOSTS_NET.2:29400" --no-python sh -c "$say"
is "$(sort <<<"$out" | cut -d' ' -f1,4 | paste -sd,)" '0/2 node1,1/2 node2' \
    'an endpoint of the user leads elsewhere, ranks stay' || diag "$err"
run timeout 60 salloc --quiet -N 2 "$dtrun" --no-python sh -c "$say"
is "$(cut -d' ' -f1 <<<"$out")" 0/1 'a shell of salloc is no step: one node'

# ---- ends ---------------------------------------------------------------------------------------
# shellcheck disable=SC2016
step -N 2 --ntasks-per-node 2 "$dtrun" --no-python sh -c '[ "$RANK" != 3 ] || exit 7; sleep 600'
is "$status" 1 'a failing worker fails the step'
like "$err" 'rank      : 3 \(local_rank: 1\)' 'the report names the rank'
like "$err" 'exitcode  : 7 ' 'the report has the status'
step -N 2 "$dtrun" --exit-code worker --no-python sh -c 'exit 7'
is "$status" 7 '--exit-code worker passes through srun'
two_steps() { # two runs at once on the same two nodes
    timeout 60 srun --quiet --chdir / --overlap -N 2 "$dtrun" --no-python sh -c "$say" \
        >first.out 2>first.err &
    run timeout 60 srun --quiet --chdir / --overlap -N 2 "$dtrun" --no-python sh -c "$say"
    wait $!
}
two_steps
first=$?
ranks=$(sort first.out "$WORK/out/run.out" | cut -d' ' -f1,4 | uniq -c | tr -s ' ' | paste -sd,)
is "$first $status $ranks" \
    '0 0  2 0/2 node1, 2 1/2 node2' 'two jobs on the same nodes do not meet' || diag "$err"
# shellcheck disable=SC2016
timeout 60 srun --quiet --chdir / --job-name stopme -N 2 --ntasks-per-node 2 \
    "$dtrun" --no-python sh -c \
    'trap "echo grace \$RANK; exit 0" TERM; echo up $RANK; while :; do sleep 0.1; done' \
    >stop.out 2>stop.err &
job=$!
# shellcheck disable=SC2016
ok 'a job to be stopped' wait_for 20 sh -c '[ "$(grep -c up stop.out)" = 4 ]'
scancel --signal=TERM --name stopme
wait $job
is "$(grep -c grace stop.out)" 4 'a signal to the job gives every worker its grace' ||
    diag "$(cat stop.out stop.err)"
# shellcheck disable=SC2317
idle() { ready && [ -z "$(squeue -h)" ] && ! pgrep -x dtrun; }
ok 'no job and no process of it is left' wait_for 20 idle
scontrol shutdown >/dev/null 2>&1

# ---- Open MPI 5's variables, without the program ------------------------------------------------
# The lines are those that mpirun 5.0.11 gave its processes.
beside() { # NODE RANK SIZE LOCAL_SIZE NAMESPACE ARGUMENT…
    on "$1" env DTRUN_KEY=secret OMPI_VERSION=5.0.11 OMPI_COMM_WORLD_RANK="$2" \
        OMPI_COMM_WORLD_SIZE="$3" OMPI_COMM_WORLD_LOCAL_RANK=$(($2 % $4)) \
        OMPI_COMM_WORLD_LOCAL_SIZE="$4" PMIX_NAMESPACE="$5" PMIX_RANK="$2" \
        PMIX_HOSTNAME="node$1" PMIX_SERVER_URI41="$5.0;tcp4://127.0.0.1:55317" PRTE_LAUNCHED=1 \
        timeout 60 "$dtrun" "${@:6}"
}
pair() { # SECOND_NODE SIZE LOCAL_SIZE NAMESPACE ARGUMENT…: both processes; the first is on node1
    beside "$1" 1 "${@:2}" >second.out 2>second.err &
    run beside 1 0 "${@:2}"
    wait $!
    status+=" $?"
    ranks=$(sort second.out "$WORK/out/run.out" | cut -d' ' -f1,4 | paste -sd,)
}
pair 2 2 1 prterun-node1-129@1 --no-python sh -c "$say"
is "$status $ranks" '0 0 0/2 node1,1/2 node2' "Open MPI 5: the leader is mpirun's host" ||
    diag "$err"
pair 1 2 2 unknown --nnodes 2 --no-python sh -c "$say"
is "$status $ranks" '0 0 0/2 node1,1/2 node1' 'Open MPI 5: two agents of one host meet' ||
    diag "$err"
run beside 1 0 2 1 unknown --no-python true
is "$status" 2 'Open MPI 5: an unknown leader is a usage error' || diag "$err"
like "$err" 'mpirun -N 1 dtrun --rdzv-endpoint node1:29400 train.py' \
    'the error has a line to run'

# ---- mpirun -------------------------------------------------------------------------------------
mpi=$(command -v mpirun.openmpi) || { skip 5 'no mpirun of Open MPI here' && done_testing; }
on 1 sh -c 'umask 077; cat >/run/key' <"$HOME/.ssh/id_ed25519"
# A login by ssh as root starts Open MPI's daemon on the other host.
login='-i /run/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -q'
mpirun() { # on node1
    # The first three are for Open MPI 4, the next three for 5.
    run timeout 60 nsenter --target "$(cat "$WORK/node1/holder")" --mount --net --uts --wd=/ env \
        TMPDIR=/tmp DTRUN_KEY=secret \
        OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_args="$login" OMPI_MCA_oob_tcp_if_include=eth0 \
        PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_args="$login" PRTE_MCA_oob_tcp_if_include=eth0 \
        "$mpi" --allow-run-as-root --oversubscribe -x DTRUN_KEY "$@"
}
mpirun -H node1:4,node2:4 -N 1 "$dtrun" --no-python sh -c "$say"
is "$status" 0 'mpirun -N 1 succeeds' || diag "$err"
# Open MPI 4 gives its host's address, 5 the name.
is "$(sort <<<"$out" | sed "s/ $HOSTS_NET.1\$/ node1/" | paste -sd,)" \
    "0/2 0 0/1 node1 node1,1/2 1 0/1 node2 node1" \
    'mpirun -N 1 gives nodes, ranks, names and leader'
mpirun -H node1:4,node2:4 -N 2 "$dtrun" --no-python sh -c "$say"
is "$status $(sort <<<"$out" | cut -d' ' -f1,3,4 | paste -sd,)" \
    '0 0/4 0/2 node1,1/4 1/2 node1,2/4 0/2 node2,3/4 1/2 node2' \
    'one process for each task gives one agent for each node' || diag "$err"
mpirun -H node1:4,node2:4 -N 1 -x MASTER_ADDR=node2 "$dtrun" --no-python sh -c "$say"
is "$status $(sort <<<"$out" | cut -d' ' -f1,4 | paste -sd,)" '0 0/2 node1,1/2 node2' \
    'MASTER_ADDR names another leader' || diag "$err"
# shellcheck disable=SC2016
mpirun -H node1:4,node2:4 -N 1 "$dtrun" --exit-code worker --no-python sh -c \
    '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 5; sleep 600'
is "$status" 5 'the status of a failed worker is returned' || diag "$err"
done_testing
