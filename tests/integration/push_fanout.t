#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One list of files to five hosts behind a slow uplink: nodes pass the content on, so that it leaves
# this computer once, and no node that is lost, frozen or late keeps another from its files.
# shellcheck disable=SC2016,SC2088,SC2317 # the node expands; functions are called by name
source "${0%/*}/../lib.sh"
hosts_up 5
hosts_config
MB=$((1 << 20))

run dtctl up
is "$status" 0 'up on five hosts'
uplink() { tc qdisc replace dev dt0 root tbf rate "$1" burst 128k latency 100ms; }
fields() { # NAME…: of the event "pushed"
    local name
    for name; do
        sed -nE "s/.*\"event\":\"pushed\".*\"$name\":([0-9]+).*/\1/p" push.out
    done | paste -sd' '
}
push() { # SECONDS ARGUMENT…: its status, files and bytes on the wire
    timeout -k 5 "$1" dtctl --json push --replace --to '~/data' "${@:2}" >push.out 2>push.err
    status=$?
}
has() { # FOLDER NODE…: it is there, complete
    local want
    want=$(cd "$1" && find . -type f -exec cksum {} + | sort -k 3)
    for node in "${@:2}"; do
        [ "$(on "$node" sh -c "cd /root/data && find . -type f -exec cksum {} + |
            sort -k 3")" = "$want" ] || { diag "node$node differs"; return 1; }
    done
}
content() { # FOLDER: one large file, a few hundred small ones, one of them twice
    mkdir "$1"
    head -c $((16 * MB)) /dev/urandom >"$1/large"
    head -c $((200 * 3000)) /dev/urandom | split -a 3 -d -b 3000 - "$1/small"
    cp "$1/small001" "$1/twice"
}

# ---- once over the uplink
uplink 160mbit
content all
push 60 all/
is "$status $(fields files)" '0 1010' 'a push to five hosts puts all files in place'
ok 'each of the five has them' has all 1 2 3 4 5
wire=$(fields bytes_wire)
ok 'the content leaves this computer once' test "$wire" -lt $((20 * MB))
diag "$((wire / MB)) MB on the wire for $(($(du -sb all | cut -f1) / MB)) MB to five hosts"
push 60 all/
is "$status $(fields bytes_sent)" '0 0' 'the second push sends nothing'

# ---- nodes that have some of it
content some
rm -rf "$WORK/node2/root/data" "$WORK/node2/root/.dtctl/nodes/node2/cas"
cp all/large some/known
push 60 some/
is "$status" 0 'a push to nodes that have different parts of the files succeeds'
ok 'all of them have the files' has some 1 2 3 4 5
ok 'only the part that one node lacks is sent beside what all lack' \
    test "$(fields bytes_wire)" -lt $((37 * MB))

# ---- a node that goes, or stops, in the middle
whole() { # NODE OLD NEW: one of them is in its folder, and nothing else
    has "$2" "$1" >/dev/null || has "$3" "$1"
}
pushes() { host_processes "$1" 'dtrun.*--node'; } # NODE
arrived() { # NODE KIB: of the large file
    local part=$WORK/node$1/root/.dtctl/nodes/node$1/cas/tmp
    [ "$(du -sk "$part" 2>/dev/null | cut -f 1)" -gt "$2" ] 2>/dev/null
}
uplink 40mbit
content killed
push 120 killed/ &
pushing=$!
ok 'the content comes to the fourth of five nodes' wait_for 60 arrived 4 4096
for p in $(pushes 3); do kill -KILL "$p"; done
wait $pushing; diag "$(date +%s) $(cat push.err)"
ok 'the other nodes have the files although one was killed' has killed 1 2 4 5
like "$(cat push.err)" 'node3' 'the error names the node whose agent was killed'
ok 'the killed node has no mixture of old and new files' whole 3 some killed

# freezes NODE KIB UPLINK: node NODE stops when node 4 has KIB of the large file
freezes() {
    local frozen=frozen$1.$2
    uplink "$3"
    content "$frozen"
    push 120 "$frozen/" &
    pushing=$!
    ok "the content of the push '$frozen' comes" wait_for 60 arrived 4 "$2"
    stopped=$(pushes "$1")
    for p in $stopped; do kill -STOP "$p"; done
    uplink 400mbit
    # shellcheck disable=SC2046 # the other nodes
    ok "the nodes beside frozen node$1 have the files soon" \
        wait_for 30 has "$frozen" $(seq 5 | grep -v "$1")
    for p in $stopped; do kill -CONT "$p"; done
    wait $pushing; diag "$(date +%s) $(cat push.err)"
    ok "node$1 has them when it goes on" wait_for 30 has "$frozen" "$1"
}
# So slow that much is left when a busy machine sees that the content comes.
freezes 2 4096 10mbit
# The rest fits into the buffers of a frozen node's sockets; the one before it ends its part.
for node in 1 2 5; do freezes $node 12288 40mbit; done

