# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# scripts.sh: for tests that run parts of the node's programs (cloud-init/files) on this machine:
# every path below $DTCTL_ROOT, and programs that would touch the machine replaced by ones that
# write down how they were called.

NODE_FILES=$SRC/cloud-init/files
export DTCTL_ROOT=$WORK/node
CALLS=$WORK/calls
mkdir -p "$DTCTL_ROOT"/{etc/dtctl,run/dtctl,var/lib/dtctl,proc/net} "$WORK/bin"
export PATH=$WORK/bin:$PATH CALLS

node_conf() { # KEY=VALUE…: the node's configuration
    printf '%s\n' "$@" >"$DTCTL_ROOT/etc/dtctl/node.conf"
}

# fake NAME [COMMAND]: a program of that name writes down its arguments and then runs COMMAND.
fake() {
    # shellcheck disable=SC2016 # the program expands them
    printf '#!/bin/bash\necho "%s $*" >>"$CALLS"\n%s\n' "$1" "${2-}" >"$WORK/bin/$1"
    chmod +x "$WORK/bin/$1"
}

calls() { # prints what was called since the last time
    cat "$CALLS" 2>/dev/null
    : >"$CALLS"
}

# within PROGRAM CODE [ARGUMENT…]: runs CODE in a new shell that knows the program's functions.
within() {
    timeout 60 bash -c "source '$NODE_FILES/$1'; $2" "${@:2}"
}

notice() { # on one line, or nothing
    [ ! -e "$DTCTL_ROOT/run/dtctl/notice" ] || paste -sd' ' "$DTCTL_ROOT/run/dtctl/notice"
}

fresh_node() { # forgets what earlier steps left
    rm -rf "${DTCTL_ROOT:?}"/{run,var}
    mkdir -p "$DTCTL_ROOT"/run/dtctl "$DTCTL_ROOT/var/lib/dtctl"
    : >"$CALLS"
}

fake wall
fake systemctl
fake chown
# The disks of this machine are not the node's.
fake lsblk
fake blkid 'exit 2'
fake mdadm
fake vgchange
fake mount 'exit 1'
