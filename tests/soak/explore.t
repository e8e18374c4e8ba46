#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Explores what election, rendezvous and sessions do over two to four nodes, from SOAK_SEED (1) on:
# tests/tools/explore.c. Each seed stands for as many sequences, whatever the machine: SOAK_SECONDS
# (20) says how many seeds, fewer where the time is up. Then two rules are broken on purpose, and it
# must notice.
source "${0%/*}/../lib.sh"
# shellcheck disable=SC2317 # run calls it
explore() { "$BUILD/release/tests/tools/explore" "$@"; }

per_seed=3400 seconds_of_seed=20 # sequences for each number of nodes, and what they may take
first=${SOAK_SEED:-1} count=$((${SOAK_SECONDS:-20} / seconds_of_seed))
until=$((SECONDS + ${SOAK_SECONDS:-20}))
for ((seed = first; seed == first || seed < first + count && SECONDS < until; seed++)); do
    run explore $per_seed "$seed"
    echo "$out" | grep '^#'
    [ "$status" = 0 ] || break
done
is "$status" 0 'every state is safe, and the run continues from each' || diag "$out"
# Sequences that found faults: SEED, NODES, PATH.
sequences=('42563901 4 17,12,28')
for found in "${sequences[@]}"; do
    read -r seed nodes path <<<"$found"
    run explore 1 "$seed" 0 "$nodes" "$path"
    is "$status" 0 "a sequence that once found a fault is safe: $found" || diag "$out"
done
for rule in '1 silence taken for death' '3 a coordinator that does not wait for the fence'; do
    run explore 2300 1 "${rule%% *}"
    like "$out" '# (two|a rank|a round).*again: explore' "the fault is noticed: ${rule#* }"
done
done_testing
