#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Questions on a terminal: an answer, no answer, and a signal in place of one.
# shellcheck disable=SC2317 # called by run
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

answer() { "$SRC/tests/tools/answer.py" 20 "$@"; }

dtctl up -q || diag 'up failed'
truncate -s 1100M large
run answer 'continue? [y/N]' 'n\n' -- dtctl push large
is "$status" 1 'push: no is an end'
like "$out" 'nothing was sent' 'push says that nothing was sent'
run answer 'continue? [y/N]' '\x03' -- dtctl push large
is "$status" 130 'push: Ctrl-C ends the question'
run answer 'continue? [y/N]' SIGTERM -- dtctl push large
is "$status" 143 'push: SIGTERM does'
run answer 'continue? [y/N]' '\x04' -- dtctl push large
is "$status" 1 'push: the end of the input is a no'
run answer 'to 2 nodes' '' -- dtctl push --dry-run large
is "$status" 0 'push --dry-run asks nothing'
unlike "$out" 'continue' 'push --dry-run prints no question'
run answer 'node0' '' -- dtctl exec -b -- 'printf "a\033]0;title\007b\n"'
is "$status" 0 'exec -b on a terminal succeeds'
like "$out" 'a\\x1b\]0;title\\x07b' 'control characters of a node are escaped'
done_testing
