#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A system call that fails, at any place: memory, disk, descriptors or processes run out at the N-th
# such call of train, up, down, push and fetch, for each N. Each command ends in time, without a
# crash, and with a message when it fails. Its reported work is complete, and the next command
# succeeds.
# shellcheck disable=SC2034,SC2154,SC2317 # shared with sweep.sh
source "${0%/*}/../lib.sh"
source "$SRC/tests/soak/sweep.sh"

declare -A CALLS=(
    [ENOMEM]="mmap"
    [ENOSPC]="write,writev,pwrite64,mkdir,mkdirat,ftruncate"
    [EIO]="rename,renameat,renameat2,fsync,pread64,getdents64,lseek"
    [EMFILE]="open,openat,socket,socketpair,accept4,pipe2,eventfd2,inotify_init1"
    [EACCES]="unlink,unlinkat,link,linkat,symlink,symlinkat,connect,bind"
    [EAGAIN]="fork,clone"
)
KINDS=(EMFILE ENOSPC EIO ENOMEM EACCES EAGAIN)

# The first mmap is libc's own, for the storage of threads; it can only crash without it.
at_kind() {
    kind=$1 how=(-e "$1" -c "${CALLS[$1]}") spared=0
    [ "$1" != ENOMEM ] || spared=1
}
at_round() { at_kind "${KINDS[$1 % ${#KINDS[@]}]}"; }
judge() {
    [ "$status" -le 4 ] || [ "$status" = 124 ] || fault 'the command ends by a signal'
    [ "$status" = 0 ] || grep -q error: out/nth.err || fault 'the command fails without an error'
}

sweep_begin
# shellcheck disable=SC2086 # three words
[ -z "${SOAK_AT-}" ] || sweep_one $SOAK_AT
sweep faults 'a system call that fails'
