#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Getting in: host keys, keys, agents, jump hosts, ~/.ssh/config, and commands and their ends.
# shellcheck disable=SC2016,SC2088,SC2317 # the node expands; functions are called by name
source "${0%/*}/../lib.sh"
hosts_up 2 ada
source "$SRC/tests/integration/push_remote.sh"
N1=10.77.0.1 N2=10.77.0.2
plain() { timeout 60 "$DRIVE" "$@"; }

# ---- commands and how they end
run drive exec $N1 'echo out; echo err >&2; exit 7'
is "$status/$out/$err" '7/out/err' 'standard output, standard error and the status are returned'
run drive exec $N1 'kill -9 $$'
is "$status/$err" '137/signal: KILL' 'a signal is returned'
run drive exec $N1 'kill -9 $PPID; sleep 5'
is "$status" 4 'a lost connection is no status'
like "$err" "no status: network: node $N1: root@$N1:22: the connection was lost" \
    'the error says that the connection was lost'

# Data that arrives during other work is read at once, not with the next keepalive.
for commands in 1 2 8; do
    run drive --keepalive-ms 20000 --idle-ms 2 talk $N1 $commands 50
    is "$status" 0 "$commands at once, answering each line on both streams"
    ok "no command has waited for a keepalive ($out ms at most)" test "${out:-20000}" -lt 10000
done

# A server that closes the channel of a command without its status: OpenSSH from 9.2 on does so
# after a long silence.
quiet=(/usr/sbin/sshd -D -e -f /run/sshd_config -p 2222 -o PidFile=none
    -o ChannelTimeout=session:command=3s)
if on 1 "${quiet[@]}" -t 2>/dev/null; then
    on 1 "${quiet[@]}" 2>quiet.log &
    server=$!
    wait_for 30 grep -q 'Server listening' quiet.log
    run drive --port 2222 exec $N1 'sleep 20'
    is "$status" 4 'a channel that closes without a status has no status'
    like "$err" 'no status: no-status: .*the command ended without an exit status' \
        'the error says that there is no status'
    printf '[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@%s:2222"]\n' $N1 >dtctl.toml
    dtctl up >up.out 2>&1 || diag "$(cat up.out)"
    run dtctl exec -- 'sleep 20'
    is "$status" 4 'dtctl exec reports that there is no status'
    like "$err" '1 of 1 nodes gave no status' 'dtctl exec names the node without a status'
    run dtctl exec -- 'exit 3'
    is "$status" 3 'the next command has a status'
    dtctl down >up.out 2>&1 || diag "$(cat up.out)"
    rm dtctl.toml
    kill $server
    wait $server 2>/dev/null
else
    skip 5 'this sshd has no ChannelTimeout'
fi
run drive --pty exec $N1 'stty size; tty'
like "$out" '31 91.*/dev/pts' 'a terminal has the size that was asked for'
is "$(drive exec $N1,$N2 'head -c 3000000 /dev/zero' | wc -c)" 6000000 \
    'the output of two nodes is complete'
input=$(head -c 100000 /dev/zero | tr '\0' x)
is "$(drive --input "$input" exec $N1 'wc -c' | tr -d ' ')" 100000 'all input goes'

# ---- host keys
known=$HOME/.ssh/known_hosts
mv "$known" all_hosts
fingerprint=$(ssh-keygen -lf node1/keys/ed25519.pub | cut -d' ' -f2)
run drive exec $N1 true
is "$status" 1 'an unknown host key stops'
like "${err/"$fingerprint"/PRINT}" "hostkey: node $N1: .*PRINT.*--accept-host-keys" \
    'the error has the fingerprint and the next step'
run drive --known-hosts cluster/known_hosts --accept exec $N1 true
is "$status" 0 'an unknown host key can be accepted'
run drive --known-hosts cluster/known_hosts exec $N1 true
is "$status" 0 'an accepted host key is known'
is "$(cat cluster/known_hosts)" "$N1 $(cut -d' ' -f1,2 node1/keys/ed25519.pub)" \
    "the accepted host key is in the cluster's file"
sed "s/^/$N1 /" node2/keys/ed25519.pub >changed
run drive --known-hosts changed --accept exec $N1 true
is "$status" 1 'a changed key stops, accepted or not'
like "$err" 'HAS CHANGED.*changed:1' 'the error has the place of the other key'
sed "s/^/$N1 /" node1/keys/ecdsa.pub >ecdsa
run drive --known-hosts ecdsa exec $N1 true
is "$status" 0 'the type that is on file is asked for'
{ sed "s/^/@revoked * /" node1/keys/ed25519.pub; sed "s/^/$N1 /" node1/keys/ed25519.pub; } >revoked
run drive --known-hosts revoked exec $N1 true
like "$status $err" '^1 .*@revoked' 'a revoked key stops'
cp all_hosts hashed && ssh-keygen -q -H -f hashed 2>/dev/null
run drive --known-hosts hashed exec $N1 true
is "$status" 0 'hashed names are found'
run drive --host-key "$(cat node1/keys/ed25519.pub)" exec $N1 true
is "$status" 0 'a pinned key is enough'
run drive --host-key "$(cat node2/keys/ed25519.pub)" exec $N1 true
like "$status $err" '^1 .*not the one in host_key' 'another pinned key is refused'
mv all_hosts "$known"

# ---- keys
ssh-keygen -q -t ecdsa -N '' -f ecdsa_key && ssh-keygen -q -t rsa -b 2048 -N '' -f rsa_key
ssh-keygen -q -t ed25519 -N secret -f locked_key && ssh-keygen -q -t ed25519 -N '' -f stranger_key
ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f pem_key
cat {ecdsa,rsa,locked,pem}_key.pub | on 1 sh -c 'cat >>/root/.ssh/authorized_keys'
mv "$HOME/.ssh/id_ed25519" own_key
for key in own_key ecdsa_key rsa_key pem_key; do
    run drive --identity $key exec $N1 true
    is "$status" 0 "a login with $key succeeds"
