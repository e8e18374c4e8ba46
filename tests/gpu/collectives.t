#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives of devices over the stand-in for libnccl.so.2.
export LD_LIBRARY_PATH="${DTCTL_BUILD:-build}/gpu"
exec "$LD_LIBRARY_PATH/test_collectives"
