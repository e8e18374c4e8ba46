#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch.sh's choice of Debian's patches when the pinned revision is gone from the archive: the index
# and the download of source packages are given, the choice is fetch.sh's own.
# shellcheck disable=SC2317,SC2329,SC2154 # functions are called by name; lib.sh sets variables
source "${0%/*}/../lib.sh"
# shellcheck source=../../lib/third_party/fetch.sh
source "$SRC/lib/third_party/fetch.sh"

pin_hash=$(printf '0%.0s' {1..64})
index=''

pinned() {
    [ "$1" = lib-debian ] || return 0
    echo "lib-debian 1.2-1+deb13u2 $pin_hash lib_1.2-1+deb13u2.debian.tar.xz -"
}
die() {
    echo "$*" >&2
    exit 1
}
apt_prepare() { echo "$1/state"; }
apt_files() { echo "$index"; }
apt_get() { # the site holds what the index lists, but for $missing, and $kept
    grep -qF -- "$4 $3" <<<"$index
${kept-}" && [ "$3" != "${missing-}" ] && sed 's/lib_//; s/.debian.*//' <<<"$3" >"$5"
}

# chosen LINE…: what fetch takes from an index of these lines, or its last words.
chosen() {
    rm -rf "$WORK/archives"
    index=$(printf '%s\n' "$@")
    (DTCTL_ARCHIVES='' fetch lib-debian "$WORK/archives") >/dev/null 2>"$WORK/err" || {
        head -c 25 "$WORK/err"
        return
    }
    cat "$WORK/archives/"lib_*
    local later=$WORK/archives/lib-debian.later
    [ ! -f "$later" ] || cut -d ' ' -f 1,3 "$later"
}
line() { echo "$1 $(printf "$2%.0s" {1..64}) ${3-lib_$1.debian.tar.xz}"; }
refused='cannot get lib-debian: it'

is "$(chosen "$(line 1.2-1+deb13u2 0)" "$(line 1.2-1+deb13u3 3)")" '1.2-1+deb13u2' \
    'the pinned revision is taken where it is'
is "$(kept=$(line 1.2-1+deb13u2 0) chosen "$(line 1.2-1+deb13u3 3)")" '1.2-1+deb13u2' \
    'the pinned revision is taken where only the site still has it'
is "$(chosen "$(line 1.2-1+deb13u3 3)" "$(line 1.2-1+deb13u10 4)")" \
    $'1.2-1+deb13u10\n1.2-1+deb13u10 lib_1.2-1+deb13u10.debian.tar.xz' \
    'where it is gone, the newest later one is taken and recorded'
is "$(missing=lib_1.2-1+deb13u10.debian.tar.xz \
    chosen "$(line 1.2-1+deb13u3 3)" "$(line 1.2-1+deb13u10 4)")" \
    $'1.2-1+deb13u3\n1.2-1+deb13u3 lib_1.2-1+deb13u3.debian.tar.xz' \
    'a revision that the index lists and the site lacks is passed over'
is "$(chosen "$(line 1.2-1+deb13u1 3)")" "$refused" 'an earlier revision is refused'
is "$(chosen "$(line 1.2-1+deb13u2 3)")" "$refused" \
    'the pinned revision with another hash is refused'
is "$(chosen "$(line 1.3-1+deb13u3 3)")" "$refused" 'the patches of another release are refused'
is "$(chosen "$(line 1.2-1+deb13u3 3 lib_1.2.orig.tar.gz)")" "$refused" \
    'another file of a later revision is refused'
is "$(pinned_only=yes chosen "$(line 1.2-1+deb13u3 3)")" "$refused" \
    'for carrying without network only the pinned one is taken'

# ---- the folder of the cache ---------------------------------------------------------------------
cache=$WORK/cache
mkdir "$cache"
kept() { # REVISION-LINE…: the folder's name after a build that took these
    rm -rf "$WORK/build"
    mkdir -p "$WORK/build/archives" "$WORK/build/out"
    [ $# = 0 ] || printf '%s\n' "$@" >"$WORK/build/archives/lib-debian.later"
    echo "${*:-pinned}" >"$WORK/build/out/versions"
    basename "$(cache_keep "$WORK/build" key)"
}
same() { # FOLDER: build finds it and it holds what was built last
    [ "$(cache_folder key)" = "$cache/$1" ] && cmp "$cache/$1/versions" - <<<"$2"
}
is "$(kept)" key 'pinned patches alone: the key names the folder'
ok 'the folder is found' same key pinned
third=$(kept '1.2-1+deb13u3 33 lib')
like "$third" '^key-[0-9a-f]{8}$' "later patches are in the folder's name"
ok 'the folder of the later patches is found' same "$third" '1.2-1+deb13u3 33 lib'
other=$(kept '1.2-1+deb13u3 44 lib')
unlike "$other" "^($third|key)\$" 'patches with other bytes have another folder'
ok 'the folder of the newest build is found' same "$other" '1.2-1+deb13u3 44 lib'
is "$(kept)" key 'pinned patches again: the key names the folder'
ok 'the folder with the pinned patches is found' same key pinned

# ---- the upstream address ------------------------------------------------------------------------
pinned() {
    echo "lib 1.2 $pin_hash lib-1.2.tar.gz https://127.0.0.1:1/lib-1.2.tar.gz"
}
if command -v curl >/dev/null; then
    (no_proxy='*' DTCTL_ARCHIVES='' DTCTL_NO_UPSTREAM='' fetch lib "$WORK/archives") 2>"$WORK/err"
    is "$?" 1 'an upstream address that does not answer is an error'
    like "$(cat "$WORK/err")" \
        'https://127.0.0.1:1/lib-1.2.tar.gz\).*curl: \([0-9]+\)' "the error has curl's reason"
else
    skip 2 'there is no curl'
fi
done_testing
