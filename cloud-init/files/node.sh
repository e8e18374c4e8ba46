# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# node.sh: functions that the programs in /usr/local/lib/dtctl share. Sourced. DTCTL_ROOT moves
# every path.
#
#   /etc/dtctl/node.conf   key=value, written once from the user data, root's
#   /var/lib/dtctl         lease, idle_s (the user's), ready (root's); sticky, so that the user may
#                          rename a new lease into it and cannot replace what is root's
#   /var/lib/dtctl/own     root alone: what must survive a reboot
#   /run/dtctl/notice      the most pressing thing that is going to happen to this node

# shellcheck disable=SC2034 # some are for the scripts that source this
{
    root=${DTCTL_ROOT-}
    conf=$root/etc/dtctl/node.conf
    shared=$root/var/lib/dtctl
    own=$shared/own
    run=$root/run/dtctl
    notice=$run/notice
    number_bytes_max=32
    read_seconds_max=2
    warn_s_first=600
    warn_s_last=60
    grace_s_min=30 # nothing ends that was not announced at least this long before
    tick_s_max=10
}

conf_get() { # KEY: its value, or nothing
    local line
    while IFS= read -r line; do
        [[ $line != "$1="* ]] || { printf '%s\n' "${line#*=}" && return 0; }
    done 2>/dev/null <"$conf"
}

# number_from FILE MIN MAX: sets $number to the one decimal number in FILE. The file is the user's:
# anything may be in it, and in its place, so the read is bounded in bytes and in time.
number_from() {
    local text
    [ -f "$1" ] || return 1
    # The shell leaves NULs out, with a warning.
    { text=$(timeout "$read_seconds_max" head -c "$number_bytes_max" -- "$1"); } 2>/dev/null
    number_in_text "$text" "$2" "$3"
}

number_in_text() { # TEXT MIN MAX
    [[ $1 =~ ^[[:space:]]*([0-9]{1,15})[[:space:]]*$ ]] || return 1
    number=$((10#${BASH_REMATCH[1]}))
    ((number >= $2 && number <= $3))
}

# uptime_s: sets $uptime to the seconds since this system started, whatever is done to the clock.
# That is since its first process began, in hundredths of a second: /proc/uptime alone is the host's
# where the node is a container.
uptime_s() {
    local line
    local -a stat
    read -r line <"$root/proc/1/stat"
    read -r -a stat <<<"${line##*) }" # what follows the name: field 3 and on
    read -r uptime _ <"$root/proc/uptime"
    uptime=$((${uptime%%.*} - stat[19] / 100))
}

# put FILE [MODE]: standard input becomes FILE, at once or not at all.
put() {
    local temp
    temp=$(mktemp "$1.XXXXXX") || return 1
    if cat >"$temp" && chmod "${2-644}" "$temp" && mv -fT "$temp" "$1"; then return 0; fi
    rm -f "$temp"
    return 1
}

own_put() { # NAME: standard input becomes a file of root's own
    mkdir -p "$own" && chmod 700 "$own" && put "$own/$1" 600
}

tell() { # TEXT: to the journal and to every terminal
    echo "$*"
    timeout 10 wall "dtctl: $*" </dev/null >/dev/null 2>&1 || true
}

# ---- the notice ----------------------------------------------------------------------------------
notice_read() { # sets $notice_kind and $notice_deadline
    local key value
    notice_kind='' notice_deadline=0
    while IFS='=' read -r key value; do
        case $key in
        kind) [[ ! $value =~ ^[a-z-]{1,20}$ ]] || notice_kind=$value ;;
        deadline) ! number_in_text "$value" 0 999999999999 || notice_deadline=$number ;;
        esac
    done 2>/dev/null <"$notice"
}

notice_hold() { # one writer at a time; until $notice_lock is closed
    mkdir -p "$run" && exec {notice_lock}>"$run/notice.lock" && flock -w 5 "$notice_lock"
}

# presses KIND DEADLINE: sets $rank, smaller is more pressing; a rebalance recommendation has no
# end.
presses() {
    rank=$2
    [ "$1" != rebalance ] || rank=999999999999
}

# notice_write KIND DEADLINE_UNIX_S [again] (0: unknown): writes the notice unless a more urgent one
# exists. The same notice is rewritten, which wakes watchers of the file, only with "again".
notice_write() {
    local rank standing
    notice_hold || return
    notice_read
    presses "${notice_kind:-rebalance}" "$notice_deadline"
    standing=$rank
    presses "$1" "$2"
    if [ -n "$notice_kind" ] && [ "${notice_kind%%-*}" != "${1%%-*}" ] && ((rank >= standing)); then
        :
    elif [ "$notice_kind" != "$1" ] || ((notice_deadline != $2)) || [ "${3-}" = again ]; then
        printf 'kind=%s\ndeadline=%s\nnode=%s\n' "$1" "$2" "$(conf_get node)" | put "$notice"
    fi
    exec {notice_lock}>&-
}

notice_clear() { # KIND…: takes it back, if it is one of these
    local kind
    [ -e "$notice" ] || return 0
    notice_hold || return
    notice_read
    for kind; do
        [ "$notice_kind" != "$kind" ] || rm -f "$notice"
    done
    exec {notice_lock}>&-
}

# ---- the end of the machine ----------------------------------------------------------------------
ending_told=0 ending_told_up=0

# ending KIND LEFT_S NOW_S UP_S WHY: announces the end when 10 minutes and when 1 minute are left,
# takes it back when there is more time again, and powers off at zero. Sets $wait_s to the time
# until it has to be called again.
ending() {
    local kind=$1 left=$2 now=$3 up=$4 why=$5 grace
    wait_s=$tick_s_max
    if ((left > warn_s_first)); then
        ending_not "$kind"
        ((left - warn_s_first >= wait_s)) || wait_s=$((left - warn_s_first))
        return
    fi
    ((ending_told > 0)) || ending_told_up=$up
    grace=$((ending_told_up + grace_s_min - up))
    ((left > grace)) || left=$grace
    if ((left <= 0)); then
        tell "$(conf_get node) ends now: $why"
        machine_off
        return
    elif ((left <= warn_s_last && ending_told < 2)); then
        ending_told=2
        tell "$(conf_get node) ends in $left s: $why"
        notice_write "$kind" $((now + left)) again
    elif ((ending_told == 0)); then
        ending_told=1
        tell "$(conf_get node) ends in $((left / 60)) min: $why"
        notice_write "$kind" $((now + left)) again
    else
        ending_renew "$kind" $((now + left))
    fi
    ((left <= warn_s_last || left - warn_s_last >= wait_s)) || wait_s=$((left - warn_s_last))
    ((left > warn_s_last || left >= wait_s)) || wait_s=$left
    ((wait_s > 0)) || wait_s=1
}

# ending_renew KIND DEADLINE: after another notice went, or the deadline moved by more than the
# tick.
ending_renew() {
    local moved
    notice_read
    moved=$((notice_deadline - $2))
    if [ "$notice_kind" != "$1" ] || ((moved > 2 || moved < -2)); then notice_write "$1" "$2"; fi
}

ending_not() { # KIND
    ((ending_told > 0)) || return 0
    ending_told=0
    tell "$(conf_get node) does not end yet"
    notice_clear "$1"
}

# The instance was started with "terminate" as its behaviour on shutdown, so this ends it for good.
machine_off() {
    systemctl poweroff -i || systemctl poweroff --force || systemctl poweroff --force --force
}
