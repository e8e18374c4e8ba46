# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# shipped.sh: the code for GPUs that dttrain-cuda carries, and CUDA's compiler. Sourced by scripts,
# before lib.sh: the tools are in the user's cache, and lib.sh changes HOME.
cuda=$("${BASH_SOURCE[0]%/*}/../../lib/third_party/deps" path cuda)
sass=$("${BASH_SOURCE[0]%/*}/../../lib/third_party/deps" path sass)

# The interpreter's memory in large pages, where the kernel gives them to those who ask: the C
# library asks for it. A sixth of the time of a test that forks for each change of a kernel.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

cuda_needed() {
    GPU=$BUILD/gpu FATBIN=$BUILD/release/fatbin
    [ -n "$cuda" ] || skip_all "CUDA's compiler is not here (try: make deps)"
    [ -n "$sass" ] || skip_all 'cuobjdump is not here (try: make deps)'
    command -v g++ >/dev/null || skip_all 'nvcc needs g++ (try: make setup)'
}

# shipped: the code of each source into folders: ptx80/SOURCE.ptx, sm_80/SOURCE.cubin, and so on.
shipped() {
    local object source file sm
    mkdir fatbin
    for object in "$FATBIN"/*.o; do
        source=${object##*/} source=${source%.o}
        (
            cd fatbin && objcopy -O binary -j .rodata "$object" "$source.fatbin" &&
                "$sass/bin/cuobjdump" -xptx all "$source.fatbin" &&
                "$sass/bin/cuobjdump" -xelf all "$source.fatbin"
        ) >/dev/null || bail_out "$object has no code for GPUs"
    done
    for file in fatbin/*.{ptx,cubin}; do # SOURCE.1.sm_80.ptx
        source=${file##*/} source=${source%%.*}
        sm=${file#*.sm_} sm=${sm%.*}
        case $file in
        *.ptx) mkdir -p "ptx$sm" && mv "$file" "ptx$sm/$source.ptx" ;;
        *) mkdir -p "sm_$sm" && mv "$file" "sm_$sm/$source.cubin" ;;
        esac
    done
}
