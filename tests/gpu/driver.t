#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stand-in for libcuda.so.1, found by dlopen as a program does it.
export LD_LIBRARY_PATH="${DTCTL_BUILD:-build}/gpu"
exec "$LD_LIBRARY_PATH/test_driver"
