# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# fetch.sh: gets one pinned archive and verifies it. Sourced by deps (pinned, die).
# Looked for in the folder DTCTL_ARCHIVES, at the upstream address, and in the distribution's source
# packages; wheels (cuda-*) in the Python package index that pip is set up for. A file has its final
# name only after its SHA-256 was compared with the pin.

fetch_seconds_max=600
pinned_only=no
apt_suite=trixie
apt_tries_max=4

hash_is() { # FILE SHA256
    [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# verified FILE SHA256 TARGET ORIGIN: moves or refuses; a wrong hash ends the whole build.
verified() {
    local got
    got=$(sha256sum <"$1" | cut -d' ' -f1)
    if [ "$got" != "$2" ]; then
        rm -f "$1"
        die "$(basename "$3") from $4 has SHA-256 $got, pinned is $2; nothing was built"
    fi
    mv "$1" "$3"
    echo "deps: $(basename "$3") from $4, verified" >&2
}

fetch_archives() { # FILE SHA256 DIR
    [ -n "${DTCTL_ARCHIVES-}" ] && [ -f "$DTCTL_ARCHIVES/$1" ] || return 1
    cp "$DTCTL_ARCHIVES/$1" "$3/$1.part"
    verified "$3/$1.part" "$2" "$3/$1" 'DTCTL_ARCHIVES'
}

fetch_upstream() { # FILE SHA256 DIR URL
    [ "$4" != - ] && [ -z "${DTCTL_NO_UPSTREAM-}" ] && command -v curl >/dev/null || return 1
    curl -fsSL --proto '=https' --proto-redir '=https' --connect-timeout 10 \
        --max-time $fetch_seconds_max -o "$3/$1.part" "$4" 2>"$3/$1.why" || {
        rm -f "$3/$1.part"
        return 1
    }
    verified "$3/$1.part" "$2" "$3/$1" "$4"
}

# ---- the distribution's source packages --------------------------------------------------------
# A private apt state, and source lists derived from the machine's own: same site, another suite
# (apt_suite, Debian 13 unless the caller sets it). A dated snapshot of the archive is tried as it
# is and then without its date.

apt_private() { # DIR COMMAND…
    local dir=$1
    shift
    "$1" -q -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- \
        -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false \
        -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User=root \
        -o Debug::NoLocking=true -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 \
        -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "${@:2}"
}

# Prints "SITE SUITE" for each repository of this machine that carries its distribution, updated or
# not: the list is asked for as on a machine that has no package lists yet.
apt_sites() {
    local codename lists
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    lists=$(mktemp -d)
    mkdir "$lists/partial"
    apt-get -q -o Dir::State::lists="$lists" -o Debug::NoLocking=true --print-uris update \
        2>/dev/null | sed -nE "s,^'((https?|file|copy):[^']*)/dists/([^']*)/InRelease'.*,\1/ \3,p" |
        awk -v name="$codename" 'index($2, name) == 1 || $2 ~ /^((old)?stable|testing)/' | sort -u
    rm -rf "$lists"
}

# apt_sources FILTER [TYPE]: sources.list lines for apt_suite, each site passed through sed FILTER.
apt_sources() {
    local site suite keyring=/usr/share/keyrings/debian-archive-keyring.gpg options=''
    local type=${2:-deb-src}
    [ ! -f $keyring ] || options="[signed-by=$keyring] "
    apt_sites | while read -r site suite; do
        site=$(sed -E "$1" <<<"${site%/}")
        case $suite in
        *-security*) echo "$type $options$site $apt_suite-security main" ;;
        *) printf "$type $options%s %s main\n" "$site" $apt_suite "$site" $apt_suite-updates ;;
        esac
    done | sort -u
}

# Prepares apt states under DIR, one for each way to derive the sites; prints those that work.
apt_prepare() { # DIR [TYPE]
    local filter state n=0
    for filter in '' 's,/[0-9]{8}T[0-9]{6}Z(/|$),\1,' 's,/ubuntu(-security)?$,/debian\1,'; do
        n=$((n + 1)) state=$1/apt$n
        mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
        apt_sources "$filter" "${2-}" >"$state/sources.list"
        [ -s "$state/sources.list" ] || continue
        [ $n -eq 1 ] || ! cmp -s "$state/sources.list" "$1/apt1/sources.list" || continue
        apt_private "$state" apt-get update >"$state/log" 2>&1 || true
        if grep -qE "^(Get|Hit).* $apt_suite" "$state/log"; then echo "$state"; fi
    done
}