parts() { find "$WORK/node$1/root/.dtctl/nodes/node$1/cas/tmp" -type f | sort | paste -sd' '; }
before=$(parts 3) # of the push that was killed there, for its next attempt
content unplugged
uplink 40mbit
DTCTL_SSH_KEEPALIVE=1s push 120 unplugged/ &
pushing=$!
ok 'the content of a push comes to the fourth node' wait_for 60 arrived 4 4096
link_down 3
wait $pushing; diag "$(date +%s) $(cat push.err)"
ok 'the other nodes have the files although a cable was pulled' has unplugged 1 2 4 5
like "$(cat push.err)" 'node3' 'the error names the node without a network'
ok 'the node without a network has no mixture of files' whole 3 frozen5.12288 unplugged
link_up 3
uplink 400mbit
push 60 unplugged/
is "$status" 0 'the next push reaches the node again' || diag "$(cat push.err)"
ok 'every node has the files then' has unplugged 1 2 3 4 5
ok 'the next push brings only what the node lacked' \
    test "$(fields bytes_sent)" -lt $((17 * MB))
is "$(parts 3)" "$before" 'no part of these files is left in its store'

# ---- files are put into place while others come
adds() { # SECONDS FOLDER: a push that does not replace
    timeout -k 5 "$1" dtctl --json push --to "~/$2" "$2/" >push.out 2>push.err
    status=$?
}
twelve() { # FOLDER: files that are copied into place
    mkdir "$1"
    for i in {10..21}; do head -c "$MB" /dev/urandom >"$1/$i"; done
}
sums() { (cd "$1" && cksum -- * 2>/dev/null); }
placed() { on "$1" test -s "/root/$2"; } # NODE PATH
uplink 20mbit
twelve full
on 3 mkdir /root/full
on 3 mount -t tmpfs -o size=20m tmpfs /root/full
adds 120 full &
pushing=$!
ok 'the first file is in place' wait_for 60 placed 3 full/10
ok 'the last file has not come yet' on 3 test ! -e /root/full/21
on 3 sh -c 'cat /dev/zero >/root/full/other' 2>/dev/null
wait $pushing; diag "$(cat push.err)"
like "$(cat push.err)" "node3.*No space left on device; the disk of '/root/full' is full" \
    'a disk that becomes full meanwhile fails its node alone'
want=$(sums full)
for node in 1 2 4 5; do
    is "$(on $node sh -c 'cd /root/full && cksum -- *')" "$want" \
        "node$node has the files although the disk of another became full"
done
on 3 umount /root/full

twelve stopped
adds 120 stopped &
pushing=$!
ok 'a file is in place' wait_for 60 placed 3 stopped/12
for p in $(pushes 3); do kill -KILL "$p"; done
wait $pushing; diag "$(cat push.err)"
want=$(sums stopped)
is "$(on 3 sh -c 'cd /root/stopped && cksum -- *' | grep -vxF "$want")" '' \
    'a node that was killed has whole files alone'
for node in 1 2 4 5; do
    is "$(on $node sh -c 'cd /root/stopped && cksum -- *')" "$want" \
        "node$node has the files although another was killed"
done
uplink 400mbit
adds 60 stopped
is "$status" 0 'the next push succeeds'
ok 'the next push brings only files that the node lacked' \
    test "$(fields bytes_sent)" -lt $((10 * MB))
is "$(on 3 sh -c 'cd /root/stopped && cksum -- * .dtctl* 2>/dev/null')" "$want" \
    'the node has all files, and no unfinished one'

# ---- one by one
content single
DTCTL_CLUSTER_FANOUT=off push 60 single/
is "$status" 0 'a push with fan-out off succeeds'
ok 'with fan-out off each node gets all from this computer' \
    test "$(fields bytes_wire)" -gt $((80 * MB))
ok 'the five nodes have the files' has single 1 2 3 4 5
done_testing
