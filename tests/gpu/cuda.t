#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shipped CUDA kernels: right in the interpreter against the plain-C reference; no spills, no
# more registers and no fewer tensor instructions in inner loops than noted; and the bugs that
# tests/gpu/cuda_planted lists are found: one in EVERY of them, others after each change of the
# kernels, or all (PLANTED=all in the environment).
source "${0%/*}/shipped.sh"
source "${0%/*}/../lib.sh"
BUGS_MIN=10 EVERY=4
[ "${PLANTED-}" != all ] || EVERY=1
THREADS=256 # of a block, where cuda_blocks does not say
SECONDS_MAX=300 # for a test program; the longest takes 50 s of a processor
cuda_needed

# right FOLDER SEED PROGRAM [FAMILY…]: runs a test program; its output in $out
right() {
    run env EMU_SEED="$2" timeout $SECONDS_MAX "$GPU/test_cuda_$3" "$1" "${@:4}"
}

shipped
for program in "$SRC"/tests/gpu/test_cuda_*.c; do
    program=${program##*/} program=${program%.c} seeds=(0 7)
    [ "$program" != test_cuda_product ] || seeds=(7) # the longest; planted bugs have other seeds
    for seed in "${seeds[@]}"; do
        right ptx80 "$seed" "${program#test_cuda_}"
        is "$status" 0 "$program: seed $seed" || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"
    done
done
# 9.0 has kernels of its own.
hopper=(acts hopper hopper_edges hopper_counts)
mkdir ptx90 && cp ptx80/*.ptx ptx90a/*.ptx ptx90
CASE_CAPABILITY=90 right ptx90 7 product "${hopper[@]}"
is "$status" 0 'products for sm_90a' || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"
# Without bf16 and cp.async the products have another body.
CASE_CAPABILITY=75 right ptx75 1 product conv
is "$status" 0 'convolutions for sm_75' || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"
# GPUs to come take the newest PTX.
CASE_CAPABILITY=120 right ptx120 1 product conv
is "$status" 0 'convolutions for sm_120' || diag "$(grep -A 3 '^not ok' <<<"$out")" "$err"

# ---- registers, spills and tensor instructions of the code that is shipped ----------------------
for sm in sm_*; do
    for file in "$sm"/*.cubin; do
        "$sass/bin/cuobjdump" -res-usage "$file" 2>&1 | awk -v sm="$sm" '
            /^ Function / { name = $2; sub(/:$/, "", name) }
            match($0, /REG:[0-9]+ STACK:[0-9]+/) {
                split(substr($0, RSTART, RLENGTH), part, /[: ]/)
                print sm, name, part[2], part[4] }'
    done
done >used
for sm in sm_*; do
    for file in "$sm"/{large,hopper}.cubin; do
        [ ! -e "$file" ] || "$sass/bin/nvdisasm" -c "$file" |
            awk -f "$SRC/tests/gpu/tensor_loops.awk" -v sm="$sm"
    done
done >loops
awk -v threads=$THREADS '
    BEGIN { room["sm_75"] = 1024; room["sm_86"] = room["sm_89"] = room["sm_120"] = 1536 }
    FILENAME ~ /cuda_blocks$/ {
        if ($1 ~ /^sm_/) blocks_on[$2, $1] = $3
        if ($1 ~ /^(sm_|#)/ || !NF) next
        blocks[$1] = $2; of[$1] = $3 ? $3 : threads
        if ($4) share[$1] = $4
        next }
    FILENAME == "used" {
        if (!($2 in blocks)) { print $2 " is not in tests/gpu/cuda_blocks"; next }
        registers = int(($3 + 7) / 8) * 8; fit = int(65536 / (registers * of[$2]))
        most = int((room[$1] ? room[$1] : 2048) / of[$2])
        least = ($2, $1) in blocks_on ? blocks_on[$2, $1] : blocks[$2]
        if (least > most) least = most
        if ($4 > 0) print $2 " spills to " $4 " bytes of its stack on " $1
        if (fit < least) print $2 ": " fit " blocks on " $1 " (" $3 " registers), not " least
        seen[$2] = there[$2, $1] = targets[$1] = 1
        next }
    {
        if (100 * $4 < share[$2] * $3)
            print $2 " on " $1 ": " $4 " of " $3 " instructions, not " share[$2] " %"
        looped[$2, $1] = 1 }
    END {
        for (name in blocks) if (!(name in seen)) print name " is no kernel of kernels/cuda"
        for (name in share) for (sm in targets)
            if (((name, sm) in there) && !((name, sm) in looped))
                print name " has no such loop on " sm
    }' "$SRC/tests/gpu/cuda_blocks" used loops >wrong
is "$(cat wrong)" '' 'no spills, and the blocks and tensor instructions that are noted'
is "$(cut -d ' ' -f 1 used | sort -u | paste -sd ' ')" \
    'sm_100 sm_120 sm_75 sm_80 sm_86 sm_89 sm_90a' 'the code for every GPU is read'

# ---- planted bugs -------------------------------------------------------------------------------
KEPT=$GPU/planted KEPT_DAYS=7 # compiled bugs, under the hashes of their sources
rm -rf src && mkdir -p src bad "$KEPT" && cp -r "$SRC/kernels" src
# compiled SOURCE KERNELS: the PTX of these kernels, from the tree `src`, alone in the folder `bad`
# shellcheck disable=SC2317 # called through run
compiled() {
    local some=src/kernels/cuda/$1.some.cu kept
    local -a how=(-arch=compute_80 -Ofc min) # without costly optimizations, which wgmma needs
    [ "$1" != hopper ] || how=(-arch=compute_90a)
    rm -f bad/*.ptx
    awk -v kernels="^($2)\$" '
        /^KERNEL / { name = $2; sub(/\(.*/, "", name); left_out = name !~ kernels }
        !left_out { print }
        /^}/ { left_out = 0 }' "src/kernels/cuda/$1.cu" >"$some"
    kept=$KEPT/$(cat - "$some" src/kernels/cuda/*.{h,cuh} <<<"$cuda ${how[*]}" | sha256sum |
        cut -c 1-16).ptx
    if [ ! -e "$kept" ]; then
        "$cuda/bin/nvcc" -std=c++17 -Isrc "${how[@]}" -ptx -o new.ptx "$some" 2>&1 || return
        mv new.ptx "$kept"
    fi
    touch "$kept" && cp "$kept" "bad/$1.ptx"
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

bugs=0 listed=$(cat "$SRC"/kernels/cuda/* | cksum | cut -d ' ' -f 1)
while IFS= read -r line; do
    [[ $line != \#* && -n $line ]] || continue
    IFS='|' read -r name file source program family kernels why <<<"${line// | /|}"
    if ! read -r from || ! read -r to; then bail_out "cuda_planted: '$name' lacks lines"; fi
    [ $((listed++ % EVERY)) -eq 0 ] || continue
    bugs=$((bugs + 1)) capability=80
    [ "$source" != hopper ] || capability=90
    plant "$file" "$from" "$to" || bail_out "cuda_planted: $file has no line '$from'"
    run compiled "$source" "$kernels"
    [ "$status" = 0 ] || bail_out "cuda_planted: '$name' does not compile: status $status, $out$err"
    for seed in 1 2 3; do
        CASE_PLANTED=bad CASE_CAPABILITY=$capability right ptx90 $seed "$program" "$family"
        found "$why" && break
    done
    found "$why" && held=1 || held=0
    result "$held" "found: $name" || diag "$(grep -A 3 '^not ok' <<<"$out")" "status $status"
    cp "$SRC/kernels/cuda/$file" "src/kernels/cuda/$file"
done <"$SRC/tests/gpu/cuda_planted"
find "$KEPT" -name '*.ptx' -mtime +$KEPT_DAYS -delete
ok "at least $BUGS_MIN bugs are planted" [ "$bugs" -ge "$BUGS_MIN" ]
done_testing
