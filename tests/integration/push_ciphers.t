#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every cipher and MAC that an OpenSSH server and this program have in common, with keys exchanged
# anew many times in the middle of a push and of a fetch. Packets are encrypted in one call each by
# a patch of ours (lib/third_party/patches), so each kind goes through a real server here. PUSH_MB
# sets the size; keys are exchanged anew after a tenth of it.
# shellcheck disable=SC2088,SC2154 # the node expands; status and err are of lib.sh
source "${0%/*}/../lib.sh"
hosts_up 1
source "$SRC/tests/integration/push_remote.sh"
N1=10.77.0.1 port=2300 mb=${PUSH_MB:-2}

head -c $((mb << 20)) /dev/urandom >big
sed "s/^/* /" node1/keys/ed25519.pub >known
on 1 cat /run/sshd_config >base_config

# through CIPHER MAC: push and fetch by a server of its own that has nothing else to offer.
through() {
    port=$((port + 1))
    {
        printf 'Port %s\nCiphers %s\nMACs %s\nRekeyLimit %sK\nLogLevel DEBUG1\nPidFile none\n' \
            $port "$1" "$2" $((mb * 96))
        grep -v '^ *\(Port\|LogLevel\|PidFile\)' base_config
    } >config.$port
    on 1 sh -c 'cat >/run/config' <config.$port
    on 1 /usr/sbin/sshd -D -e -f /run/config 2>$port.log &
    local server=$! sent
    wait_for 30 grep -q 'Server listening' $port.log
    run drive --known-hosts known --port $port --no-compress push $N1 "$DTRUN" "~/.dtctl.$port" \
        there big
    sent=$status/$err
    run drive --known-hosts known --port $port --no-compress fetch $N1 "$DTRUN" "~/.dtctl.$port" \
        "got.$port" there/big
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    is "$sent $status/$err" '0/ 0/' "a push and a fetch succeed with $1 and $2"
    like "$(grep -a 'kex: client->server' $port.log | tail -n 1)" \
        "cipher: $1 MAC: ($2|<implicit>)" '  the cipher is the one that both sides agreed on'
    ok '  keys are exchanged again during the transfer' \
        test "$(grep -ac 'SSH2_MSG_NEWKEYS received' $port.log)" -ge 8
    is "$(on 1 cksum "/root/.dtctl.$port/there/big" | cut -d' ' -f1,2)" \
        "$(cksum big | cut -d' ' -f1,2)" '  the file is right'
    ok '  the fetched file is right' cmp big "got.$port/big"
    rm -r "got.$port"
    on 1 rm -rf "/root/.dtctl.$port"
}

for cipher in aes128-gcm@openssh.com aes256-gcm@openssh.com chacha20-poly1305@openssh.com; do
    through $cipher hmac-sha2-256 # not used: the cipher authenticates
done
for mac in hmac-sha2-256 hmac-sha2-512 hmac-sha1 hmac-sha2-256-etm@openssh.com \
    hmac-sha2-512-etm@openssh.com hmac-sha1-etm@openssh.com; do
    through aes256-ctr $mac
done
for cipher in aes192-ctr aes128-ctr; do
    through $cipher hmac-sha2-256-etm@openssh.com
    through $cipher hmac-sha2-512
done
done_testing
