#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtctl doctor of nodes with GPUs: what it says of each GPU and of NCCL is what a run would say. The
# nodes are of provider local, with the stand-ins for the driver and NCCL.
source "${0%/*}/../lib.sh"
GPU=$BUILD/gpu
[ -x "$BIN/dttrain-cuda" ] || skip_all 'dttrain-cuda is not built: the compiler of CUDA is not here'
[ -e "$GPU/libcuda.so.1" ] || bail_out 'the stand-in for libcuda.so.1 is not built'
# Nodes count their GPUs in a folder of the kernel's driver.
[ "${NAMESPACES-}" = yes ] || # tests/run has made some
    skip_all 'it would mount a folder over /proc of this machine (try: make test T=doctor)'
{ mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/gpus/{0,1}; } 2>/dev/null ||
    skip_all 'a folder of /proc cannot be replaced here: no namespace of mounts'

# doctor VARIABLE…: on emulated GPUs
doctor() {
    run env LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1 EMU_DEVICES=2 "$@" dtctl doctor
}
findings() { grep -cE "$1" <<<"$out"; }

dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"

# ---- good ---------------------------------------------------------------------------------------
doctor A=b
is "$status" 0 'GPUs that can be used are fine' || diag "$out" "$err"
line='^ok +node[01] gpu [01] +GPU [01] is emulated .*sm_80.*free, driver of CUDA 13\.0$'
is "$(findings "$line")" 4 \
    'each GPU of each node has a line'
is "$(findings '^ok +node[01] +NCCL 2\.28\.9 of ')" 2 'NCCL of each node has a line'
is "$(find .dtctl -name 'dttrain-cuda-*' | wc -l)" 2 'the trainer for GPUs is on both nodes'
run env LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1 dtctl doctor --json
is "$(grep -c '"event":"finding".*"verdict":"ok".*"what":"node[01] gpu 0"' <<<"$out")" 2 \
    'each GPU has an event'

# ---- what is wrong has the words of a run, and its remedy ---------------------------------------
# bad TEXT REMEDY DESCRIPTION VARIABLE…
bad() {
    local text=$1 remedy=$2 what=$3
    shift 3
    doctor "$@"
    is "$status" 1 "$what: doctor fails"
    like "$out" "bad +node1( gpu 1)? +$text" "$what: the finding"
    like "$out" "-> $remedy" "$what: the remedy"
    run env LD_LIBRARY_PATH="$GPU" DTTRAIN_EMULATED=1 "$@" "$BIN/dttrain-cuda" \
        --set train.device=gpu
    like "$err" "$text" "$what: a run says the same"
}
bad "GPU 'emulated .tests only.' .sm_70. is not supported by CUDA 13" 'G4dn or newer instances' \
    'a V100' EMU_CC=70
bad "NVIDIA's driver is too old: CUDA 12\.4, and 13\.0 is needed" 'install driver 580' \
    'an old driver' EMU_DRIVER=12040
doctor DTTRAIN_EMULATED=0
like "$out" 'bad +node0 gpu 0 +libcuda.so.1 is the stand-in' 'the stand-in is never taken for a GPU'

# ---- NCCL ---------------------------------------------------------------------------------------
ln -s "$GPU/libcuda.so.1" .
run env LD_LIBRARY_PATH="$PWD" DTTRAIN_EMULATED=1 dtctl doctor
if grep -q 'NCCL [0-9]' <<<"$out"; then
    skip 3 'this machine has an NCCL of its own'
else
    is "$status" 0 'a cluster without NCCL is no fault' || diag "$out"
    like "$out" 'warn +node0 +no NCCL, so gradients .* through the hosts: no libnccl' \
        'a warning says so'
    like "$out" '-> dtctl push --with nccl=FILE' 'the warning has the remedy'
fi
# The second node's library does not hear of the pretended version.
mapfile -t places < <(find .dtctl -name 'dttrain-cuda-*' -printf '%h\n' | sort)
cp "$GPU/libnccl.so.2" "${places[0]}/"
sed 's/EMU_NCCL_VERSION/EMU_NCCL_VERSIOM/' "$GPU/libnccl.so.2" >"${places[1]}/libnccl.so.2"
doctor EMU_NCCL_VERSION=21805
is "$status" 1 'two versions of NCCL are a fault'
like "$out" 'ok +node0 +NCCL 2\.18\.5 of ' 'the first version is shown'
like "$out" 'bad +node1 +NCCL 2\.28\.9 of .*; another node has NCCL 2\.18\.5' 'the other is named'
like "$out" '-> one version on all nodes: dtctl push --with nccl=FILE' 'the remedy is one version'

# ---- a program that does not run ----------------------------------------------------------------
mkdir broken && echo 'no library' >broken/libdl.so.2
doctor LD_LIBRARY_PATH="$PWD/broken"
is "$status" 1 'a trainer that does not run is a fault'
like "$out" 'bad +node1 +.*libdl\.so\.2' 'doctor shows what the loader said'
dtctl down -y >down.log 2>&1
done_testing
