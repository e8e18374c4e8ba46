#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# embedded_files.sh DIR NAME=PATH…: compresses each PATH into DIR and writes the table of
# embedded_files.h to DIR/embed.S and DIR/embed.c. The output depends on names and contents only.
# Content that DIR has is not compressed again: it takes ten seconds of a processor.
set -euo pipefail
dir=$1 n=0
shift
compress() { # PATH FILE: and FILE.of has the hash of PATH
    local of
    of=$(sha256sum <"$1" | cut -d' ' -f1)
    [ "$(cat "$2.of" 2>/dev/null)" != "$of" ] || return 0
    rm -f "$2.of"
    zstd -q "-${LEVEL:-19}" --no-progress -f "$1" -o "$2" && echo "$of" >"$2.of"
}
{
    echo '    .section .rodata.embed,"a",@progbits'
    for pair; do
        compress "${pair#*=}" "$dir/$n.zst"
        printf '    .balign 16\n    .hidden embed_data_%d\n    .globl embed_data_%d\n' $n $n
        printf 'embed_data_%d:\n    .incbin "%d.zst"\n' $n $n
        n=$((n + 1))
    done
    echo '    .section .note.GNU-stack,"",@progbits'
} >"$dir/embed.S.new"
n=0
{
    echo '#include "fleet/embedded_files.h"'
    for pair; do echo "extern const unsigned char embed_data_${n}[];" && n=$((n + 1)); done
    echo 'extern const struct embed_file embed_files[];'
    echo 'const struct embed_file embed_files[] = {'
    n=0
    for pair; do
        path=${pair#*=}
        printf '    {"%s", embed_data_%d, %d, %d, "%s"},\n' "${pair%%=*}" $n \
            "$(stat -c %s "$dir/$n.zst")" "$(stat -c %s "$path")" \
            "$(cat "$dir/$n.zst.of")"
        n=$((n + 1))
    done
    echo '    {NULL, NULL, 0, 0, ""},'
    echo '};'
} >"$dir/embed.c"
mv "$dir/embed.S.new" "$dir/embed.S"
