# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# push_remote.sh: what the push_*.t scripts share. Sourced after lib.sh and hosts_up.

DRIVE=${PUSH_DRIVE:-$BUILD/release/tests/tools/remote_drive} # PUSH_DRIVE: one with sanitizers
DTRUN=$BIN/dtrun
[ -x "$DRIVE" ] || skip_all 'tests/tools/remote_drive is not built'
[ -x "$DTRUN" ] || skip_all 'dtrun is not built'

# drive ARGUMENTS…: remote_drive with the operator's key and known hosts.
drive() {
    timeout 120 "$DRIVE" --config none --cache "$WORK/hashes" "$@"
}

# shellcheck disable=SC2154 # out is of lib.sh
# field NAME: a number of the last line of $out.
field() {
    tail -n 1 <<<"$out" | sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p"
}

# same FOLDER I FOLDER_THERE: content, modes of files and links are equal.
same() {
    local names="-type f -printf '%m %p\n' -o -type l -printf '%p -> %l\n'"
    local sums='-type f -exec cksum {} +' ours='find . -name .git -prune -o'
    diff <(cd "$1" && eval "$ours $names; $ours $sums" | sort) \
        <(on "$2" sh -c "cd '$3' && find . $names; find . $sums" | sort)
}
