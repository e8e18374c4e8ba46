#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A power loss after any call of a writer: checkpoints, files that are written atomically, results
# that are fetched and stored content are there as a whole, the last version that was reported as
# written or a newer one (crash.h).
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-6} SOAK_SEED=${SOAK_SEED:-1}
for program in crash_states crash_store; do
    run "$BUILD/release/tests/tools/$program" $((SOAK_SECONDS / 2)) "$SOAK_SEED" "$WORK/$program"
    echo "$out" | grep '^# [a-z_]*: seed='
    is "$status" 0 \
        "$program: there is always a complete version" || diag "$(grep -v '^ok' <<<"$out")"
done
[ "$tap_failed" = 0 ] || diag "repeat: SOAK_SECONDS=$SOAK_SECONDS SOAK_SEED=$SOAK_SEED $SCRIPT"
done_testing
