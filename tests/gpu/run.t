#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/gpu/run and benchmarks/gpu/run, which are for a machine with a GPU, on the stand-in for the
# driver: they come to their end, their output has its form, a kernel that is wrong fails the run,
# and what lacks time is left out by name.
# shellcheck disable=SC2317 # functions that ok calls
source "${0%/*}/../lib.sh"
source "${0%/*}/runs.sh"
export DTTRAIN_EMULATED=1
unset OUT TEST_WORK

# gpu_run ARGUMENT…: the run, with its folder in `result`
gpu_run() { run "$SRC/tests/gpu/run" --out "$WORK/result" "$@"; }
# objects TEXT: lines of the machine's result that have it
objects() { grep -c "$1" result/run.jsonl; }
last_line() { tail -n 1 <<<"$out"; }
# point REGEX DESCRIPTION: a point of the run that passed
point() { ok "$2" grep -qE "^ok [0-9]+ - $1" <<<"$out" || diag "$(grep -A 8 '^not ok' <<<"$out")"; }

# ---- what is refused ----------------------------------------------------------------------------
gpu_run kernel
is "$status" 2 'a step that does not exist is refused'
like "$err" "'kernel' is no step \(try: device kernels models" 'the refusal names the steps'
gpu_run --seconds 600
like "$err" "'600': 1 to 590" 'more seconds than a call may last are refused'
run env DTCTL_BIN="$WORK/none" DTCTL_BUILD="$WORK/none" PATH="/usr/bin:/bin" MAKEFLAGS=-n \
    "$SRC/tests/gpu/run" --out "$WORK/result" device
like "$out" 'not ok .* cannot go on: .*/none/dtctl is not there' \
    'a program that is missing is named'
is "$status" 1 'the run fails without it'
run env DTTRAIN_EMULATED=0 LD_LIBRARY_PATH="$GPU" "$SRC/tests/gpu/run" --out "$WORK/result" models
is "$status" 1 'the stand-in is never taken for a GPU'
like "$out" 'not ok .*libcuda.so.1 is the stand-in' 'the run says why'
unlike "$out" 'step models' 'no other step follows'

# ---- a wrong kernel, an orderly sanitizer and a hasty one ---------------------------------------
mkdir -p planted/gpu && ln -s "$GPU"/lib* planted/gpu
# One subtraction of a kernel becomes an addition, in the PTX that the program carries.
from='/\.visible \.entry layernorm_forward/' to='/\.visible \.entry layernorm_grad_sums/'
LC_ALL=C sed "$from,${to}s/sub\.f32/add.f32/" "$GPU/device" >planted/gpu/device
chmod +x planted/gpu/device
cat >sanitizer <<'END'
#!/bin/sh
echo "$*" >>"${0%/*}/sanitized"
case "$*" in
*racecheck*rows*) echo '========= Error: Race reported' && exit 86 ;;
*synccheck*rows*) exit 124 ;;
esac
END
chmod +x sanitizer
DTCTL_BUILD=$WORK/planted DTCTL_SANITIZER=$WORK/sanitizer gpu_run kernels sanitizer
is "$status" 1 'a wrong kernel fails the run'
like "$out" 'not ok [0-9]+ - kernels: test_cuda_rows agrees' 'the point names its program'
like "$out" '#.*layer norm.*wrong result' 'the case and its numbers are shown'
point 'kernels: test_cuda_layers agrees' 'other programs are right on the driver'
point 'kernels: test_cuda_product agrees' 'products are right on the driver'
like "$out" 'not ok [0-9]+ - racecheck finds nothing in test_cuda_rows' 'a finding is a failure'
like "$out" 'SKIP synccheck of test_cuda_rows did not end within' 'a tool that is late is skipped'
is "$(grep -c 'device test_cuda_' sanitized)" 12 'three tools look at four programs'
like "$(last_line)" '^[0-9]+ passed, 2 failed, 1 skipped$' 'the last line has the counts'
is "$(objects '"result":"failed"')" 2 'failures are in the result for machines'
is "$(objects '"event":"end","passed":[0-9]*,"failed":2,"skipped":1,')" 1 \
    'the last object has the counts'

# ---- models, checkpoints and ranks --------------------------------------------------------------
gpu_run models checkpoint shared killed
is "$status" 0 'a right program passes' || diag "$(grep -A 8 '^not ok' <<<"$out")"
for text in 'vit bf16: the same losses' 'vit bf16: a graph gives the same losses to the last bit' \
    'resnet18 f16: the losses are those of float' 'vit tf32: the losses are those of float' \
    'from processors to the GPU: the losses are those of one run' \
    'two ranks on one GPU by the hosts: the losses of processors' \
    'two ranks on one GPU by NCCL, graph on: the losses of processors' \
    'two ranks on one GPU in a pipeline by NCCL: the losses of processors' \
    'a killed rank: the next attempt resumes'; do
    point "$text" "the run shows: $text"
done
is "$(objects '"event":"point","step":"models","result":"passed"')" \
    "$(sed -n '/^# step models/,/^# step checkpoint/p' <<<"$out" | grep -c '^ok')" \
    'each point has an object with its step'
is "$(objects '"event":"fact".*losses of 10 steps are .* apart, and .* is the bound')" \
    "$(grep -c '^ok .*: \(the losses .*\|the same losses\)$' <<<"$out")" \
    'how far losses are apart is a fact'
is "$(tail -n 1 result/run.tap)" "$(last_line)" 'the folder has the output'
ok 'no logs are kept of a run that passed' [ ! -e result/work ]

# ---- without time -------------------------------------------------------------------------------
gpu_run --seconds 5 models checkpoint shared
is "$status" 0 'a run without time passes what it has done'
like "$out" 'SKIP vit in bf16: the time is short: 15 s are needed and -?[0-9]+ s of the budget' \
    'a step without time is skipped by name'
like "$(last_line)" '^3 passed, 0 failed, 5 skipped$' 'skips are counted'

# ---- benchmarks ---------------------------------------------------------------------------------
gpu_bench() { run env DTCTL_PYTHON=none "$SRC/benchmarks/gpu/run" --out "$WORK/bench" "$@"; }
rows() { grep -c "$1" bench/bench.jsonl; }
gpu_bench resnet
is "$status" 2 'a case that does not exist is refused'
gpu_bench vit_small
is "$status" 0 'the benchmark comes to its end' || diag "$out" "$err"
like "$out" '# GPU 0 is emulated \(tests only\)' 'the output names the GPU'
like "$out" 'no PyTorch .* is here, so there is no peer' 'the output says that there is no peer'
like "$out" 'vit_small +[0-9]+ +[0-9]+ +[0-9]+ +none' 'the table has a row'
side='{"images_per_s":[0-9.]*,"memory_bytes":[0-9]*,"first_step_ms":[0-9]*}'
floor='"of_floor":[0-9.e-]*,"floor_ms":[0-9.]*'
is "$(rows "\"case\":\"vit_small\".*$floor,\"f32\":$side,\"bf16\":$side,\"tf32\":$side}")" 1 \
    'the row has speed, floor, memory and the start'
like "$out" 'cifar10-94: the case is left out: its data is not given' 'a case left out has a reason'
gpu_bench --seconds 8 linformer
like "$out" 'linformer: the case is left out: 25 s are needed and [0-9]+ s of the budget' \
    'a case without time is left out by name'
is "$(rows '"case":"linformer","left_out":"the case"')" 1 'the row of that case says so'
done_testing
