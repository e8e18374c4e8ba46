#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Twenty-four hosts behind a slow uplink: sixteen of them get their program at a time, so that
# memory and connections of this side do not grow with the cluster. Content leaves this side once
# for sixteen hosts, also for those that begin as others end.
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

MB=5
head -c ${MB}M /dev/urandom >large
run dtctl push --json large
is "$status" 0 "a push succeeds on $HOSTS_COUNT hosts" || diag "$err"
wire=$(grep -o '"bytes_wire":[0-9]*' <<<"$out" | cut -d: -f2)
diag "$((wire >> 20)) MB on the wire"
# A busy machine may part a chain. Without chains of those that begin later there are four copies.
ok 'the content leaves this side three times at most' test "$wire" -lt $((7 * MB << 19))
done_testing
