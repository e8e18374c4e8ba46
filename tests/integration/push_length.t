#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An attacker changes the length of an encrypted packet. AES-GCM leaves it in clear text, so it
# cannot be trusted: for any value the connection ends with an error, in bounded time, and the
# program survives.
# shellcheck disable=SC2088,SC2154 # the node expands; status, out and err are of lib.sh
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'the relay needs python3'
hosts_up 1
source "$SRC/tests/integration/push_remote.sh"
N1=10.77.0.1 port=2200

# The error must come before the time after which silence alone ends a connection, plus login.
LOGIN_MS=4000 KEEPALIVE_MS=1000 SECONDS_MAX=15
sed 's/^/* /' node1/keys/ed25519.pub >known

# through PACKET CHANGE ARGUMENT…: drive by way of the relay.
through() {
    local packet=$1 change=$2 proxy
    shift 2
    port=$((port + 1))
    "$SRC/tests/tools/length_proxy.py" $port $N1 22 "$packet" "$change" >proxy.$port &
    proxy=$!
    wait_for 10 grep -q ready proxy.$port
    SECONDS=0
    run drive --known-hosts known --port $port --timeout-ms $LOGIN_MS --keepalive-ms $KEEPALIVE_MS \
        "$@"
    took=$SECONDS
    kill $proxy
    wait $proxy 2>/dev/null
    changed=$(sed -n 's/^changed //p' proxy.$port)
}

through 1000000 =1 exec 127.0.0.1 'seq 1000'
is "$status $(tail -n 1 <<<"$out")$changed" '0 1000' 'a relay that changes nothing does no harm'

# PACKET 1 answers the request to log in, later ones are of the command that runs. 35004 and more is
# longer than any packet may be; 16 and 32 are whole blocks and shorter than what there is.
for packet in 1 12; do
    for change in =0 =1 =2 =3 =4 =5 =15 =16 =17 =32 =35004 =0x7fffffff =0x80000000 =0xffffffff \
        ^1 ^0x10 ^0x100 ^0x10000 ^0x1000000; do
        through $packet $change exec 127.0.0.1 'seq 100000'
        ok "packet $packet, length $change: it was changed" test -n "$changed"
        like "$status $err" '^(1 error|4 no status): (network|timeout): ' \
            "  the error has its kind and status (${err:0:150})"
        ok "  in bounded time ($took s)" test $took -le $SECONDS_MAX
    done
done

# In the middle of what a node sends, and of what it is sent.
on 1 sh -c 'head -c 3000000 /dev/urandom >/root/bytes'
head -c 3000000 /dev/urandom >random
for change in =1 =0xffffffff ^0x10; do
    through 60 $change fetch 127.0.0.1 "$DTRUN" '~/.dtctl' got /root/bytes
    like "$status $err$changed" '^1 error: (network|timeout): node 127.0.0.1: .*[0-9]' \
        "fetch, length $change: the fetch fails with an error"
    through 16 $change push 127.0.0.1 "$DTRUN" '~/.dtctl' there random
    like "$status $err$changed" '^1 error: (network|timeout): node 127.0.0.1: .*[0-9]' \
        "push, length $change: the push fails with an error"
done
ok 'no part of it is taken for the file' test ! -e got/bytes
done_testing