# Lines "version sha256 file" of every version of a source package.
apt_files() { # STATE PACKAGE
    apt_private "$1" apt-cache showsrc --only-source "$2" 2>/dev/null | awk '
        function flush() { for (i = 0; i < n; i++) print version, row[i]; n = 0 }
        /^Package:/ { flush() } /^Version:/ { version = $2 }
        /^[A-Za-z-]+:/ { inside = 0 } /^(Checksums-Sha256|Files):/ { inside = 1 }
        inside && /^ / && length($1) == 64 { row[n++] = $1 " " $3 } END { flush() }' | sort -u
}

# Addresses of the folders that may hold the files of a source package.
apt_folders() { # STATE PACKAGE
    local site folder folders
    folders=$(apt_private "$1" apt-cache showsrc --only-source "$2" 2>/dev/null |
        sed -n 's/^Directory: //p' | sort -u)
    awk '{ print $(NF - 2) }' "$1/sources.list" | sort -u | while read -r site; do
        for folder in $folders; do echo "${site%/}/$folder"; done
    done
}

# apt_get STATE PACKAGE FILE SHA256 TARGET TRIES: brings one file of a source package; its hash
# decides. The index of a suite and the files of its site are not always of one time, and a mirror
# behind a balancer misses a file now and then: every folder is asked, TRIES times.
apt_get() {
    local folder folders try helper=/usr/lib/apt/apt-helper
    folders=$(apt_folders "$1" "$2")
    for ((try = 1; try <= $6; try++)); do
        for folder in $folders; do
            if apt_private "$1" $helper download-file "$folder/$3" "$5.part" "SHA256:$4" \
                >"$1/log" 2>&1 </dev/null; then
                verified "$5.part" "$4" "$5" "Debian's source package $2"
                return 0
            fi
            rm -f "$5.part"
        done
        [ "$try" -eq "$6" ] || sleep "$try"
    done
    return 1
}

source_package() { # NAME
    case $1 in
    *-debian) echo "${1%-debian}" ;;
    zstd) echo libzstd ;;
    *) echo "$1" ;;
    esac
}

# Files that the index lists with the pinned hash; then, because a site keeps a file for some time
# after its index dropped it, the pinned file by the names that it has there.
fetch_distribution() { # NAME VERSION FILE SHA256 DIR
    local package state hash file
    command -v apt-get >/dev/null || return 1
    [ -f "$5/.apt/states" ] || {
        mkdir -p "$5/.apt"
        apt_prepare "$5/.apt" >"$5/.apt/states"
    }
    package=$(source_package "$1")
    while read -r state; do
        while read -r _ hash file; do
            [ "$hash" = "$4" ] || continue
            apt_get "$state" "$package" "$file" "$4" "$5/$3" $apt_tries_max && return 0
        done < <(apt_files "$state" "$package" | sort -rV)
        for file in "$3" "${package}_$2.orig.tar.${3##*.tar.}"; do
            apt_get "$state" "$package" "$file" "$4" "$5/$3" 1 && return 0
        done
    done <"$5/.apt/states"
    return 1
}

