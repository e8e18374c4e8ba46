#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An elastic program that one of three nodes leaves (SIGTERM to its agent), under dtrun. torchrun's
# agents may miss each other there and wait for minutes, or continue with other numbers of nodes, so
# it runs only with DTCTL_TEST_TORCHRUN=1.
# shellcheck source=tests/integration/dtrun_elastic.sh
source "${0%/*}/dtrun_elastic.sh"

status_theirs=- out_theirs=- count_theirs=-
# shellcheck disable=SC2046 # a word or none
elastic 3 2 $([ -z "${DTCTL_TEST_TORCHRUN-}" ] || echo theirs) ours
compare 'elastic, shrunk: status' "$status_theirs" "$status_ours" || diag "$(cat ours/err)"
compare 'elastic, shrunk: result' "$out_theirs" "$out_ours"
[[ $out_theirs != *'worlds [3, 2] '* ]] ||
    is "$out_ours" "$out_theirs" 'dtrun and torchrun have the same samples, worlds and weights'
compare 'elastic, shrunk: failures counted' "$count_theirs" "$count_ours"
compared '^elastic, shrunk'
