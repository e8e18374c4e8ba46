#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter: products of four warps, against layouts from the PTX manual.
"${DTCTL_BUILD:-build}/gpu/test_warpgroup.san" >/dev/null || echo 'not ok - under sanitizers'
exec "${DTCTL_BUILD:-build}/gpu/test_warpgroup"
