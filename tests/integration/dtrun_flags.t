#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Flags of dtrun that need no PyTorch and no second node: interpreters, launch compatibility,
# further variables, devices, processors.
source "${0%/*}/../lib.sh"
one() { run timeout 30 dtrun --standalone "$@"; }

# ---- which Python -------------------------------------------------------------------------------
interpreter() { # FILE SAYS: a program that says its name and its arguments
    mkdir -p "${1%/*}"
    printf '#!/bin/sh\necho "%s $*"\n' "$2" >"$1"
    chmod +x "$1"
}
interpreter venv/bin/python venv
interpreter path/python3 path
interpreter own/chosen chosen
unset VIRTUAL_ENV PYTHON_EXEC
PATH=$WORK/path:$PATH one x.py -a
is "$out" 'path -u x.py -a' 'python3 is found on PATH and runs unbuffered'
VIRTUAL_ENV=$WORK/venv PATH=$WORK/path:$PATH one -m pkg.mod
is "$out" 'venv -u -m pkg.mod' 'an active virtual environment goes first'
VIRTUAL_ENV=$WORK/gone PATH=$WORK/path:$PATH one x.py
is "$out" 'path -u x.py' 'a removed virtual environment is ignored'
PYTHON_EXEC=$WORK/own/chosen VIRTUAL_ENV=$WORK/venv one x.py
is "$out" 'chosen -u x.py' 'PYTHON_EXEC is first of all'
PYTHON_EXEC=$WORK/own/chosen one --run-path --no-python -m x.py
like "$out" '^chosen -u -c import .* x.py$' \
    '--run-path goes before --no-python and -m, as in torchrun'
cat >script.py <<'END'
import sys
print(__name__, sys.argv[1:], sys.path[0] == __file__.rpartition("/")[0])
END
one --run-path "$WORK/script.py" -a
is "$out" "__main__ ['-a'] True" '--run-path runs the program in a child as main program, by runpy'

# ---- python -m torch.distributed.launch ---------------------------------------------------------
one --launch --no-python --nproc-per-node 2 echo arg
is "$(sort <<<"$out" | paste -sd,)" '--local-rank=0 arg,--local-rank=1 arg' \
    '--launch adds --local-rank'
one --launch --use_env --no-python echo arg
is "$out" arg '--launch with --use-env adds no argument'
one --use-env --no-python echo arg
is "$status" 2 '--use-env without --launch is refused'

# ---- variables ----------------------------------------------------------------------------------
# shellcheck disable=SC2016
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='<${rank}>'
one -t 1 --no-python echo hi
is "$out" '<0>hi' 'TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE'
# shellcheck disable=SC2016
PET_LOG_LINE_PREFIX_TEMPLATE='(${role_name})' one -t 1 --no-python echo hi
is "$out" '(default)hi' 'the PET_ variable is stronger'
# shellcheck disable=SC2016
PET_LOG_LINE_PREFIX_TEMPLATE=x one -t 1 --log-line-prefix-template '${local_rank}:' \
    --no-python echo hi
is "$out" '0:hi' 'a flag beats the PET_ variable'
unset TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon one --no-python echo hi
like "$status $err" '^0 .*TORCH_ELASTIC_SHUTDOWN_TIMEOUT' \
    'a variable that is no number is named, and not used'

# ---- rendezvous settings ------------------------------------------------------------------------
one --rdzv-conf "'join_timeout=5,timeout=5'" --no-python echo hi
is "$status $out" '0 hi' 'quotes that survive in --rdzv-conf do no harm'
run timeout 30 dtrun --rdzv-backend c10d --rdzv-conf store_type=file --no-python echo hi
is "$status" 2 'a store in a file is refused'
like "$err" 'store_type=file' 'the error names the store type'
port=$((20000 + RANDOM % 10000))
run timeout 30 dtrun --nnodes 2 --master-port $port --rdzv-conf timeout=1 --no-python true
is "$status" 1 "a static start gives up after --rdzv-conf timeout"
like "$err" '1 of 2 nodes came within 1 s' 'the error counts the nodes' || diag "$err"

