#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kernels compiled to PTX run right in the interpreter, in several orders of blocks and warps; and
# every bug that tests/gpu/planted lists is found when it is planted.
cuda=$("${0%/*}/../../lib/third_party/deps" path cuda) # in the user's cache: before HOME is changed
source "${0%/*}/../lib.sh"
BUGS_MIN=20
GPU=$BUILD/gpu
[ -n "$cuda" ] || skip_all "CUDA's compiler is not here (try: make deps)"
command -v g++ >/dev/null || skip_all 'nvcc needs g++ (try: make setup)'

# compiled SOURCE PTX: for the lowest capability that has bf16 and cp.async
# shellcheck disable=SC2317 # called through ok
compiled() { "$cuda/bin/nvcc" -std=c++17 -w -arch=compute_80 -ptx -o "$2" "$1"; }
# kernels PTX SEED: runs the test program; its output in $out
kernels() {
    run env LD_LIBRARY_PATH="$GPU" EMU_SEED="$2" timeout 60 "$GPU/test_kernels" "$1"
}

cp "$SRC/tests/gpu/kernels/kernels.cu" good.cu
ok 'the kernels compile to PTX' compiled good.cu good.ptx
for seed in 1 2 3 4; do
    kernels good.ptx "$seed"
    is "$status" 0 "kernels run right with seed $seed" || diag "$(grep -A 3 '^not ok' <<<"$out")"
done

# entries FILE: the kernels in a file of PTX
entries() { sed -n 's/^\.visible \.entry \([a-z0-9_]*\)(.*/\1/p' "$1"; }
# plant NUMBER FROM TO: a namespace with one line changed; of kernels, that of the line or all
plant() {
    entries good.ptx | sed "s/.*/#define & bug$1_&/"
    echo "namespace bug$1 {"
    FROM=$2 TO=$3 awk 'BEGIN { from = ENVIRON["FROM"]; to = ENVIRON["TO"] }
        /^extern "C" __global__/ { kernel = NR }
        !changed && (at = index($0, from)) {
            $0 = substr($0, 1, at - 1) to substr($0, at + length(from))
            changed = NR
            only = kernel
        }
        !/^#include/ { text[NR] = $0; of[NR] = kernel }
        /^}/ { kernel = 0 }
        END {
            for (i = 1; i <= NR; i++) if (!of[i] || !only || of[i] == only) print text[i]
            exit !changed
        }' good.cu || return
    echo '}'
    entries good.ptx | sed 's/^/#undef /'
}
# planted NUMBER: PTX with the kernels of that namespace, and the others as they were
planted() {
    entries bad.ptx | sed -n "s/^bug$1_//p" >changed
    awk -v bug="bug$1_" '
        FILENAME == "changed" { changed[$1] = 1; next }
        FNR == 1 { good = FILENAME == "good.ptx"; left_out = !good }
        match($0, /^\.visible \.entry [a-z0-9_]+/) {
            name = substr($0, 17, RLENGTH - 16)
            left_out = good ? (name in changed) : index(name, bug) != 1
            sub(bug, "")
        }
        !left_out || /^\.extern/ { print }
        /^}/ { left_out = !good }' changed good.ptx bad.ptx
}
# found WHY: the output of the kernels names the bug
found() {
    local why=${1/result/wrong result}
    [ "$status" -ne 0 ] && grep -qE "^not ok.*($why)" <<<"$out"
}

# All bugs are compiled at once: the compiler takes longest for its own headers.
names=() whys=()
grep '^#include' good.cu >bad.cu
while IFS= read -r line; do
    [[ $line != \#* && -n $line ]] || continue
    if ! read -r from || ! read -r to; then bail_out "tests/gpu/planted: '$line' lacks lines"; fi
    plant ${#names[@]} "$from" "$to" >>bad.cu ||
        bail_out "tests/gpu/planted: kernels.cu has no line '$from'"
    names+=("${line%%: *}") whys+=("${line#*: }")
done <"$SRC/tests/gpu/planted"
ok 'the kernels with bugs compile to PTX' compiled bad.cu bad.ptx
for i in "${!names[@]}"; do
    planted "$i" >bug.ptx
    is "$(entries bug.ptx | sort)" "$(entries good.ptx | sort)" "${names[i]}: all kernels are there"
    for seed in 1 2 3; do
        kernels bug.ptx $seed
        found "${whys[i]}" && break
    done
    found "${whys[i]}" && held=1 || held=0
    result "$held" "found: ${names[i]}" || diag "$(grep -A 3 '^not ok' <<<"$out")" "status $status"
done
ok "at least $BUGS_MIN bugs are planted" [ ${#names[@]} -ge "$BUGS_MIN" ]
done_testing
