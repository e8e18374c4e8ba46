#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stand-in for libnccl.so.2, between processes.
export LD_LIBRARY_PATH="${DTCTL_BUILD:-build}/gpu"
exec "$LD_LIBRARY_PATH/test_nccl"
