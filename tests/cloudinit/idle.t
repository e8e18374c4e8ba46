#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When a node counts as idle, and what follows from it. Time and use are arguments of idle_step.
# shellcheck disable=SC2016 # the inner shells expand them
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/scripts.sh" || exit 1

limit=$DTCTL_ROOT/var/lib/dtctl/idle_s
now=1800000000
node_conf node=node0 user=ubuntu idle_s=3600

# steps TEXT: "UP BUSY" per line ("-" is not busy); prints the wait after each.
steps() {
    within idle "while read -r u b; do idle_step \$(($now + u)) \$u \"\${b#-}\" >>'$WORK/said'
        echo -n \"\$wait_s \"; done <<<'$1'"
}

# ---- the way to the end --------------------------------------------------------------------------
fresh_node
is "$(steps '100 -
2000 -
3095 -')" '10 10 5 ' 'the intervals of an hour are right'
is "$(notice)$(calls)" '' 'nothing happens before'
steps '100 -
3100 -' >/dev/null
is "$(notice)" "kind=idle deadline=$((now + 3700)) node=node0" \
    'the notice is given ten minutes before'
is "$(calls)" 'wall dtctl: node0 ends in 10 min: no run, login or GPU use for 60 min' \
    'ten minutes before the end: users get a message'
is "$(steps '100 -
3100 -
3637 -
3640 -
3695 -
3700 -')" '10 10 3 10 5 10 ' 'wakes when it must'
like "$(calls)" 'in 10 min.*in 60 s.*ends now.*systemctl poweroff' 'the node powers off at the end'

fresh_node
steps '100 -
3200 -
3300 run' >/dev/null
is "$(notice)" '' 'a run takes the announcement back'
steps '100 -
3200 -
3300 run
6200 run
6890 -' >/dev/null
is "$(notice)" '' 'a run starts the idle time again'
is "$(calls | grep -c poweroff)" 0 'a withdrawn notice powers nothing off'

# The clock is set by a year in either direction: only the time since boot counts.
fresh_node
within idle "idle_step $now 100 ''; idle_step $((now + 31536000)) 110 ''; idle_step 1000 120 ''"
is "$(notice)$(calls)" '' 'the clock does not matter'

# ---- the limit -----------------------------------------------------------------------------------
fresh_node
echo 900 >"$limit"
steps '100 -
400 -' >/dev/null
is "$(notice)" "kind=idle deadline=$((now + 1000)) node=node0" 'the file sets the limit'
within idle "idle_step $now 100 ''; idle_step $((now + 400)) 500 ''; echo 0 >'$limit'
    idle_step $((now + 410)) 510 ''" >/dev/null
is "$(notice)" '' 'the limit 0 removes the notice'
for text in junk -1 '$(touch pwned)' 99999999999999999999; do
    fresh_node
    echo "$text" >"$limit"
    steps '100 -
3100 -' >/dev/null
    is "$(notice)" "kind=idle deadline=$((now + 3700)) node=node0" "'$text' leaves the limit"
done
fresh_node
mkfifo "$limit"
steps '100 -
3100 -' >/dev/null
is "$(notice)" "kind=idle deadline=$((now + 3700)) node=node0" 'a pipe leaves the limit'
is "$(find "$WORK" -name pwned)" '' 'nothing in it is run'
node_conf node=node0 user=ubuntu idle_s=0
fresh_node
steps '100 -
99999 -' >/dev/null
is "$(notice)$(calls)" '' 'idle_s=0: the node is never switched off'
node_conf node=node0 user=ubuntu idle_s=5
fresh_node
is "$(steps '100 -
105 -
129 -')" '10 10 1 ' 'a limit of seconds still gives half a minute'
is "$(calls | grep -c poweroff)" 0 'the node stays on between the warning and the end'

