#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random models in random parallel modes of the native trainer, each begun in one mode and finished
# in another: the losses are those of one process.
source "${0%/*}/../lib.sh"

SOAK_SECONDS=${SOAK_SECONDS:-6} SOAK_SEED=${SOAK_SEED:-1}
run "$BUILD/release/tests/tools/nn_modes" "$SOAK_SECONDS" "$SOAK_SEED"
echo "$out" | grep '^# nn_modes: seed=' | sed 's/nn_modes/modes/'
is "$status" 0 'every mode has the losses of one process' || diag "$(grep -v '^ok' <<<"$out")"
[ "$tap_failed" = 0 ] || diag "repeat: SOAK_SECONDS=$SOAK_SECONDS SOAK_SEED=$SOAK_SEED $SCRIPT"
done_testing
