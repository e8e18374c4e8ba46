#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A signal at any system call of train, up, down, push and fetch: SIGINT, SIGTERM or SIGKILL at the
# N-th call, N swept over the whole command. A signal always has its effect, no agent lives when the
# record says that the run is over, and whatever is left can be stopped, fetched or made again.
# shellcheck disable=SC2034,SC2154,SC2317 # shared with sweep.sh
source "${0%/*}/../lib.sh"
source "$SRC/tests/soak/sweep.sh"

at_kind() { kind=$1 how=(-s "$1"); }
at_round() {
    local signals=(INT TERM KILL)
    at_kind "${signals[$1 % 3]}"
}
judge() {
    # A run that was over already, and is whole here, is no failure.
    [ "$at" = -1 ] || [ "$kind" = KILL ] || [ "$status" != 0 ] ||
        [[ $verb == @(train|fetch) ]] || fault 'the signal had no effect'
}

sweep_begin
# shellcheck disable=SC2086 # three words
[ -z "${SOAK_AT-}" ] || sweep_one $SOAK_AT
sweep signals 'a signal at any of its calls'