# ---- results that were not fetched --------------------------------------------------------------
node_conf node=node0 user="$(id -un)" idle_s=3600
runs=$DTCTL_ROOT$(getent passwd "$(id -un)" | cut -d: -f6)/.dtctl/runs
unfetched() { within idle 'idle_results; echo "$unfetched"'; }
fresh_node
is "$(unfetched)" '' 'a node without a folder of runs has no results'
mkdir -p "$runs/one" "$runs/two" "$runs/half"
is "$(unfetched)" '' 'a node without runs has no results'
: >"$runs/one/job.toml"
: >"$runs/one/fetched"
is "$(unfetched)" '' 'a run that was fetched has none left'
: >"$runs/two/job.toml"
is "$(unfetched)" 1 'a run that was not fetched has results'
within idle "idle_results; for u in 100 3100 80000; do idle_step $now \$u ''; done" >/dev/null
is "$(notice)$(calls)" '' 'results that were not fetched keep the machine beyond the limit'
within idle "idle_results; for u in 100 86000; do idle_step $now \$u ''; done" >/dev/null
like "$(calls)" 'results that nobody fetched, and no use for 1440 min' \
    'results that were not fetched keep the machine for a day, which is announced'
: >"$runs/two/fetched"
fresh_node
within idle "idle_results; for u in 100 3100; do idle_step $now \$u ''; done" >/dev/null
is "$(notice)" "kind=idle deadline=$((now + 600)) node=node0" \
    'fetched results do not keep the machine'

# ---- what counts as use --------------------------------------------------------------------------
header='  sl  local_address rem_address   st'
listen='   0: 00000000:0016 00000000:0000 0A'
session='   1: 0A00004D:0016 FE00004D:C350 01'
outgoing='   2: 0A00004D:C351 FE00004D:0016 01'
proc=${DTCTL_ROOT:?}/proc
quiet() {
    rm -rf "$proc" && mkdir -p "$proc/net" "$proc/17"
    echo bash >"$proc/17/comm"
    printf '%s\n' "$header" "$listen" "$outgoing" | tee "$proc/net/tcp" >"$proc/net/tcp6"
    fake loginctl
    fake nvidia-smi 'echo 0; echo 0'
}
busy() {
    within idle 'idle_busy; echo "$busy"'
}
quiet
is "$(busy)" '' 'nothing: a listening sshd and a connection to elsewhere are no use'
echo dtrun >"$proc/17/comm"
is "$(busy)" 'a run' 'an agent counts as a run'
echo dttrain-cuda >"$proc/17/comm"
is "$(busy)" 'a run' 'a trainer counts as a run'
for name in dtrun-0fbbcd7e3 dttrain-0fbbcd7 dttrain-cuda-0f; do
    echo $name >"$proc/17/comm"
    is "$(busy)" 'a run' "$name is a run"
done
for name in mydtrun dtrunner dttrain-mine; do
    echo $name >"$proc/17/comm"
    is "$(busy)" '' "$name is no run, only similar in name"
done
quiet
echo "$session" >>"$proc/net/tcp"
is "$(busy)" 'an SSH connection' 'a connection to port 22 counts as use'
quiet
echo '   1: 0000000000000000FFFF00000A00004D:0016 0000000000000000FFFF0000FE00004D:C350 01' \
    >>"$proc/net/tcp6"
is "$(busy)" 'an SSH connection' 'an SSH connection over IPv6 counts as use'
quiet
session_is() { # CLASS STATE
    fake loginctl '[ "$2" != list-sessions ] || echo "c1 1000 ubuntu seat0 tty1"
        [ "$1" != show-session ] || printf "%s\n" '"Class=$1 State=$2"
}
session_is user active
is "$(busy)" 'a login' 'a login on the console counts as use'
session_is user closing
is "$(busy)" '' 'a login that has ended does not count'
session_is manager active
is "$(busy)" '' 'the service manager of a user does not count'
quiet
fake nvidia-smi 'echo 0; echo 37'
is "$(busy)" 'GPU use' 'a GPU at work counts as use'
fake nvidia-smi 'echo "[N/A]"; echo 0'
is "$(busy)" '' 'a GPU without figures does not count'
fake nvidia-smi 'echo "Unable to determine the device handle" >&2; exit 15'
is "$(busy)" '' 'a broken driver keeps no machine alive'
fake nvidia-smi 'sleep 60'
is "$(within idle 'query_seconds_max=1; idle_busy; echo "$busy"')" '' \
    'a driver that hangs does not keep the machine'
rm "$WORK/bin/nvidia-smi"
is "$(busy)" '' 'a machine without a driver is idle'
done_testing
