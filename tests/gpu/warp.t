#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter: shuffles, votes, barriers, asynchronous copies; and every fault that it
# has to find.
"${DTCTL_BUILD:-build}/gpu/test_warp.san" >/dev/null || echo 'not ok - under sanitizers'
exec "${DTCTL_BUILD:-build}/gpu/test_warp"
