#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names of hosts: one that resolves late, one with an address that refuses, a resolver that hangs.
# Clock: a resolver that never answers must not hold a signal.
# shellcheck disable=SC2317 # called by wait_for
source "${0%/*}/../lib.sh"
hosts_up 1
sed 's/^/late,both /' "$WORK"/node1/keys/*.pub >>"$HOME/.ssh/known_hosts"

config() { # HOST CONNECT_TIMEOUT
    printf '[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@%s"]\n' "$1" >dtctl.toml
    printf '[ssh]\nconnect_timeout = "%s"\n' "$2" >>dtctl.toml
}

# ---- a name server that knows no name, and does not answer for some ------------------------------
cat >server.py <<'END'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
open("listening", "w").close()
while True:
    query, client = s.recvfrom(512)
    if b"silent" in query:
        open("asked", "w").close()
    else:
        s.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(6) + query[12:], client) # NXDOMAIN
END
python3 server.py &
wait_for 10 test -e listening
echo 'nameserver 127.0.0.1' >resolv.conf
mount --bind resolv.conf "$(readlink -f /etc/resolv.conf)"

# ---- late, and the second address ---------------------------------------------------------------
config late 60s
dtctl up >up.out 2>up.err &
pid=$!
wait_for 20 grep -q 'no address yet' up.err
ok 'a name without an address is reported' grep -q 'no address yet.*late' up.err
echo "$HOSTS_NET.1 late" >>"$WORK/etc/hosts"
wait $pid
is $? 0 'the name is used once it has an address' || diag "$(cat up.err)"
is "$(grep -c 'no address yet' up.err)" 1 'the missing address is reported once'
dtctl down -y -q >/dev/null 2>&1

printf '%s.254 both\n%s.1 both\n' "$HOSTS_NET" "$HOSTS_NET" >>"$WORK/etc/hosts"
config both 60s
run dtctl up
is "$status" 0 'a name whose first address refuses: the second is tried' || diag "$err"
dtctl down -y -q >/dev/null 2>&1

config nosuchhost 1s
run dtctl up
is "$status" 3 'a name that has no address until the time limit is refused'
like "$err" "no address after 1.0 s: cannot resolve 'nosuchhost'" 'the error has the reason'

# ---- a resolver that hangs ----------------------------------------------------------------------
config silent.example 60s
dtctl up >up.out 2>up.err &
pid=$!
wait_for 20 test -e asked
began=$EPOCHREALTIME
kill -TERM $pid
wait $pid
is $? 143 'a signal is taken while the resolver hangs' || diag "$(cat up.err)"
took_ms=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
ok "the signal ends the wait at once ($took_ms ms)" test "$took_ms" -lt 3000
config silent.example 1s
run dtctl up
is "$status" 3 'a resolver that never answers is reported'
like "$err" 'no address after 1.0 s: the resolver does not answer' 'the error names the resolver'
done_testing
