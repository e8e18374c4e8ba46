#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A power loss after any call of a writer: checkpoints and files that are written atomically are
# there as a whole, the last one that was reported as written or a newer one (crash_states.c).
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-5} SOAK_SEED=${SOAK_SEED:-1}
"$BUILD/release/tests/tools/crash_states" "$SOAK_SECONDS" "$SOAK_SEED" "$WORK"
status=$?
[ "$status" = 0 ] || diag "repeat: SOAK_SECONDS=$SOAK_SECONDS SOAK_SEED=$SOAK_SEED $SCRIPT"
tap_done=1
exit "$status"
