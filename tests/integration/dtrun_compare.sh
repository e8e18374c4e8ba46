# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# dtrun_compare.sh: what dtrun_compare.t and dtrun_elastic.t share: the table of differences between
# torchrun and dtrun, and comparing by it. Whatever differs must be in the table, and must differ
# as it says there.

mapfile -t differences < <(sed 1d "${BASH_SOURCE[0]%.sh}.table")

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
# shellcheck disable=SC2034 # for those who source this
torchrun_py=$(torch_launcher) || skip_all "$PYTHON has no torchrun"
diag "PyTorch $(torch_version)"
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
compare() { # WHAT THEIRS OURS; THEIRS is '-' where torchrun did not run, for what is in the table
    local row what theirs ours
    for row in "${differences[@]}"; do
        IFS='|' read -r what theirs ours _ <<<"$row"
        [ "$what" = "$1" ] || continue
        seen[$what]=1
        if [ "$2" != - ]; then
            [[ $2 =~ ^($theirs)$ ]]
            result $((!$?)) "$1: torchrun is as the table says" || diag "   got: $2"
        fi
        [[ $3 =~ ^($ours)$ ]]
        result $((!$?)) "$1: dtrun is as the table says" || diag "   got: $3"
        return
    done
    is "$3" "$2" "$1: torchrun does the same"
}

mask() { # run names, ports, process ids and folders differ
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
