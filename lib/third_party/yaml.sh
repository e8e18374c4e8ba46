# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# yaml.sh: libyaml, for dtctl import. Sourced by deps, which sets here, cache and cc and sources
# fetch.sh and build.sh. It has a folder of its own in the cache, so that a new libyaml leaves the
# other libraries as they are.

: "${here:?}" "${cache:?}" "${cc:?}"

yaml_key() {
    local key
    key=$({
        grep -E '^libyaml' "$here/pins"
        cat "$here/yaml.sh"
        $cc --version 2>&1 | head -n 1
        uname -m
    } | sha256sum | cut -c1-16)
    echo "yaml-$key"
}

yaml_path() {
    cache_folder "$(yaml_key)"
}

# The reader's files alone; nothing here writes YAML.
yaml_build_all() { # WORK OUT
    local src=$1/libyaml flags
    work=$1 out=$2
    flags="-O2 -g0 -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections \
-ffile-prefix-map=$work=."
    mkdir -p "$out/include" "$out/lib" "$out/licenses"
    pinned libyaml | while read -r name version hash file _; do
        [ ! -f "$work/archives/$file" ] || echo "$name $version $hash" >>"$out/versions"
    done
    unpack libyaml "$src"
    cd "$src/src" || return
    # shellcheck disable=SC2086 # flags are words
    build_log 'libyaml: compile' $cc $flags -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 \
        -DYAML_VERSION_PATCH=5 '-DYAML_VERSION_STRING="0.2.5"' -I../include -I. -c api.c reader.c \
        scanner.c parser.c
    ar rcsD "$out/lib/libyaml.a" ./*.o
    cp ../include/yaml.h "$out/include/"
    cp ../License "$out/licenses/libyaml"
}

yaml_build() {
    local final temp
    final=$(yaml_path)
    [ ! -d "$final" ] || return 0
    hold_cache
    [ ! -d "$final" ] || return 0
    temp=$(mktemp -d "$cache/tmp.XXXXXX")
    # shellcheck disable=SC2064 # the folder's name is known now and must not change
    trap "rm -rf '$temp'" EXIT
    fetch libyaml "$temp/archives"
    (yaml_build_all "$temp" "$temp/out")
    echo "deps: libyaml is ready in $(cache_keep "$temp" "$(yaml_key)")"
}
