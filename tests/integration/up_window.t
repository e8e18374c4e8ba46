#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Twenty-four hosts behind a slow uplink: sixteen of them get their program at a time, so that
# memory and connections of this side do not grow with the cluster.
source "${0%/*}/../lib.sh"
HOSTS_COUNT=24 AT_ONCE=16
hosts_up $HOSTS_COUNT
hosts_config
tc qdisc replace dev dt0 root tbf rate 100mbit burst 128k latency 100ms 2>"$WORK/out/tc.log" ||
    skip_all "no slow uplink here: $(cat "$WORK/out/tc.log")"

timeout 200 dtctl up >up.log 2>&1 &
pid=$! most=0
while [ -d "/proc/$pid" ]; do
    # The shells that take a program; sh on the host expands the name.
    # shellcheck disable=SC2016
    now=$(pgrep -fc -- '^sh -c R=.*cat >"\$T"')
    [ "$now" -le "$most" ] || most=$now
    sleep 0.02
done
wait $pid
is $? 0 "up succeeds on $HOSTS_COUNT hosts" || diag "$(tail -n 5 up.log)"
ok 'programs are seen on their way' test "$most" -gt 1
ok "no more than $AT_ONCE hosts get their program at once ($most)" test "$most" -le $AT_ONCE
done_testing
