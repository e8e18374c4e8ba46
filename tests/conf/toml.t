#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every case that the toml-test suite lists for TOML 1.0.0, valid and invalid.
set -uo pipefail
src=${DTCTL_SRC:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${DTCTL_BUILD:-$src/build}
archive=$src/../shared/data/toml-test.tar.gz
program=$build/release/tests/tools/toml_cases

if [ ! -f "$archive" ]; then
    echo "1..0 # SKIP the toml-test archive is not at ../shared/data/toml-test.tar.gz"
    exit 0
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
tar -xzf "$archive" -C "$folder" || exit 1
"$program" "$folder/tests" "$folder/tests/files-toml-1.0.0"
