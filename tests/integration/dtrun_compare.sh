# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# dtrun_compare.sh: what dtrun_compare.t and dtrun_elastic.t share: the table of differences between
# torchrun and dtrun, and comparing by it. Whatever differs must be in the table, and must differ as it
# says there.

# shellcheck disable=SC2016 # backquotes are Markdown's
# what is compared | torchrun's value (regex) | dtrun's value (regex) | torchrun | dtrun | why
differences=(
    'env MASTER_ADDR|localhost|127\.0\.0\.1|`MASTER_ADDR=localhost` with `--standalone`|`127.0.0.1`, numeric everywhere|no resolver in the way of every rank'
    'env NCCL_ASYNC_ERROR_HANDLING||1|`TORCH_NCCL_ASYNC_ERROR_HANDLING` alone|also `NCCL_ASYNC_ERROR_HANDLING`|its name up to PyTorch 2.1'
    'env GLOO_SOCKET_IFNAME||.+||sets `GLOO_SOCKET_IFNAME` and `NCCL_SOCKET_IFNAME` to the interface towards the leader, unless set|the most frequent failure on several nodes'
    'env NCCL_SOCKET_IFNAME||.+'
    'env TORCHELASTIC_ERROR_FILE|logs/RUN/attempt_0/1/error\.json|DIR/logs/RUN/attempt_0/1/error\.json|log and error files relative to the launcher, as `--log-dir` was typed|absolute|scripts may change their folder'
    'env DTCTL_NODE||.+||adds `DTCTL_NODE DTCTL_NODES DTCTL_ROUND DTCTL_RUN DTCTL_SHARD_INDEX DTCTL_SHARD_COUNT`|for data that is split by node; nothing else is added'
    'env DTCTL_NODES||1'
    'env DTCTL_ROUND||0'
    'env DTCTL_RUN||RUN'
    'env DTCTL_SHARD_COUNT||1'
    'env DTCTL_SHARD_INDEX||0'
    'filters without --tee|0|2|`--duplicate-…-filters` look at streams with `--tee` only|at redirected ones too|that is what the flag says'
    'fail: named ranks|.*rank 1.*|rank 1,|lists peers that its own SIGTERM ended as failures too|lists what failed by itself|the cause is not hidden among its effects'
    'fail: last lines|no|yes|error file only|also the last lines of standard error, where they went to a file|most failures write no error file'
    'fail: launcher traceback|yes|no|a Python traceback of the launcher itself|none|it says nothing about the job'
    'bad --nproc-per-node|1|2|ends with 1 (`ValueError`)|ends with 2, as for other usage errors|one status for all mistakes on the command line'
    '--rdzv-backend etcd|1|2|etcd, through a Python package|refused with one sentence|`c10d` needs no server'
    'elastic, shrunk: status|[01]|0'
    'elastic, shrunk: result|(samples 240 worlds \[3, 2\] .*)?|samples 240 worlds \[3, 2\] .*'
    'elastic, shrunk: failures counted|[1-9]?|0|counts a failed group when a node leaves|does not: `--max-restarts` is about failures|a run may shrink any number of times'
    'elastic, grown: status|[01]|0|with `c10d`, a node that joins a running job waits for the address of rank 0 until a timeout, and everybody fails (seen with PyTorch 2.13)|it takes part|growing works'
    'elastic, grown: result|(samples 240 worlds \[2, 3\] .*)?|samples 240 worlds \[2, 3\] .*'
    'agent killed (SIGKILL): workers left|[12]|0|workers go on without an agent|every process of the workers is ended|no orphans that hold GPUs'
)

if [ "${1-}" = --markdown ]; then
    echo '| torchrun | dtrun | why |'
    echo '| --- | --- | --- |'
    for row in "${differences[@]}"; do
        IFS='|' read -r _ _ _ theirs ours why <<<"$row"
        [ -z "$ours" ] || echo "| ${theirs:-–} | $ours | $why |"
    done
    exit
fi

# shellcheck source=tests/lib.sh
source "${BASH_SOURCE[0]%/*}/../lib.sh"
# shellcheck source=tests/torch.sh
source "$SRC/tests/torch.sh"
PYTHON=${DTCTL_TEST_PYTHON:-$PYTHON}
[ -n "$PYTHON" ] || skip_all 'no Python with PyTorch here (make setup, or set DTCTL_TEST_PYTHON)'
timeout 100 "$PYTHON" -m torch.distributed.run --help >help.txt 2>/dev/null ||
    skip_all "$PYTHON has no torchrun"
diag "PyTorch $("$PYTHON" -c 'import torch; print(torch.__version__)')"
export PYTHON_EXEC=$PYTHON OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
export COMPARE_PARENT=$WORK/parent COMPARE_DIR=
# shellcheck disable=SC2034 # for those who source this
program=$SRC/tests/integration/dtrun_compare.py

# ---- comparing ----------------------------------------------------------------------------------
declare -A seen=()
# shellcheck disable=SC2034
status_theirs='' out_theirs='' err_theirs='' ended_theirs='' left_theirs='' count_theirs=''
# shellcheck disable=SC2034
status_ours='' out_ours='' err_ours='' ended_ours='' left_ours='' count_ours=''
compare() { # WHAT THEIRS OURS
    local row what theirs ours
    for row in "${differences[@]}"; do
        IFS='|' read -r what theirs ours _ <<<"$row"
        [ "$what" = "$1" ] || continue
        seen[$what]=1
        [[ $2 =~ ^($theirs)$ ]]
        result $((!$?)) "$1: torchrun is as the table says" || diag "   got: $2"
        [[ $3 =~ ^($ours)$ ]]
        result $((!$?)) "$1: dtrun is as the table says" || diag "   got: $3"
        return
    done
    is "$3" "$2" "$1: the same"
}

mask() { # run names, ports, process ids and folders are nobody's business
    sed -E "s,$WORK/(theirs|ours),DIR,g; s/(RUN_ID|DTCTL_RUN)=.*/\1=RUN/; s/PORT=[0-9]+/PORT=N/
        s,logs/[^/]+/attempt,logs/RUN/attempt,g"
}
launcher() { # WHO: the command
    if [ "$1" = ours ]; then echo dtrun; else echo "$PYTHON -m torch.distributed.run"; fi
}

# compared WHICH: every row of the table whose name matches was compared; then the end.
compared() {
    local row
    for row in "${differences[@]}"; do
        [[ ! ${row%%|*} =~ $1 ]] || [ -n "${seen[${row%%|*}]-}" ] ||
            result 0 "${row%%|*}: in the table, but never compared"
    done
    done_testing
}
