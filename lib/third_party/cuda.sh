# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# cuda.sh: CUDA's compiler. Sourced by deps, which sets here and cache and defines pinned, fetch,
# die and hold_cache. An nvcc of the pinned release on PATH is used as it is; otherwise the pinned
# wheels are unpacked into a folder of the cache that is named by their hashes.

: "${here:?}" "${cache:?}"

cuda_names() {
    awk '/^cuda-/ { print $1 }' "$here/pins"
}

cuda_release() { # prints 13.0
    pinned cuda-nvcc | awk '{ split($2, v, "."); print v[1] "." v[2] }'
}

cuda_wheels_path() {
    local key
    key=$(grep '^cuda-' "$here/pins" | cat - "$here/cuda.sh" | sha256sum | cut -c1-16)
    echo "$cache/cuda-$key"
}

# The folder of an nvcc on PATH, when its release is the pinned one.
cuda_on_path() {
    local nvcc
    nvcc=$(command -v nvcc) && "$nvcc" --version 2>/dev/null |
        grep -q "release $(cuda_release)," || return 1
    # A wrapper script names another folder than its own: nvcc itself knows.
    "$nvcc" --dryrun -c x.cu 2>&1 | sed -n 's/^#\$ TOP=//p' | head -n 1 | xargs -r realpath
}

cuda_path() {
    local wheels
    wheels=$(cuda_wheels_path)
    cuda_on_path || { [ ! -d "$wheels" ] || echo "$wheels"; }
}

sass_names=(cuda-cuobjdump cuda-nvdisasm)

# The folder of nvdisasm: that of the compiler, or one of its own beside an nvcc on PATH.
sass_path() {
    local compiler wheels
    compiler=$(cuda_path)
    wheels=$cache/sass-$(grep -E '^cuda-(cuobjdump|nvdisasm) ' "$here/pins" | sha256sum |
        cut -c1-16)
    if [ -x "$compiler/bin/nvdisasm" ]; then
        echo "$compiler"
    elif [ "${1-}" = wanted ] || [ -d "$wheels" ]; then
        echo "$wheels"
    fi
}

cuda_fetch() { # DIR [NAME…]
    local name dir=$1 names=("${@:2}")
    [ ${#names[@]} != 0 ] || mapfile -t names < <(cuda_names)
    for name in "${names[@]}"; do
        fetch "$name" "$dir"
    done
}

cuda_unzip() { # ARCHIVES OUT NAME…
    local name file
    mkdir -p "$2"
    for name in "${@:3}"; do
        file=$(pinned "$name" | awk '{ print $4 }')
        (cd "$2" && python3 -m zipfile -e "$1/$file" .) || die "cannot unpack $file"
    done
    mv "$2"/nvidia/cu13/* "$2"
    rm -r "$2/nvidia"
    chmod +x "$2"/bin/*
}

cuda_unpack() { # ARCHIVES OUT
    local names
    mapfile -t names < <(cuda_names)
    cuda_unzip "$1" "$2" "${names[@]}"
    chmod +x "$2"/nvvm/bin/*
    if [ ! -x "$2/bin/nvcc" ] || [ ! -x "$2/nvvm/bin/cicc" ]; then
        die 'the wheels hold no nvcc or no cicc'
    fi
}

# Beside an nvcc on PATH: cuobjdump and nvdisasm, where its folder lacks them.
sass_build() {
    local final temp
    final=$(sass_path wanted)
    [ ! -d "$final" ] || return 0
    hold_cache
    [ ! -d "$final" ] || return 0
    temp=$(mktemp -d "$cache/tmp.XXXXXX")
    # shellcheck disable=SC2064 # the folder's name is known now and must not change
    trap "rm -rf '$temp'" EXIT
    cuda_fetch "$temp/archives" "${sass_names[@]}"
    cuda_unzip "$temp/archives" "$temp/out" "${sass_names[@]}"
    mv "$temp/out" "$final"
    echo "deps: nvdisasm is ready in $final"
}

cuda_build() {
    local final temp
    [ "$(uname -m)" = x86_64 ] || die "CUDA's compiler is pinned for x86_64 only"
    [ -z "$(cuda_path)" ] || { sass_build && return 0; }
    command -v python3 >/dev/null ||
        die "python3 is not installed, which unpacks CUDA's compiler; run 'make setup'"
    final=$(cuda_wheels_path)
    hold_cache
    [ ! -d "$final" ] || return 0
    temp=$(mktemp -d "$cache/tmp.XXXXXX")
    # shellcheck disable=SC2064 # the folder's name is known now and must not change
    trap "rm -rf '$temp'" EXIT
    cuda_fetch "$temp/archives"
    cuda_unpack "$temp/archives" "$temp/out"
    mv "$temp/out" "$final"
    echo "deps: CUDA's compiler is ready in $final"
}
