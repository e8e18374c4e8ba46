#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Clock: the first file of a stream comes long before the last one.
# deliver = stream of files of this computer to hosts behind a slow uplink: the first file comes
# first, and a connection that is cut is made again in mid-stream.
# shellcheck disable=SC2317 # functions are called by name
source "${0%/*}/../lib.sh"
hosts_up 2
hosts_config
run dtctl up
is "$status" 0 'two hosts are up'
tc qdisc replace dev dt0 root tbf rate 200mbit burst 128k latency 100ms
mkdir set
for i in 0 1 2 3 4 5 6 7; do head -c 8000000 /dev/urandom >set/part-$i.tar; done
cat >read.py <<'END'
import hashlib, os, time, urllib.request
began = time.time()
with open(os.environ["DTCTL_OUTPUT_DIR"] + "/" + os.environ["RANK"], "w") as out:
    for n, url in enumerate(open(os.environ["DTCTL_INPUT_SET_URLS"]).read().split()):
        data = urllib.request.urlopen(url).read()
        if n == 0:
            print("first", round(1000 * (time.time() - began)), flush=True)
        out.write(hashlib.sha256(data).hexdigest() + "\n")
print("last", round(1000 * (time.time() - began)), flush=True)
END
train() { # NAME: to $1.log
    dtctl train --name "$1" --nproc-per-node 1 --input set=set --set inputs.set.deliver=stream \
        --file read.py -- python3 read.py >"$1.log" 2>&1
}
when() { sed -n "s/.*node1:0\] $2 //p" "$1.log"; } # NAME WHAT: in ms
all_read() { # NAME
    sha256sum set/* | sed 's/ .*//' >want
    for file in .dtctl/default/runs/"$1"-*/output/[01]; do cmp -s want "$file" || return 1; done
}
train order
is $? 0 'files are streamed to hosts' || diag "$(cat order.log)"
ok 'both ranks have read every byte' all_read order
ok 'the first file comes before half of the time has passed' \
    test "$(when order first)" -lt $(($(when order last) / 2))
diag "first file after $(when order first) ms, last one after $(when order last) ms"
for i in 0 1 2 3 4 5 6 7; do head -c 8000000 /dev/urandom >set/part-$i.tar; done
train cut &
pid=$!
reads() { grep -q 'node2:1\] first' cut.log; }
ok 'the second host has the first file' wait_for 60 reads
ssh_cut 2
wait "$pid"
is $? 0 'the run ends well although the connection was cut' || diag "$(cat cut.log)"
like "$(cat cut.log)" 'lost sight of node2' 'the cut was in the middle'
ok 'both ranks have read every byte once more' all_read cut
done_testing
