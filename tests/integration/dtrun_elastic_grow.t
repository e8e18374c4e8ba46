#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An elastic program on two nodes to which a third one comes, under dtrun. torchrun waits two
# minutes there, as the table says, so it runs only with DTCTL_TEST_TORCHRUN=1.
# shellcheck source=tests/integration/dtrun_elastic.sh
source "${0%/*}/dtrun_elastic.sh"

status_theirs=- out_theirs=-
# shellcheck disable=SC2046 # a word or none
elastic 2 3 $([ -z "${DTCTL_TEST_TORCHRUN-}" ] || echo theirs) ours
compare 'elastic, grown: status' "$status_theirs" "$status_ours" || diag "dtrun: $(cat ours/err)"
compare 'elastic, grown: result' "$out_theirs" "$out_ours"
compared '^elastic, grown'
