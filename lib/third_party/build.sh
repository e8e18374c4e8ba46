# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# build.sh: compiles the fetched archives with musl-gcc into OUT/{include,lib,licenses,versions}.
# Sourced by deps, which sets here, cache and cc, and defines pinned and die. Every library is
# static, position independent, in sections, and carries no path of the machine it was built on.

jobs=2
: "${here:?}" "${cache:?}" "${cc:?}"

build_log() { # NAME COMMAND…: runs the command quietly; on failure shows its last lines
    local name=$1
    shift
    echo "deps: $name" >&2
    if ! nice -n 5 "$@" >>"$work/log" 2>&1; then
        tail -n 30 "$work/log" >&2
        cp "$work/log" "$cache/failed.log"
        die "building $name failed; the full log is $cache/failed.log"
    fi
}

# The file of NAME that was fetched; pins may name several packings of one release.
archive() { # NAME
    { [ ! -f "$work/archives/$1.later" ] || cat "$work/archives/$1.later"
        pinned "$1" | cut -d ' ' -f 2-; } | tr -s ' ' | while read -r _ _ file _; do
        [ ! -f "$work/archives/$file" ] || echo "$work/archives/$file"
    done | head -n 1
}

# The line of versions about Debian's patches for LIBRARY.
patches_version() { # LIBRARY
    if [ -f "$work/archives/$1-debian.later" ]; then
        awk -v name="$1" '{ print name, "patches", $1, $2, "(later than pinned)" }' \
            "$work/archives/$1-debian.later"
    else
        pinned "$1-debian" | awk -v name="$1" '{ print name, "patches", $2, $3 }'
    fi >>"$out/versions"
}

unpack() { # NAME DIR
    mkdir -p "$2"
    tar -xf "$(archive "$1")" -C "$2" --strip-components=1 --no-same-owner
}

# musl-gcc hides the kernel's headers; OpenSSL wants linux/mman.h.
build_headers() {
    local dir path
    mkdir -p "$work/linux"
    for dir in linux asm asm-generic; do
        for path in /usr/include/$dir "/usr/include/$(uname -m)-linux-gnu/$dir"; do
            if [ -d "$path" ]; then ln -sfn "$path" "$work/linux/$dir" && break; fi
        done
    done
}

openssl_target() {
    case $(uname -m) in
    x86_64) echo linux-x86_64 ;;
    aarch64) echo linux-aarch64 ;;
    *) die "no OpenSSL target is known for $(uname -m)" ;;
    esac
}

