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

# plant FROM TO: a copy of the source with one line changed
plant() {
    FROM=$1 TO=$2 awk 'BEGIN { from = ENVIRON["FROM"]; to = ENVIRON["TO"] }
        !changed && (at = index($0, from)) {
            $0 = substr($0, 1, at - 1) to substr($0, at + length(from)); changed = 1 }
        { print } END { exit !changed }' good.cu >bad.cu
}
# found WHY: the output of the kernels names the bug
found() {
    local why=${1/result/wrong result}
    [ "$status" -ne 0 ] && grep -qE "^not ok.*($why)" <<<"$out"
}

bugs=0
while IFS= read -r line; do
    [[ $line != \#* && -n $line ]] || continue
    if ! read -r from || ! read -r to; then bail_out "tests/gpu/planted: '$line' lacks lines"; fi
    bugs=$((bugs + 1)) name=${line%%: *} why=${line#*: }
    plant "$from" "$to" || bail_out "tests/gpu/planted: kernels.cu has no line '$from'"
    compiled bad.cu bad.ptx || bail_out "tests/gpu/planted: '$name' does not compile"
    for seed in 1 2 3; do
        kernels bad.ptx $seed
        found "$why" && break
    done
    found "$why" && held=1 || held=0
    result "$held" "found: $name" || diag "$(grep -A 3 '^not ok' <<<"$out")" "status $status"
done <"$SRC/tests/gpu/planted"
ok "at least $BUGS_MIN bugs are planted" [ "$bugs" -ge "$BUGS_MIN" ]
done_testing
