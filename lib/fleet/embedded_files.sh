#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# embedded_files.sh DIR NAME=PATH[:BASE]…: compresses each PATH into DIR and writes the table of
# embedded_files.h to DIR/embed.S and DIR/embed.c. BASE names an earlier file that PATH has much in
# common with. The output depends on names and contents only. Content that DIR has is not compressed
# again: it takes ten seconds of a processor.
set -euo pipefail
dir=$1 n=0
shift
declare -A path=() number=()
for pair; do
    name=${pair%%=*} file=${pair#*=}
    path[$name]=${file%:*} number[$name]=$n
    n=$((n + 1))
done
base() { # PAIR: the name of its base, or nothing
    [ "${1##*:}" = "$1" ] || echo "${1##*:}"
}
compress() { # PATH FILE [BASE]: and FILE.of has the hash of PATH, and that of BASE
    local of patch=()
    of=$(sha256sum <"$1" | cut -d' ' -f1)
    if [ "${3-}" ]; then
        of+=" $(sha256sum <"$3" | cut -d' ' -f1)" patch=(--single-thread --patch-from="$3")
    fi
    [ "$(cat "$2.of" 2>/dev/null)" != "$of" ] || return 0
    rm -f "$2.of"
    # -q does not keep zstd from advice on patches.
    if ! zstd -q "-${LEVEL:-19}" --no-progress "${patch[@]}" -f "$1" -o "$2" 2>"$2.err"; then
        cat "$2.err" >&2
        exit 1
    fi
    rm "$2.err" && echo "$of" >"$2.of"
}
n=0
{
    echo '    .section .rodata.embed,"a",@progbits'
    for pair; do
        base=$(base "$pair")
        compress "${path[${pair%%=*}]}" "$dir/$n.zst" "${base:+${path[$base]}}"
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
        base=$(base "$pair") from=NULL
        [ -z "$base" ] || from="&embed_files[${number[$base]}]"
        read -r hash _ <"$dir/$n.zst.of"
        printf '    {"%s", embed_data_%d, %d, %d, %s, "%s"},\n' "${pair%%=*}" $n \
            "$(stat -c %s "$dir/$n.zst")" "$(stat -c %s "${path[${pair%%=*}]}")" \
            "$from" "$hash"
        n=$((n + 1))
    done
    echo '    {NULL, NULL, 0, 0, NULL, ""},'
    echo '};'
} >"$dir/embed.c"
mv "$dir/embed.S.new" "$dir/embed.S"
