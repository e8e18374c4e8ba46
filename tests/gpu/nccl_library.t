#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where libnccl.so.2 is looked for: by a program that does not lie beside the stand-in.
export LD_LIBRARY_PATH="${DTCTL_BUILD:-$PWD/build}/gpu"
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
cp "$LD_LIBRARY_PATH/test_nccl_library" "$folder" && "$folder/test_nccl_library"
