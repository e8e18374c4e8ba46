#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An elastic program on two nodes to which a third one comes.
# shellcheck source=tests/integration/dtrun_elastic.sh
source "${0%/*}/dtrun_elastic.sh"

elastic 2 3
compare 'elastic, grown: status' "$status_theirs" "$status_ours" || diag "dtrun: $(cat ours/err)"
compare 'elastic, grown: result' "$out_theirs" "$out_ours"
compared '^elastic, grown'
