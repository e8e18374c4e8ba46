# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# curl.sh: libcurl for HTTP alone, and the libssl of the pinned OpenSSL, for dtdata. Sourced by
# deps, which sets here, cache and cc and sources fetch.sh and build.sh. They have a folder of their
# own in the cache, so that a new curl leaves the other libraries as they are.

: "${here:?}" "${cache:?}" "${cc:?}"

curl_key() {
    local key
    key=$({
        grep -E '^(curl|openssl)' "$here/pins"
        cat "$here/curl.sh" "$here/build.sh"
        $cc --version 2>&1 | head -n 1
        uname -m
    } | sha256sum | cut -c1-16)
    echo "curl-$key"
}

curl_path() {
    cache_folder "$(curl_key)"
}

curl_fetch() { # DIR
    local name
    for name in curl curl-debian; do
        fetch "$name" "$1"
    done
}

# Debian's patches in the order of their series file; each is named in versions.
curl_patch() { # SRC
    local patch
    mkdir -p "$work/curl-debian"
    tar -xf "$(archive curl-debian)" -C "$work/curl-debian" --no-same-owner
    patches_version curl
    while read -r patch _; do
        [[ $patch != \#* && -n $patch ]] || continue
        build_log "curl: $patch" patch -d "$1" -p1 --forward --batch \
            -i "$work/curl-debian/debian/patches/$patch"
        echo "curl patch $patch" >>"$out/versions"
    done <"$work/curl-debian/debian/patches/series"
}

# libssl, configured as the libcrypto of the other libraries is, which is not compiled again.
build_ssl() { # DEPS
    local jobs="$jobs -o libcrypto.a"
    mkdir -p "$work/openssl"
    cp "$1/lib/libcrypto.a" "$work/openssl/"
    build_openssl
    cd "$work/openssl" || return
    # shellcheck disable=SC2086 # jobs is words
    build_log 'openssl: compile libssl' make -s -j $jobs libssl.a
    cp libssl.a "$out/lib/"
    # curl asks libcrypto for its version, beside which stand the flags with this folder's path.
    SOURCE_DATE_EPOCH=1 perl util/mkbuildinf.pl "$cc" "$(openssl_target)" >crypto/buildinf.h
    build_log 'openssl: version' make -s crypto/libcrypto-lib-cversion.o
    ar rD "$out/lib/libcrypto.a" crypto/libcrypto-lib-cversion.o
}

# HTTP and HTTPS by OpenSSL, proxies and the C library's resolver in a thread; all else is off.
# Cookies, authentication, encodings and caches of the client are off too: dtdata signs by itself.
build_libcurl() {
    local src=$work/curl
    unpack curl "$src"
    curl_patch "$src"
    cd "$src" || return
    build_log 'curl: configure' ./configure --host="$(uname -m)-linux-musl" CC="$cc" \
        CFLAGS="$cflags" CPPFLAGS="-I$out/include" LDFLAGS="-static -L$out/lib" \
        LIBS='-lssl -lcrypto' --disable-shared --enable-static --with-openssl \
        --without-ca-bundle --without-ca-path --without-ca-fallback --enable-http \
        --enable-threaded-resolver --enable-proxy --disable-{ftp,file,ldap,ldaps,rtsp,dict,telnet} \
        --disable-{tftp,pop3,imap,smb,smtp,gopher,mqtt,manual,docs,libcurl-option,alt-svc,hsts} \
        --disable-{cookies,aws,ntlm,tls-srp,unix-sockets,doh,mime,bindlocal,form-api,netrc} \
        --disable-{websockets,kerberos-auth,negotiate-auth,digest-auth,bearer-auth,headers-api} \
        --disable-{ares,openssl-auto-load-config,ipfs,progress-meter,dateparse} \
        --without-{brotli,zstd,zlib,libpsl,libidn2,nghttp2,librtmp,libssh2,libgsasl}
    # shellcheck disable=SC2086 # jobs is a number
    build_log 'curl: compile' make -s -C lib -j $jobs libcurl.la
    cp lib/.libs/libcurl.a "$out/lib/"
    mkdir -p "$out/include/curl"
    cp include/curl/*.h "$out/include/curl/"
    cp COPYING "$out/licenses/curl"
}

curl_build_all() { # WORK OUT DEPS
    work=$1 out=$2
    cflags="-O2 -g0 -fPIE -fstack-protector-strong -ffunction-sections -fdata-sections \
-ffile-prefix-map=$work=. -idirafter $work/linux"
    mkdir -p "$out/include" "$out/lib" "$out/licenses"
    build_headers
    pinned curl | awk '{ print $1, $2, $3 }' >>"$out/versions"
    (build_ssl "$3")
    (build_libcurl)
    rm -r "$out/include/openssl" "$out/licenses/openssl"
}

curl_build() {
    local final temp
    final=$(curl_path)
    [ ! -d "$final" ] || return 0
    hold_cache
    [ ! -d "$final" ] || return 0
    temp=$(mktemp -d "$cache/tmp.XXXXXX")
    # shellcheck disable=SC2064 # the folder's name is known now and must not change
    trap "rm -rf '$temp'" EXIT
    fetch openssl "$temp/archives"
    curl_fetch "$temp/archives"
    (curl_build_all "$temp" "$temp/out" "$(deps_path)")
    echo "deps: curl is ready in $(cache_keep "$temp" "$(curl_key)")"
}
