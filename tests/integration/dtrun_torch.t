#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's own workers under dtrun: collectives, DDP, dist.TCPStore with every method, failures and
# restarts, on one agent and on two.
# Texts are expanded by workers, functions are called by name, pids have no spaces in them:
# shellcheck disable=SC2016,SC2317,SC2013
source "${0%/*}/../lib.sh"
# shellcheck source=tests/torch.sh
source "$SRC/tests/torch.sh"

PYTHON=${DTCTL_TEST_PYTHON:-$PYTHON}
[ -n "$PYTHON" ] || skip_all 'no Python with PyTorch here (make setup, or set DTCTL_TEST_PYTHON)'
torch_launcher >/dev/null || skip_all "$PYTHON has no PyTorch"
diag "PyTorch $(torch_version)"
export PYTHON_EXEC=$PYTHON OMP_NUM_THREADS=1 DTRUN_KEY=secret
worker=$SRC/tests/integration/dtrun_torch.py
port=$((21000 + RANDOM % 8000))

one() { # CASES [FLAGS…]
    local cases
    read -ra cases <<<"$1"
    torch_run timeout 100 dtrun --standalone --nproc-per-node 2 "${@:2}" "$worker" "${cases[@]}"
}
said() { grep "^$1 " <<<"$out"; } # CASE

two() { # CASES [TRY]: two agents, their output in $out sorted; static start
    port=$((port + 1))
    local flags=(--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port "$port")
    local cases
    read -ra cases <<<"$1"
    timeout 100 dtrun "${flags[@]}" --node-rank 1 "$worker" "${cases[@]}" >two.out 2>two.err &
    local other=$!
    run timeout 100 dtrun "${flags[@]}" --node-rank 0 "$worker" "${cases[@]}"
    wait "$other"
    other_status=$?
    if torch_spoilt "${2-1}" two.err "$WORK/out/run.err"; then
        two "$1" $((${2-1} + 1))
        return
    fi
    out=$(sort - two.out <<<"$out")
}

export TEST_PYTHON=plain # all of PyTorch, as users have it (tools/python/sitecustomize.py)
one 'store collectives ddp'
unset TEST_PYTHON
is "$status" 0 'one agent: all cases succeed' || diag "$err"
is "$(said store | sort | paste -sd,)" 'store 0,store 1' 'every method of dist.TCPStore works'
is "$(said collectives | sort | paste -sd,)" 'collectives 0 of 2,collectives 1 of 2' \
    'both ranks have the sums'
single=$(said ddp | sort -u)
is "$(wc -l <<<"$single")" 1 'DDP: both ranks have the same weights'
two 'collectives ddp'
is "$status $other_status" '0 0' 'two agents: all cases succeed' || diag "$err"
is "$(said collectives | paste -sd,)" 'collectives 0 of 2,collectives 1 of 2' \
    'collectives of two agents work'
is "$(said ddp)" "$single"$'\n'"$single" 'two agents give the same weights as one'
one restart --max-restarts 2
is "$status" 0 'a rank that dies once is restarted' || diag "$err"
is "$(sort -u <<<"$out")" 'restarted 1 2' 'a restarted rank has a fresh store'
one fail -r 3 --log-dir logs
is "$status" 1 'a rank that raises ends the run'
like "$err" 'rank      : 1 \(local_rank: 1\)' 'the report names it'
like "$err" 'a reason in rank 1' 'the report has the exception of the error file'
unlike "$err" 'rank      : 0 ' 'the report does not name the rank that was stopped'
done_testing
