#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PTX interpreter: bulk copies from shared memory.
"${DTCTL_BUILD:-build}/gpu/test_bulk_store.san" >/dev/null || echo 'not ok - under sanitizers'
exec "${DTCTL_BUILD:-build}/gpu/test_bulk_store"
