#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh DTCTL: what `make demo` shows: a fresh folder, the two commands, what they made. The
# folder stays, and its name is the last line; the cluster itself is taken down. Interrupted: the
# run is ended, and nothing stays.
set -euo pipefail
dtctl=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
folder=$(mktemp -d "${TMPDIR:-/tmp}/dtctl-demo.XXXXXX")
cd "$folder"
interrupted() {
    trap '' INT TERM
    "$dtctl" down -y --force >/dev/null || exit 1 # what ends it later is in the folder
    cd / && rm -rf "$folder"
    exit 130
}
trap interrupted INT TERM
step() {
    printf '\n$ dtctl %s\n' "$*"
    "$dtctl" "$@"
}
step up
started=$(date +%s)
step train --nodes 2
printf '\ntraining took %s s\n' "$(($(date +%s) - started))"
step down -y
printf '\nthe files of the run are in %s\n' "$folder/.dtctl"
