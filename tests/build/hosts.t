#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The namespace hosts themselves: logins work, statuses come back, hosts are apart, nothing stays.
source "${0%/*}/../lib.sh"
hosts_up 2 ada

run ssh_to 1 'exit 7'
is "$status" 7 'an exit status is returned by ssh'
run ssh_to 1 hostname
is "$out" node1 'a host has its name'
run ssh_to ada@2 'id -un; pwd'
is "$out" $'ada\n/home/ada' 'another user logs in with a home of its own'
run ssh_to nobody@2 true
is "$status" 255 'a user without a key is refused'

ssh_to 1 'echo one >/root/mark; echo one >/tmp/mark; echo one >/dev/shm/mark; echo one >/run/mark'
run ssh_to 2 'cat /root/mark /tmp/mark /dev/shm/mark /run/mark'
is "$out" '' 'hosts share no files'
ok 'hosts reach each other by name' \
    ssh_to 1 'exec 3<>/dev/tcp/node2/22 && head -c 4 <&3 | grep SSH-'
run ip route show default
is "$out" '' 'the operator cannot reach other networks'
run ssh_to 1 'ip route show default'
is "$out" '' 'a host cannot reach other networks'

host_stop 2
run ssh_to 2 true
is "$status" 255 'a stopped host refuses'
ok 'a stopped host can be reached without ssh' on 2 true
host_start 2
ok 'a stopped host accepts logins again' wait_for 5 ssh_to 2 true

ssh_to 1 'sleep 30.125' 2>/dev/null &
sleeping=$!
# shellcheck disable=SC2317 # called by wait_for
host_sleeps() { [ -n "$(host_processes 1 '30\.125')" ]; }
wait_for 5 host_sleeps
ssh_cut 1
wait $sleeping
is $? 255 'a cut connection is noticed'
ok 'a new connection works' ssh_to 1 true

link_down 1
run ssh -F none -o BatchMode=yes -o ConnectTimeout=1 root@10.77.0.1 true
is "$status" 255 'an unplugged host is not reached'
link_up 1
ok 'a plugged one is' wait_for 10 ssh_to 1 true

# The same script once more, as a child that leaves processes behind on purpose.
cat >"$WORK/leave.t" <<EOF
#!/usr/bin/env bash
source "$SRC/tests/lib.sh"
hosts_up 1
ssh_to 1 'setsid sleep 98765 >/dev/null 2>&1 </dev/null &'
ok 'the process runs' wait_for 5 pgrep -f 'sleep 98765'
echo "work \$WORK"
done_testing
EOF
chmod +x "$WORK/leave.t"
run env -u TEST_INSIDE -u TEST_WORK "$WORK/leave.t"
is "$status" 0 'a nested run passes'
like "$out" 'ok 1 - the process runs' 'a nested run with a leftover process passes'
left=$(sed -n 's/^work //p' <<<"$out")
run pgrep -f 'sleep 98765'
is "$out" '' 'the leftover process is ended'
ok 'the folder of the nested run is removed' test ! -e "${left:-/}"
hosts_down
run ip netns list
is "$out" '' 'hosts_down leaves no namespace'
run ip -br link show type bridge
is "$out" '' 'hosts_down leaves no bridge'
done_testing