# libcrypto only, with what SSH and hashing use. Not no-deprecated: libssh2 uses RSA types, and the
# low-level SHA-256 calls spare small programs the whole EVP machinery.
build_openssl() {
    local src=$work/openssl
    unpack openssl "$src"
    cd "$src" || return
    build_log 'openssl: configure' ./Configure "$(openssl_target)" --prefix=/usr --libdir=lib \
        --openssldir=/etc/ssl no-shared no-module no-dso no-engine no-async no-tests no-apps \
        no-docs no-ui-console no-autoload-config no-legacy no-ssl3 no-dtls no-quic no-comp no-cms \
        no-cmp no-ct no-ocsp no-ts no-srp no-srtp no-psk no-aria no-bf no-camellia no-cast no-dsa \
        no-ec2m no-gost no-idea no-md4 no-mdc2 no-ml-dsa no-ml-kem no-slh-dsa no-rc2 no-rc4 \
        no-rc5 no-rmd160 no-scrypt no-seed no-siphash no-siv no-sm2 no-sm3 no-sm4 no-whirlpool \
        no-afalgeng CC="$cc" CFLAGS="$cflags"
    build_log 'openssl: generate' make -s -j $jobs build_generated
    build_log 'openssl: compile libcrypto (about two minutes)' make -s -j $jobs libcrypto.a
    mkdir -p "$out/include/openssl"
    cp include/openssl/*.h "$out/include/openssl/"
    cp libcrypto.a "$out/lib/"
    cp LICENSE.txt "$out/licenses/openssl"
}

# Debian's security patches, in the order of their series file, and our own; each is named in
# versions.
libssh2_patch() { # SRC
    local patch
    mkdir -p "$work/libssh2-debian"
    tar -xf "$(archive libssh2-debian)" -C "$work/libssh2-debian" --no-same-owner
    patches_version libssh2
    while read -r patch _; do
        [[ $patch != \#* && -n $patch ]] || continue
        build_log "libssh2: $patch" patch -d "$1" -p1 --forward --batch \
            -i "$work/libssh2-debian/debian/patches/$patch"
        echo "libssh2 patch $patch" >>"$out/versions"
    done <"$work/libssh2-debian/debian/patches/series"
    build_log 'libssh2: patches/libssh2.patch' patch -d "$1" -p1 --forward --batch \
        -i "$here/patches/libssh2.patch"
    echo 'libssh2 patch dtctl/libssh2.patch' >>"$out/versions"
}

# Old ciphers, MACs and key types are left out; files that others #include are not compiled by
# themselves.
build_libssh2() {
    local src=$work/libssh2 files
    unpack libssh2 "$src"
    libssh2_patch "$src"
    cp "$here/libssh2_config.h" "$src/src/libssh2_config.h"
    cd "$src/src" || return
    mapfile -t files < <(printf '%s\n' ./*.c |
        grep -vE '/(agent_win|blowfish|libgcrypt|mbedtls|openssl|os400qc3|wincng)\.c$')
    # shellcheck disable=SC2086 # flags are words
    build_log 'libssh2: compile' $cc $cflags -DHAVE_CONFIG_H -DLIBSSH2_OPENSSL -DLIBSSH2_NO_DSA \
        -DLIBSSH2_NO_RC4 -DLIBSSH2_NO_BLOWFISH -DLIBSSH2_NO_CAST -DLIBSSH2_NO_3DES \
        -DLIBSSH2_NO_HMAC_RIPEMD -DLIBSSH2_NO_MD5 -I. -I../include -isystem "$out/include" -c \
        "${files[@]}"
    ar rcsD "$out/lib/libssh2.a" ./*.o
    cp ../include/libssh2*.h "$out/include/"
    cp ../COPYING "$out/licenses/libssh2"
}

build_jpeg() {
    local src=$work/jpeg
    unpack libjpeg-turbo "$src"
    mkdir -p "$src/build"
    cd "$src/build" || return
    build_log 'libjpeg-turbo: configure' cmake .. -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS="$cflags" -DCMAKE_EXE_LINKER_FLAGS=-static-pie \
        -DCMAKE_BUILD_TYPE=None -DENABLE_SHARED=OFF -DENABLE_STATIC=ON -DREQUIRE_SIMD=ON \
        -DWITH_TURBOJPEG=OFF -DWITH_JAVA=OFF -DBUILD=dtctl
    build_log 'libjpeg-turbo: compile' make -j $jobs jpeg-static
    cp libjpeg.a "$out/lib/"
    cp jconfig.h ../jpeglib.h ../jmorecfg.h ../jerror.h "$out/include/"
    cp ../LICENSE.md "$out/licenses/libjpeg-turbo"
}

build_zstd() {
    local src=$work/zstd
    unpack zstd "$src"
    build_log 'zstd: compile' make -C "$src/lib" -j $jobs libzstd.a CC="$cc" CFLAGS="$cflags" \
        ZSTD_LEGACY_SUPPORT=0 ZSTD_LIB_DICTBUILDER=0 ZSTD_LIB_DEPRECATED=0
    cp "$src/lib/libzstd.a" "$out/lib/"
    cp "$src/lib/zstd.h" "$src/lib/zstd_errors.h" "$out/include/"
    cp "$src/LICENSE" "$out/licenses/zstd"
}

# The 8-bit library with Unicode and without JIT, from the files that its own guide for builds
# without autotools lists. Debian's diff holds the security fixes made after the release.
build_pcre2() {
    local src=$work/pcre2 files
    unpack pcre2 "$src"
    cd "$src" || return
    patches_version pcre2
    gzip -dc "$(archive pcre2-debian)" >debian.diff
    build_log "pcre2: Debian's patches" patch -p1 --forward --batch -i debian.diff
    cd src || return
    cp config.h.generic config.h
    cp pcre2.h.generic pcre2.h
    cp pcre2_chartables.c.dist pcre2_chartables.c
    mapfile -t files < <(printf '%s\n' pcre2_*.c |
        grep -vE '^pcre2_(dftables|fuzzsupport|jit_.*|printint|ucptables|posix.*|.*test)\.c$')
    # shellcheck disable=SC2086 # flags are words
    build_log 'pcre2: compile' $cc $cflags -DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 \
        -DSUPPORT_PCRE2_8 -DSUPPORT_UNICODE -DPCRE2_STATIC -I. -c "${files[@]}"
    ar rcsD "$out/lib/libpcre2-8.a" ./*.o
    cp pcre2.h "$out/include/"
    cp ../LICENCE.md "$out/licenses/pcre2"
}

build_versions() {
    local name version hash file
    while read -r name version hash file _; do
        [[ $name != \#* && $name != *-debian && -f $work/archives/$file ]] || continue
        echo "$name $version $hash" >>"$out/versions"
    done <"$here/pins"
}

build_all() { # WORK OUT
    work=$1 out=$2
    cflags="-O2 -g0 -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections \
-ffile-prefix-map=$work=. -idirafter $work/linux"
    mkdir -p "$out/include" "$out/lib" "$out/licenses"
    build_headers
    build_versions
    (build_zstd)
    (build_pcre2)
    (build_jpeg)
    (build_openssl)
    (build_libssh2)
}
