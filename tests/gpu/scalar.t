#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter: instructions of one lane at the edges of their operands, and the refusal of
# what it does not know.
"${DTCTL_BUILD:-build}/gpu/test_scalar.san" >/dev/null || echo 'not ok - under sanitizers'
exec "${DTCTL_BUILD:-build}/gpu/test_scalar"
