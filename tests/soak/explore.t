#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Explores what election, rendezvous and sessions do over two to four nodes, from SOAK_SEED (1) on:
# tests/tools/explore.c. SOAK_SECONDS (20) says how many sequences; the count decides what is found,
# never the clock. Then two rules are broken on purpose, and it must notice.
source "${0%/*}/../lib.sh"
# shellcheck disable=SC2317 # run calls it
explore() { "$BUILD/release/tests/tools/explore" "$@"; }

per_second=230 # sequences for each number of nodes
run explore $((${SOAK_SECONDS:-20} * per_second)) "${SOAK_SEED:-1}"
echo "$out" | grep '^#'
is "$status" 0 'every state is safe, and the run goes on from it' || diag "$out"
for rule in '1 silence taken for death' '3 a coordinator that does not wait for the fence'; do
    run explore 2300 1 "${rule%% *}"
    like "$out" '# (two|a rank|a round).*again: explore' "noticed: ${rule#* }"
done
done_testing
