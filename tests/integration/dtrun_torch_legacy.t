#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The oldest PyTorch that distributions still have (Debian's python3-torch 1.13) under dtrun: its
# store's clients speak the protocol from before 2.1.
source "${0%/*}/../lib.sh"
# shellcheck source=tests/torch.sh
source "$SRC/tests/torch.sh"
PYTHON=${DTCTL_TEST_PYTHON_LEGACY:-/usr/bin/python3}
[[ $(torch_version) =~ ^(1\.|2\.0\.) ]] ||
    skip_all "$PYTHON has no PyTorch up to 2.0 (Debian's python3-torch; DTCTL_TEST_PYTHON_LEGACY)"
diag "PyTorch $(torch_version)"
export PYTHON_EXEC=$PYTHON OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
one() { # CASES [FLAGS…]
    local cases
    read -ra cases <<<"$1"
    torch_run timeout 100 dtrun --standalone --nproc-per-node 2 "${@:2}" \
        "$SRC/tests/integration/dtrun_torch.py" "${cases[@]}"
}
said() { grep "^$1 " <<<"$out"; } # CASE
one 'store_legacy collectives ddp'
is "$status" 0 'all cases succeed' || diag "$err"
is "$(said collectives | sort | paste -sd,)" 'collectives 0 of 2,collectives 1 of 2' \
    'all_reduce, new_group, barriers and objects work'
is "$(said ddp | sort -u | wc -l)" 1 'DDP: both ranks have the same weights'
is "$(said legacy | sort | paste -sd,)" 'legacy 0,legacy 1' 'every method of dist.TCPStore works'
one restart --max-restarts 2
is "$status $(sort -u <<<"$out")" '0 restarted 1 2' 'a restart has a fresh store' || diag "$err"
done_testing
