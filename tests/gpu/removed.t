#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every barrier, and every wait for asynchronous copies, of the shipped CUDA kernels is needed: it
# is removed from the PTX alone, and the interpreter or a result must report it. SWEEP=guards in the
# environment removes each branch and each predicate, too, and lists those that no test needs.
cuda=$("${0%/*}/../../lib/third_party/deps" path cuda) # in the user's cache: before HOME is changed
source "${0%/*}/../lib.sh"
SEEDS=3 # orders in which a missing barrier may show
HUNG_S=30
GPU=$BUILD/gpu
[ -n "$cuda" ] || skip_all "CUDA's compiler is not here (try: make deps)"
command -v g++ >/dev/null || skip_all 'nvcc needs g++ (try: make setup)'
NEEDED='(bar|barrier)\.|cp\.async\.wait'
[ "${SWEEP-}" != guards ] || NEEDED+='|@'

# families of tests/gpu/test_cuda_PROGRAM.c that launch the kernels of a source
declare -A tests=(
    [attention]='layers attention' [batchnorm]='rows batchnorm bias' [flat]='flat flat'
    [image_input]='layers image' [large]='product large' [layernorm]='rows layernorm'
    [loss]='layers loss' [pooling]='layers pool' [product]='product gemm conv'
    [step]='flat step' [tokens]='layers tokens'
)

mkdir good bad
for file in "$SRC"/kernels/cuda/*.cu; do
    source=${file##*/} source=${source%.cu}
    "$cuda/bin/nvcc" -std=c++17 -I"$SRC" -arch=compute_80 -ptx -o "good/$source.ptx" "$file" ||
        bail_out "$source.cu does not compile"
    ln -s "$WORK/good/$source.ptx" bad/
    ok "families of tests are named for $source.cu" [ -n "${tests[$source]-}" ]
done

# removed SOURCE LINE: the PTX without that line; an instruction with a predicate loses only that
removed() {
    awk -v line="$2" 'NR != line { print; next }
        $1 ~ /^@/ && $2 !~ /^bra/ { sub(/@!?%p[0-9]+/, ""); print }' "good/$1.ptx"
}
# found SOURCE: a test reports the PTX of bad/, or ends by itself or by the time
found() {
    local seed program families
    read -r program families <<<"${tests[$1]}"
    for ((seed = 1; seed <= SEEDS; seed++)); do
        # shellcheck disable=SC2086 # several families
        EMU_SEED=$seed timeout "$HUNG_S" "$GPU/test_cuda_$program" bad $families >report 2>&1 &&
            ! grep -q '^not ok' report || return 0
    done
    return 1
}

for source in "${!tests[@]}"; do
    n=0 kept=''
    found "$source" && whole=0 || whole=1
    result "$whole" "$source: the whole kernels pass" || diag "$(grep -A 3 '^not ok' report)"
    rm "bad/$source.ptx"
    while IFS=: read -r line text; do
        n=$((n + 1))
        removed "$source" "$line" >"bad/$source.ptx"
        found "$source" && continue
        kernel=$(head -n "$line" "good/$source.ptx" | grep -oE '\.entry [a-z0-9_]+' | tail -n 1)
        kept+="${kernel#.entry }, line $line: $text"$'\n'
    done < <(grep -nE "^[[:space:]]*($NEEDED)" "good/$source.ptx")
    ln -sf "$WORK/good/$source.ptx" bad/
    if [ "${SWEEP-}" = guards ]; then
        diag "$source: $n were removed; the tests pass without these:" "$kept"
    else
        is "$kept" '' "$source: none of $n barriers and waits can be removed unseen"
    fi
done
done_testing