# ---- devices ------------------------------------------------------------------------------------
CUDA_VISIBLE_DEVICES=4,7 one --nproc-per-node gpu --no-python echo hi
is "$(wc -l <<<"$out")" 2 '--nproc-per-node gpu counts what is visible'
CUDA_VISIBLE_DEVICES='' one --nproc-per-node gpu --no-python echo hi
is "$status" 2 '--nproc-per-node gpu needs one visible GPU'
# shellcheck disable=SC2016
CUDA_VISIBLE_DEVICES=4,7 one --nproc-per-node 2 --virtual-local-rank --no-python sh -c \
    'echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES'
is "$(sort <<<"$out" | paste -sd,)" '0 4,0 7' '--virtual-local-rank: each worker has one device'
CUDA_VISIBLE_DEVICES=4 one --nproc-per-node 2 --virtual-local-rank --no-python true
is "$status" 2 'a list that is too short is refused'
one --numa-binding sideways --no-python true
is "$status" 2 'an unknown --numa-binding is refused'
# A GPU where there is none: any PCI device, named in a private /proc/driver.
device=$(cd /sys/bus/pci/devices 2>/dev/null &&
    for d in *; do [ ! -r "$d/numa_node" ] || echo "$d"; done | head -n 1)
# shellcheck disable=SC2016
inside='mount -t tmpfs t /proc/driver && mkdir -p "/proc/driver/nvidia/gpus/$0" && exec "$@"'
if [ -n "$device" ] && [ -r /sys/devices/system/node/node0/cpulist ] &&
    unshare --mount sh -c "$inside" "$device" true 2>/dev/null; then
    run unshare --mount sh -c "$inside" "$device" dtrun --standalone --nproc-per-node gpu \
        --numa-binding exclusive --no-python grep Cpus_allowed_list /proc/self/status
    node=$(cat /sys/devices/system/node/node0/cpulist)
    is "$status ${out##*[[:space:]]}" "0 $node" '--numa-binding: the worker runs where its GPU is'
    first=${node%%[-,]*}
    run unshare --mount sh -c "$inside" "$device" taskset -c "$first" dtrun --standalone \
        --numa-binding node --no-python grep Cpus_allowed_list /proc/self/status
    is "$status ${out##*[[:space:]]}" "0 $first" \
        'a worker never runs outside of the processors of its agent'
else
    skip 2 'no PCI device, no NUMA nodes or no namespaces here'
fi

# ---- the run's key ------------------------------------------------------------------------------
secret=for-agents-only-$RANDOM
chmod 755 "$WORK"
mkdir -m 777 open
cp "$BIN/dtrun" open/
other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
"${other[@]}" open/dtrun --version >/dev/null 2>&1 || other=()
# shellcheck disable=SC2016
DTRUN_KEY=$secret PET_RDZV_CONF="timeout=9,key=$secret,read_timeout=9" TMPDIR=$WORK/open \
    "${other[@]}" open/dtrun --standalone --rdzv_conf="key=$secret,timeout=9" --no-python \
    sh -c 'echo "conf $PET_RDZV_CONF"; exec sleep 600' >out.txt 2>err.txt &
agent=$!
ok 'a run with a key succeeds' wait_for 10 grep -q conf out.txt
guard=$(pgrep -P $agent)
worker=$(pgrep -P "$guard")
for pid in $agent $guard $worker; do
    cat /proc/"$pid"/{cmdline,environ} | tr '\0' '\n'
done >seen.txt
is "$(grep -c '^LOCAL_RANK=0' seen.txt) $(grep -c "$secret" seen.txt)" '1 0' \
    'no process of it shows the key' || diag "$(grep "$secret" seen.txt)"
