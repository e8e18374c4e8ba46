#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many small files, one large one, and connections that are cut in the middle.
# shellcheck disable=SC2016,SC2088,SC2317 # the node expands; functions are called by name
source "${0%/*}/../lib.sh"
hosts_up 1
source "$SRC/tests/integration/push_remote.sh"
N1=10.77.0.1

mkdir small
for d in {0..99}; do
    mkdir "small/d$d"
    for f in {0..99}; do echo "file $d $f" >"small/d$d/f$f"; done
done
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' small small/
is "$status $(field files_all)" '0 10000' '10,000 small files are pushed'
ok 'all 10,000 small files arrive' same small 1 /root/.dtctl/small
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' small small/
is "$status $(field bytes_total)" '0 0' 'a second push sends no file'
run drive fetch "$N1" "$DTRUN" '~/.dtctl' back small/
ok 'all small files are fetched' diff -r small back

# ---- cut in the middle of a push
head -c 100000000 /dev/urandom >big
drive hello "$N1" "$DTRUN" '~/.dtctl' >/dev/null
tc qdisc replace dev veth1 root tbf rate 200mbit burst 256k latency 50ms
drive push "$N1" "$DTRUN" '~/.dtctl' data big >push.out 2>push.err &
pushing=$!
parts() { on 1 sh -c 'du -k /root/.dtctl/cas/tmp 2>/dev/null | cut -f1'; }
arrived() { [ "$(parts)" -gt 30000 ]; }
ok 'a large file is on its way' wait_for 30 arrived
ssh_cut 1
wait $pushing
is $? 1 'a cut connection fails the push'
like "$(cat push.err)" 'node 10.77.0.1: .*cut' 'the error says that the connection was cut'
ok 'nothing half done is visible' on 1 test ! -e /root/.dtctl/data/big
tc qdisc delete dev veth1 root
run drive push "$N1" "$DTRUN" '~/.dtctl' data big
is "$status" 0 'the next push succeeds'
ok 'the next push sends only what is missing' test "$(field bytes_total)" -lt 80000000
is "$(on 1 cksum /root/.dtctl/data/big | cut -d' ' -f1,2)" "$(cksum big | cut -d' ' -f1,2)" \
    'the file is right'
is "$(on 1 sh -c 'ls -A /root/.dtctl/cas/tmp')" '' 'no part is left behind'

# ---- a part that rotted on the node
on 1 sh -c 'rm -rf /root/.dtctl/data /root/.dtctl/cas/??/*'
tc qdisc replace dev veth1 root tbf rate 200mbit burst 256k latency 50ms
drive push "$N1" "$DTRUN" '~/.dtctl' data big >push.out 2>push.err &
pushing=$!
ok 'a second push is on its way' wait_for 30 arrived
ssh_cut 1
wait $pushing
tc qdisc delete dev veth1 root
on 1 sh -c 'cd /root/.dtctl/cas/tmp && printf X |
    dd of=$(ls *.part) bs=1 seek=1000 conv=notrunc 2>/dev/null'
run drive push "$N1" "$DTRUN" '~/.dtctl' data big
is "$status" 1 'damage on the node is noticed'
like "$err" "'big'.*does not match its hash" 'the error names the damaged file'
run drive push "$N1" "$DTRUN" '~/.dtctl' data big
is "$status $(on 1 cksum /root/.dtctl/data/big | cut -d' ' -f1,2)" \
    "0 $(cksum big | cut -d' ' -f1,2)" 'the next push puts it right'

# ---- cut in the middle of a fetch
on 1 tc qdisc replace dev eth0 root tbf rate 200mbit burst 256k latency 50ms
drive fetch "$N1" "$DTRUN" '~/.dtctl' got data/ >fetch.out 2>fetch.err &
fetching=$!
come() { [ "$(du -k got/.dtctl-part 2>/dev/null | tail -1 | cut -f1)" -gt 30000 ]; }
ok 'a fetch is on its way' wait_for 30 come
ssh_cut 1
wait $fetching
is $? 1 'a cut connection fails the fetch'
on 1 tc qdisc delete dev eth0 root
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got data/
is "$status" 0 'the next fetch succeeds'
ok 'the next fetch brings only what is missing' test "$(field bytes_total)" -lt 80000000
ok 'the fetched file is right' cmp big got/big
is "$(ls -A got)" big 'no part is left behind'

# ---- long distance: further connections, one of which dies
rm -f big && head -c 120000000 /dev/urandom >big
"$BUILD/release/tests/tools/delay_proxy" 2200 $N1:22 10 >proxy.out &
proxy=$!
wait_for 5 grep -q ready proxy.out
sed "s/^/[127.0.0.1]:2200 /" node1/keys/ed25519.pub >between
drive --known-hosts between --port 2200 --connections 4 push 127.0.0.1 "$DTRUN" '~/.dtctl' far big \
    >push.out 2>push.err &
pushing=$!
several() { [ "$(on 1 pgrep -c -f '[n]ode push')" -ge 3 ]; }
ok 'further connections are opened' wait_for 20 several
on 1 sh -c 'kill -9 $(pgrep -n -f "[n]ode push")'
wait $pushing
is $? 0 'the push survives the loss of one'
kill $proxy
wait $proxy 2>/dev/null
is "$(on 1 cksum /root/.dtctl/far/big | cut -d' ' -f1,2)" "$(cksum big | cut -d' ' -f1,2)" \
    'the file is right'

# ---- memory, on both sides
most() { # PID… : the largest resident size so far, in kB, which the kernel keeps
    for pid; do sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null; done |
        sort -n | tail -n 1
}
truncate -s 2G huge
printf 'tail' >>huge
"$DRIVE" --config none push $N1 "$DTRUN" '~/.dtctl' huge huge >push.out 2>push.err &
pushing=$! here=0 there=0
while kill -0 $pushing 2>/dev/null; do
    now=$(most $pushing) && here=$((now > here ? now : here))
    now=$(most $(pgrep -f '[n]ode (push|hello)')) && there=$((now > there ? now : there))
    sleep 0.5
done
wait $pushing
is $? 0 'a file of 2 GB goes through'
ok "the sender needs less than 64 MB ($here kB)" test "$here" -gt 1000 -a "$here" -lt 65536
ok "the receiver needs less than 64 MB ($there kB)" test "$there" -gt 1000 -a "$there" -lt 65536
is "$(on 1 stat -c %s /root/.dtctl/huge/huge)" $((2 * 1024 * 1024 * 1024 + 4)) \
    'the file of 2 GB is complete'

done_testing
