#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Triton's PTX for sm_80 and sm_90 in the interpreter: the code of another compiler, which runs on
# GPUs, gives right results here, and bugs that are planted in it are found. triton/cases.py has the
# kernels with the bounds of their errors, and triton/planted.py the bugs.
source "${0%/*}/../lib.sh"
SEEDS=(1 2 3)
POINTS_MIN=100
python=${DTCTL_TEST_TRITON-}/bin/python3
library=$BUILD/gpu/libcuda.so.1
[ -n "${DTCTL_TEST_TRITON-}" ] || skip_all 'Triton is not here (try: make setup)'
[ -e "$library" ] || bail_out 'the stand-in for libcuda.so.1 is not built'

# Triton keeps each compiled kernel here, under the hash of its source.
export TRITON_CACHE_DIR=$BUILD/gpu/triton PYTHONDONTWRITEBYTECODE=1
run "$python" "$SRC/tests/gpu/triton/run.py" "$library" "${SEEDS[@]}"
while IFS= read -r line; do
    case $line in
    'held '*) result 1 "${line#held }" ;;
    'failed '*) result 0 "${line#failed }" ;;
    *) diag "${line#\# }" ;;
    esac
done <<<"$out"
is "$status" 0 'every kernel is compiled' || diag "$(tail -n 20 <<<"$err")"
ok "at least $POINTS_MIN points" [ "$tap_count" -ge $POINTS_MIN ]
done_testing
