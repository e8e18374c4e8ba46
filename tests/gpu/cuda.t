#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shipped CUDA kernels: right in the interpreter against the plain-C reference; no spills, no
# more registers and no fewer tensor instructions in inner loops than noted; and every bug that
# tests/gpu/cuda_planted lists is found.
cuda=$("${0%/*}/../../lib/third_party/deps" path cuda) # in the user's cache: before HOME is changed
sass=$("${0%/*}/../../lib/third_party/deps" path sass)
source "${0%/*}/../lib.sh"
BUGS_MIN=10
THREADS=256 # of a block, where cuda_blocks does not say
GPU=$BUILD/gpu
[ -n "$cuda" ] || skip_all "CUDA's compiler is not here (try: make deps)"
command -v g++ >/dev/null || skip_all 'nvcc needs g++ (try: make setup)'

# compiled SM SOURCE FOLDER: the PTX of one source of the tree `src`
compiled() {
    mkdir -p "$3" && "$cuda/bin/nvcc" -std=c++17 -Isrc -arch="compute_$1" -ptx \
        -o "$3/$2.ptx" "src/kernels/cuda/$2.cu" 2>&1
}
# right FOLDER SEED PROGRAM [FAMILY…]: runs a test program; its output in $out
right() {
    run env EMU_SEED="$2" timeout 100 "$GPU/test_cuda_$3" "$1" "${@:4}"
}
tree() { rm -rf src && mkdir -p src && cp -r "$SRC/kernels" src; }

tree
sources=$(cd src/kernels/cuda && printf '%s\n' *.cu)
for source in ${sources//.cu/}; do
    run compiled 80 "$source" good
    is "$status$out$err" 0 "$source.cu compiles without a warning"
done
for program in "$SRC"/tests/gpu/test_cuda_*.c; do
    program=${program##*/} program=${program%.c}
    for seed in 0 7; do
        right good $seed "${program#test_cuda_}"
        is "$status" 0 "$program: seed $seed" || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"
    done
done
# Without bf16 and cp.async the products have another body.
compiled 75 product old
CASE_CAPABILITY=75 right old 1 product conv
is "$status" 0 'convolutions for sm_75' || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"

# ---- registers and spills -----------------------------------------------------------------------
for source in ${sources//.cu/}; do
    for sm in 75 80 90; do
        [ $sm != 75 ] || [ "$source" = product ] || continue # the other sources do not depend on it
        ptx=good/$source.ptx
        [ $sm != 75 ] || ptx=old/$source.ptx
        "$cuda/bin/ptxas" -v -arch=sm_$sm "$ptx" -o "$source.$sm.cubin" 2>&1 |
            awk -v sm=$sm '/Function properties for/ { name = $NF }
                /bytes stack frame/ { spills = $5 + $9 }
                /Used [0-9]+ registers/ { print sm, name, $5, spills }'
    done
done >used
awk -v threads=$THREADS 'FNR == NR {
        if ($1 !~ /^#/ && NF) { blocks[$1] = $2; of[$1] = $3 ? $3 : threads }
        next }
    { registers = int(($3 + 7) / 8) * 8; fit = int(65536 / (registers * of[$2])) }
    $4 > 0 { print $2 " spills " $4 " bytes on sm_" $1 }
    !($2 in blocks) { print $2 " is not in tests/gpu/cuda_blocks" }
    fit < blocks[$2] {
        print $2 ": " fit " blocks on sm_" $1 " (" $3 " registers), not " blocks[$2] }
    { seen[$2] = 1 }
    END { for (name in blocks) if (!(name in seen)) print name " is no kernel of kernels/cuda" }' \
    "$SRC/tests/gpu/cuda_blocks" used >wrong
is "$(cat wrong)" '' 'no spills, and as many blocks at once as noted'
ok 'ptxas told of kernels' [ "$(wc -l <used)" -gt 20 ]

# ---- tensor instructions ------------------------------------------------------------------------
if [ -n "$sass" ]; then
    for sm in 80 90; do
        "$sass/bin/nvdisasm" -c large.$sm.cubin | awk -f "$SRC/tests/gpu/tensor_loops.awk" -v sm=$sm
    done >loops
    awk 'FNR == NR { if ($1 !~ /^#/ && $4) share[$1] = $4; next }
        100 * $4 < share[$2] * $3 {
            print $2 " on sm_" $1 ": " $4 " of " $3 " instructions, not " share[$2] " %" }
        { seen[$1 " " $2] = 1 }
        END { for (name in share) for (sm = 80; sm <= 90; sm += 10)
            if (!(sm " " name in seen)) print name " has no such loop on sm_" sm }' \
        "$SRC/tests/gpu/cuda_blocks" loops >wrong
    is "$(cat wrong)" '' 'inner loops have as many tensor instructions as noted'
else
    skip 1 "nvdisasm is not here (try: make deps)"
fi

# ---- planted bugs -------------------------------------------------------------------------------
# plant FILE FROM TO: changes one line of the tree
plant() {
    FROM=$2 TO=$3 awk 'BEGIN { from = ENVIRON["FROM"]; to = ENVIRON["TO"] }
        !changed && (at = index($0, from)) {
            $0 = substr($0, 1, at - 1) to substr($0, at + length(from)); changed = 1 }
        { print } END { exit !changed }' "$SRC/kernels/cuda/$1" >"src/kernels/cuda/$1"
}
# found WHY: the output names the bug
found() { [ "$status" -ne 0 ] && grep -qE "^not ok.*(${1/result/wrong result})" <<<"$out"; }

bugs=0
while IFS= read -r line; do
    [[ $line != \#* && -n $line ]] || continue
    IFS='|' read -r name file source program family why <<<"${line// | /|}"
    if ! read -r from || ! read -r to; then bail_out "cuda_planted: '$name' lacks lines"; fi
    bugs=$((bugs + 1))
    plant "$file" "$from" "$to" || bail_out "cuda_planted: $file has no line '$from'"
    run compiled 80 "$source" bad
    [ "$status" = 0 ] || bail_out "cuda_planted: '$name' does not compile: status $status, $out$err"
    for seed in 1 2 3; do
        right bad $seed "$program" "$family"
        found "$why" && break
    done
    found "$why" && held=1 || held=0
    result "$held" "found: $name" || diag "$(grep -A 3 '^not ok' <<<"$out")" "status $status"
    cp "$SRC/kernels/cuda/$file" "src/kernels/cuda/$file"
done <"$SRC/tests/gpu/cuda_planted"
ok "at least $BUGS_MIN bugs are planted" [ "$bugs" -ge "$BUGS_MIN" ]
done_testing
