#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter: mbarriers, bulk copies and tensor maps, against the PTX manual.
"${DTCTL_BUILD:-build}/gpu/test_bulk.san" >/dev/null || echo 'not ok - under sanitizers'
exec "${DTCTL_BUILD:-build}/gpu/test_bulk"