done
run drive --identity stranger_key exec $N1 true
like "$status $err" '^1 error: auth: .*refused .tried: stranger_key' 'a strange key is refused'
run drive exec $N1 true
like "$status $err" '^1 error: auth: .*no key to log in with' \
    'a login without a key is an error of its own'
run drive --identity locked_key exec $N1 true
like "$status $err" '^1 error: auth: .*passphrase.*locked_key.*ssh-add' \
    'a locked key needs the agent'
printf '#!/bin/sh\necho secret\n' >ask && chmod +x ask
eval "$(ssh-agent -s)" >/dev/null
SSH_ASKPASS=$WORK/ask SSH_ASKPASS_REQUIRE=force DISPLAY=x ssh-add locked_key 2>/dev/null
run drive --identity locked_key exec $N1 true
is "$status" 0 'the agent opens the locked key'
run drive exec $N1 true
is "$status" 0 'the agent alone will do'
ssh-agent -k >/dev/null
unset SSH_AUTH_SOCK
mv own_key "$HOME/.ssh/id_ed25519"

# ---- unreachable
run drive --timeout-ms 800 exec 10.77.0.99 true
like "$status $err" '^1 .*node 10.77.0.99: ' 'a node that is not there is reported'
run drive --port 2299 exec $N1 true
like "$status $err" '^1 .*:2299: cannot connect: refused' 'a port where nothing listens is reported'
drive --keepalive-ms 1000 exec $N1 'sleep 31' >down.out 2>down.err &
sleeping=$!
wait_for 5 on 1 pgrep -fx 'sleep 31'
link_down 1
wait $sleeping
is $? 4 'an unplugged node is noticed'
like "$(cat down.err)" 'timeout: .*nothing was heard' 'an unplugged node is noticed by its silence'
link_up 1
wait_for 10 ssh_to 1 true

# ---- an attacker flips one bit
"$BUILD/release/tests/tools/delay_proxy" 2200 $N1:22 0 100000 >proxy.out &
proxy=$!
wait_for 5 grep -q ready proxy.out
sed "s/^/[127.0.0.1]:2200 /" node1/keys/ed25519.pub >between
run drive --known-hosts between --port 2200 exec 127.0.0.1 'echo small'
is "$status $out" '0 small' 'a relay alone does no harm'
run drive --known-hosts between --port 2200 exec 127.0.0.1 'head -c 300000 /dev/zero | tr "\\0" x'
is "$status" 4 'one inverted bit ends the connection'
unlike "$out" '[^x]' 'no byte of the damaged packet is output'
kill $proxy
wait $proxy 2>/dev/null

# ---- a connection with nothing to do
TIMEFORMAT='%U %S'
cpu=$({ time drive --keepalive-ms 1000 --idle-ms 5000 exec $N1 'echo alive' >alive; } 2>&1)
is "$(cat alive)" alive 'an idle connection stays'
ok "an idle connection uses almost no processor time (CPU seconds: $cpu)" awk -v cpu="$cpu" \
    'BEGIN { split(cpu, s, " "); exit s[1] + s[2] > 0.5 }'
drive --idle-ms 20000 exec $N1 true >idle.out 2>idle.err &
idling=$!
logged_in() { on 1 pgrep -f 'sshd(-session)?: root$'; }
wait_for 5 logged_in
sleep 0.3 # until the client has seen it too
ssh_cut 1
wait $idling
is $? 1 'the loss of an idle connection is noticed at once'
like "$(cat idle.err)" 'the connection was lost' 'the loss of an idle connection is reported'

# ---- jump hosts: node2 is reached from node1 only
ip route add blackhole $N2
run drive --timeout-ms 3000 --jump root@$N1 exec $N2,$N2,$N2 hostname
is "$status $(sort -u <<<"$out")" '0 node2' 'three connections over one jump host succeed'
run drive --jump root@$N1 --port 23 exec $N2 true
like "$status $err" '^1 .*jump host cannot reach it' 'the jump host cannot reach everything'
run drive --jump root@10.77.0.1:2222 exec $N2 true
like "$status $err" '^1 .*jump host: root@10.77.0.1:2222: cannot connect' \
    'the jump host refuses to be reached on another port'
run drive --jump root@$N1 --replace push $N2 "$DTRUN" '~/.dtctl' work "$SRC/tests/integration/"
is "$status" 0 'a push over a jump host succeeds'
ok 'the file arrives' same "$SRC/tests/integration" 2 /root/.dtctl/work

# ---- ~/.ssh/config
mkdir -p "$HOME/.ssh/conf.d"
cat >"$HOME/.ssh/config" <<END
Include conf.d/*
Host far
    HostName $N2
    ProxyJump near
Host *
    User nobody
END
printf 'Host near n?ar\n  HostName %s\n  User ada\n  IdentityFile ~/.ssh/%%h.key\n' $N1 \
    >"$HOME/.ssh/conf.d/near"
cp "$HOME/.ssh/id_ed25519" "$HOME/.ssh/$N1.key"
run plain exec near 'id -un'
is "$status $out" '0 ada' 'a name of ~/.ssh/config is found, through Include'
run plain --user root exec far 'id -un; hostname'
is "$status $out" $'0 root\nnode2' 'ProxyJump is followed by name'
run plain exec far true
like "$status $err" '^1 error: auth: .*nobody@' 'the last resort applies too'

done_testing