is "$(cat out.txt)" 'conf timeout=9,read_timeout=9' 'the rest of PET_RDZV_CONF goes to workers'
if [ ${#other[@]} -gt 0 ]; then
    is "$(stat -c %u /proc/{$agent,"$guard","$worker"}/environ | paste -sd' ')" '0 0 65534' \
        'no core file can have it, and workers are as open as any process'
else
    skip 1 'no other user here'
fi
# ---- the store and other users ------------------------------------------------------------------
port=$(sed -n 's/^MASTER_PORT=//p' seen.txt)
ask() { # UID REQUESTS BYTES: what the store answers to that user, in hex
    # shellcheck disable=SC2016
    setpriv --reuid="$1" --regid="$1" --clear-groups timeout 5 bash -c 'trap "" PIPE
        exec 3<>"/dev/tcp/127.0.0.1/$1" && printf "$2" >&3 && head -c "$3" <&3 | od -An -tx1' \
        _ "$port" "$2" "$3" 2>/dev/null | tr -d ' \n'
}
hello='\x00\xce\xf7\x85\x3c'
ping="$hello"'\x0d\x01\x02\x03\x04'
key='\x01\0\0\0\0\0\0\0k'
if [ ${#other[@]} -gt 0 ]; then
    is "$(ask 65534 "$ping" 4) $(ask 0 "$ping" 4)" '01020304 01020304' \
        'the store serves the user of the run, and root'
    is "$(ask 65533 "$ping" 4)" '' 'another user of the host is refused'
    kill -STOP $agent
    ask 65533 "$hello\x01$key$key" 0
    kill -CONT $agent
    like "$(ask 65534 "$hello\x03$key" 8) $(cat err.txt)" \
        '^0{16} .*store: refused a client .*not a process of the run' \
        'another user is refused even if it has closed its connection'
else
    skip 3 'no other user here'
fi
kill $agent
wait $agent
is "$?" 1 'the run ends'

# ---- a launcher for each task of Slurm -----------------------------------------------------------
# shellcheck disable=SC2016 # the workers expand
slurm_task() { # TASK FLAG…: of two on this host
    timeout 30 env SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_PROCID="$1" SLURM_LOCALID="$1" \
        SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=127.0.0.1 \
        SLURM_STEP_TASKS_PER_NODE=2 SLURM_NTASKS=2 DTRUN_KEY=k \
        dtrun --nnodes 2 --nproc-per-node 1 "${@:2}" --no-python sh -c 'echo $RANK/$WORLD_SIZE'
}
both_tasks() { # FLAG…, in which % is the task: their output in $out
    local ended
    slurm_task 0 "${@//%/0}" >task0.out 2>task0.err &
    slurm_task 1 "${@//%/1}" >task1.out 2>task1.err
    ended=$?
    wait $!
    out="$? $ended $(sort task0.out task1.out | paste -sd' ')"
}
both_tasks
is "$out" '0 0 0/2 1/2' 'two launchers of one host do not wait for each other' ||
    diag "$(cat task0.err task1.err)"
port=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
both_tasks --node-rank % --master-addr 127.0.0.1 --master-port "$port"
is "$out" '0 0 0/2 1/2' 'two launchers with ranks of their own do not wait either' ||
    diag "$(cat task0.err task1.err)"

# ---- signals, completions -----------------------------------------------------------------------
dtrun --standalone --signals-to-handle SIGUSR1 --no-python sh -c \
    'trap "echo passed on; exit 0" USR1; echo up; while :; do sleep 0.05; done' >up.txt 2>err.txt &
agent=$!
ok 'a worker is up' wait_for 10 grep -q up up.txt
kill -USR1 $agent
wait $agent
is "$? $(tail -n 1 up.txt)" '1 passed on' \
    '--signals-to-handle: the signal is passed on to the workers'
for shell in bash zsh fish; do
    run dtrun --print-completion $shell
    like "$status $out" '^0 .*nproc-per-node' "completions for $shell are printed"
done
done_testing
