#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shipped CUDA kernels: right in the interpreter against the plain-C reference; no spills, no
# more registers and no fewer tensor instructions in inner loops than noted; and every bug that
# tests/gpu/cuda_planted lists is found.
source "${0%/*}/shipped.sh"
source "${0%/*}/../lib.sh"
BUGS_MIN=10
THREADS=256 # of a block, where cuda_blocks does not say
cuda_needed

# right FOLDER SEED PROGRAM [FAMILY…]: runs a test program; its output in $out
right() {
    run env EMU_SEED="$2" timeout 100 "$GPU/test_cuda_$3" "$1" "${@:4}"
}

shipped
for program in "$SRC"/tests/gpu/test_cuda_*.c; do
    program=${program##*/} program=${program%.c}
    for seed in 0 7; do
        right ptx80 $seed "${program#test_cuda_}"
        is "$status" 0 "$program: seed $seed" || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"
    done
done
# Without bf16 and cp.async the products have another body.
CASE_CAPABILITY=75 right ptx75 1 product conv
is "$status" 0 'convolutions for sm_75' || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"

# ---- registers and spills -----------------------------------------------------------------------
for sm in sm_*; do
    for file in "$sm"/*.cubin; do
        "$sass/bin/cuobjdump" -res-usage "$file" 2>&1 | awk -v sm="$sm" '
            /^ Function / { name = $2; sub(/:$/, "", name) }
            match($0, /REG:[0-9]+ STACK:[0-9]+/) {
                split(substr($0, RSTART, RLENGTH), part, /[: ]/)
                print sm, name, part[2], part[4] }'
    done
done >used
# noted SM NAME: the name of the line of cuda_blocks
noted='function noted(sm, name) {
    return sm ~ /^sm_1/ && (name "@blackwell") in blocks ? name "@blackwell" : name }'
awk -v threads=$THREADS "$noted"' FNR == NR {
        if ($1 !~ /^#/ && NF) { blocks[$1] = $2; of[$1] = $3 ? $3 : threads }
        next }
    BEGIN { most["sm_75"] = 1024; most["sm_86"] = most["sm_89"] = most["sm_120"] = 1536 }
    $4 > 0 { print $2 " spills: " $4 " bytes of stack on " $1 }
    !($2 in blocks) { print $2 " is not in tests/gpu/cuda_blocks"; next }
    { line = noted($1, $2); seen[$2]; seen[line]
      room = int(($1 in most ? most[$1] : 2048) / of[line])
      wanted = blocks[line] < room ? blocks[line] : room
      fit = int(65536 / (int(($3 + 7) / 8) * 8 * of[line])) }
    fit < wanted { print $2 ": " fit " blocks on " $1 " (" $3 " registers), not " wanted }
    END { for (line in blocks) if (!(line in seen)) print line " is no kernel of kernels/cuda" }' \
    "$SRC/tests/gpu/cuda_blocks" used >wrong
is "$(cat wrong)" '' 'no spills, and as many blocks at once as noted'
is "$(cut -d ' ' -f 1 used | sort -u | xargs)" "$(echo sm_* | xargs -n 1 | sort | xargs)" \
    'each GPU has code of its own'
ok 'cuobjdump lists kernels' [ "$(wc -l <used)" -gt 200 ]

# ---- tensor instructions ------------------------------------------------------------------------
for sm in sm_*; do
    [ "$sm" = sm_75 ] || "$sass/bin/nvdisasm" -c "$sm/large.cubin" |
        awk -f "$SRC/tests/gpu/tensor_loops.awk" -v sm="$sm"
done >loops
awk "$noted"' FNR == NR { if ($1 !~ /^#/ && $4) blocks[$1] = $4; next }
    { share = blocks[noted($1, $2)]; kernels[$1]; seen[$1 " " $2] }
    100 * $4 < share * $3 {
        print $2 " on " $1 ": " $4 " of " $3 " instructions, not " share " %" }
    END { for (name in blocks) for (sm in kernels)
        if (name !~ /@/ && !(sm " " name in seen)) print name " has no such loop on " sm }' \
    "$SRC/tests/gpu/cuda_blocks" loops >wrong
is "$(cat wrong)" '' 'inner loops have as many tensor instructions as noted'
is "$(cut -d ' ' -f 1 loops | sort -u | wc -l)" 6 'those of six kinds of GPUs'

# ---- planted bugs -------------------------------------------------------------------------------
rm -rf src && mkdir src && cp -r "$SRC/kernels" src
# compiled SM SOURCE FOLDER: the PTX of one source of the tree `src`
# shellcheck disable=SC2317 # called through run
compiled() {
    mkdir -p "$3" && "$cuda/bin/nvcc" -std=c++17 -Isrc -arch="compute_$1" -ptx \
        -o "$3/$2.ptx" "src/kernels/cuda/$2.cu" 2>&1
}
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