# later_revision NAME DIR: Debian's archive drops a revision of a package when the next one is out,
# and the next one holds the security fixes since. So where the pinned revision of Debian's patches
# is gone, the newest later one for the same release is taken: the archive's signature vouches for
# its SHA-256. The build says so and records it in NAME.later as "version sha256 file".
later_revision() {
    local pin_version pin_file package version hash file state
    [ "$pinned_only" = no ] && [[ $1 == *-debian ]] && [ -f "$2/.apt/states" ] || return 1
    read -r _ pin_version _ pin_file _ < <(pinned "$1")
    package=$(source_package "$1")
    while read -r state; do
        while read -r version hash file; do
            [ "${version%-*}" = "${pin_version%-*}" ] || continue
            [ "${file#*"$version"}" = "${pin_file#*"$pin_version"}" ] || continue
            dpkg --compare-versions "$version" gt "$pin_version" || continue
            apt_get "$state" "$package" "$file" "$hash" "$2/$file" 1 || continue
            echo "$version $hash $file" >"$2/$1.later"
            echo "deps: $1 $pin_version is pinned, but gone from Debian's archive;" \
                "$version, signed by Debian, is used instead" >&2
            return 0
        done < <(apt_files "$state" "$package" | sort -rV)
    done <"$2/.apt/states"
    return 1
}

# cache_folder KEY: the folder of the cache for KEY, a hash of pins, scripts and compiler. Where a
# build took later revisions, KEY.later lists them, and the folder's name has the hash of that list.
cache_folder() {
    local list=${cache:?}/$1.later
    [ ! -f "$list" ] || set -- "$1-$(sha256sum <"$list" | cut -c1-8)"
    echo "$cache/$1"
}

# cache_keep WORK KEY: moves WORK/out to the folder for KEY and the revisions in WORK/archives, and
# prints its name.
cache_keep() {
    local list=${cache:?}/$2.later
    rm -f "$list"
    cat "$1"/archives/*.later >"$1/later" 2>/dev/null && mv "$1/later" "$list"
    rm -rf "$(cache_folder "$2")"
    mv "$1/out" "$(cache_folder "$2")"
    cache_folder "$2"
}

# ---- the Python package index ------------------------------------------------------------------
# Prints a pip of this machine: Python's own, or that of an environment made under DIR.
fetch_pip() { # DIR
    if python3 -m pip --version >/dev/null 2>&1; then
        echo "python3 -m pip"
    elif [ -x "$1/.pip/bin/pip" ] || python3 -m venv "$1/.pip" >/dev/null 2>&1; then
        echo "$1/.pip/bin/pip"
    fi
}

fetch_wheel() { # FILE SHA256 DIR
    local pip name version
    [ -z "${DTCTL_NO_UPSTREAM-}" ] && command -v python3 >/dev/null || return 1
    pip=$(fetch_pip "$3")
    [ -n "$pip" ] || return 1
    IFS=- read -r name version _ <<<"$1"
    mkdir -p "$3/.wheels"
    echo "$name==$version --hash=sha256:$2" >"$3/.wheels/wanted"
    # shellcheck disable=SC2086 # pip may be two words and an option
    $pip download --quiet --no-deps --only-binary=:all: --require-hashes -d "$3/.wheels" \
        -r "$3/.wheels/wanted" >/dev/null 2>"$3/$1.why" || return 1
    [ -f "$3/.wheels/$1" ] && verified "$3/.wheels/$1" "$2" "$3/$1" 'the Python package index'
}

fetch() { # NAME DIR
    local name version hash file url wanted=''
    mkdir -p "$2"
    while read -r name version hash file url; do
        [ -f "$2/$file" ] && hash_is "$2/$file" "$hash" && return 0
        fetch_archives "$file" "$hash" "$2" && return 0
    done < <(pinned "$1")
    while read -r name version hash file url; do
        case $name in
        cuda-*) fetch_wheel "$file" "$hash" "$2" && return 0 ;;
        *)
            fetch_upstream "$file" "$hash" "$2" "$url" && return 0
            fetch_distribution "$name" "$version" "$file" "$hash" "$2" && return 0
            ;;
        esac
        wanted+="
    $file (SHA-256 $hash, upstream address: $url)$(
            [ ! -s "$2/$file.why" ] || printf '\n        %s' "$(tail -n 1 "$2/$file.why")"
        )"
    done < <(pinned "$1")
    later_revision "$1" "$2" && return 0
    die "cannot get $1: it is not in DTCTL_ARCHIVES (${DTCTL_ARCHIVES:-unset}), not at its" \
        "upstream address or package index, and not among Debian 13's source packages at this" \
        "machine's apt site." \
        "Try again, or put this file into a folder and set DTCTL_ARCHIVES to it:$wanted"
}
