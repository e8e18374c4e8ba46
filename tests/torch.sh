# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# torch.sh: for tests that run PyTorch's programs. Sourced after lib.sh.
#
# PyTorch (2.13, gloo) leaves threads of the process group running when DistributedDataParallel was
# used, also after destroy_process_group; one that lets go of a tensor while the interpreter is torn
# down ends the process with "terminate called without an active exception" (SIGABRT). It is not the
# launcher's doing: a script that ends with collectives under way, on one loaded processor, aborted
# in 6 of 12 runs without any launcher, in 4 of 12 under torchrun, in 8 of 12 under dtrun; a plain
# DDP script in 0 of 40, 0 of 65 and 1 of 65. Nothing that a script calls ends those threads, so a
# run that fell victim to this is repeated; everything else counts.

TORCH_RUNS_MAX=6

# The version of PyTorch, and the path of torchrun; each fails where there is none. Neither imports
# torch, which takes seconds of a processor.
torch_version() {
    "$PYTHON" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null
}
torch_launcher() {
    local path
    path=$("$PYTHON" -c 'import importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) &&
        [ -e "$path/distributed/run.py" ] && echo "$path/distributed/run.py"
}

# torch_aborted PATH…: whether it says so in one of them.
torch_aborted() { grep -qrs 'terminate called without an active exception' "$@"; }

# torch_spoilt TRY PATH…: whether that try ended so and another one is due; says it.
torch_spoilt() {
    local try=$1
    shift
    [ "$try" -lt $TORCH_RUNS_MAX ] &&
        torch_aborted "$@" &&
        diag "PyTorch aborted in its teardown (try $try): again"
}

# torch_run COMMAND…: run, repeated where it was spoilt.
torch_run() {
    local try=1
    run "$@"
    while torch_spoilt $((try++)) "$WORK/out/run.out" "$WORK/out/run.err"; do run "$@"; done
}
