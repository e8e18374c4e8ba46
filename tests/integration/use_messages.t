#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What dtctl says where a first-time user goes wrong.
source "${0%/*}/../lib.sh"

# ---- failures in a row ---------------------------------------------------------------------------
run dtctl train --nodes 1 --max-restarts 5 -- false
is "$status" 1 'a command that fails at once'
like "$out" 'not started again: crash loop: 3 times in a row within 5 s; .*crash_loop=0' \
    'is not started for ever, and that is said'
like "$out" '2 more failures came after it' 'with how often it failed'
run dtctl train --nodes 1 --max-restarts 3 --rdzv-conf crash_loop=0 -- false
like "$out" '3 restarts' 'crash_loop=0 uses up all restarts'
unlike "$out" 'crash loop' 'and says nothing of a loop'
run dtctl train --rdzv-conf crash_loop=often -- true
is "$status" 2 'a count that is no number is refused here'
like "$err" "crash_loop: 'often' is not a number of failures" 'with the reason'
done_testing
