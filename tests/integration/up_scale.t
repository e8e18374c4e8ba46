#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The descriptors and the memory that each further host costs dtctl, for every command that reaches
# all of them, where known_hosts and the configuration of ssh list thousands of other hosts.
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'no python3 to measure with'
HOSTS_COUNT=8
hosts_up $HOSTS_COUNT
hosts_config
# A transfer has files open on this side; sixteen nodes at a time have one.
FDS_MAX=$((8 * HOSTS_COUNT + 24)) MB_MAX=$((20 + HOSTS_COUNT))

python3 - <<'END'
import os
home = os.path.expanduser("~/.ssh/")
key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
with open(home + "known_hosts", "a") as known, open(home + "config", "a") as config:
    for i in range(5000):
        known.write(f"elsewhere{i} {key}\n")
        config.write(f"Host elsewhere{i}\n  User me\n")
END
cat >cost.py <<'END'
import os, resource, subprocess, sys, time

fds = 0
with open("cost.log", "w") as log:
    child = subprocess.Popen(sys.argv[1:], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
while child.poll() is None:
    try:
        fds = max(fds, len(os.listdir(f"/proc/{child.pid}/fd")))
    except OSError:
        pass
    time.sleep(0.002)
print(child.returncode, fds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
END
costs() { # WHAT dtctl-ARGUMENT…
    local what=$1 code fds mb
    shift
    read -r code fds mb < <(python3 cost.py dtctl "$@")
    is "$code" 0 "$what succeeds on $HOSTS_COUNT hosts" || diag "$(tail -n 5 cost.log)"
    diag "  $what: $fds descriptors, $mb MB"
    ok "$what has at most $FDS_MAX descriptors open" test "$fds" -le $FDS_MAX
    ok "$what takes at most $MB_MAX MB" test "$mb" -le $MB_MAX
}

mkdir small
head -c 12M /dev/urandom >large
for ((i = 0; i < 400; i++)); do echo $i >small/$i; done
costs up up
costs 'a second up' up
costs status status
costs exec exec -- true
costs 'a push of one large file' push large
costs 'a push of many small files' push small

# ---- connections --------------------------------------------------------------------------------
# A program with much to do answers late, which is no distance: every host is one hop away.
cat >busy.py <<'END'
# COMMAND…: stopped for most of the time; prints its status and its most connections to port 22
import os, signal, subprocess, sys, time

with open("busy.log", "w") as log:
    child = subprocess.Popen(sys.argv[1:], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
most, began = 0, time.monotonic()
while child.poll() is None and time.monotonic() - began < 300:
    os.kill(child.pid, signal.SIGSTOP)
    time.sleep(0.01)
    try:
        with open(f"/proc/{child.pid}/net/tcp") as table:
            rows = [line.split() for line in table]
    except OSError:  # it has just ended
        break
    most = max(most, sum(row[2].endswith(":0016") and row[3] == "01" for row in rows))
    os.kill(child.pid, signal.SIGCONT)
    time.sleep(0.004)
print(child.wait(), most)
END
head -c 32M /dev/urandom >larger
read -r code most < <(DTCTL_CLUSTER_FANOUT=off python3 busy.py dtctl push larger)
is "$code" 0 'a push by a busy program succeeds' || diag "$(tail -n 5 busy.log)"
is "$most" $HOSTS_COUNT 'a busy program has one connection to each host'
rm larger

# ---- the cache of hashes ------------------------------------------------------------------------
cat >opens.py <<'END'
# FOLDER NAME COMMAND…: prints the command's status, and how often it opened and replaced the file
import ctypes, os, struct, subprocess, sys

OPEN, MOVED_TO = 0x20, 0x80
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(fd, sys.argv[1].encode(), OPEN | MOVED_TO)
with open("opens.log", "w") as log:
    status = subprocess.run(sys.argv[3:], stdout=log, stderr=log).returncode
counts = {OPEN: 0, MOVED_TO: 0}
while True:
    try:
        got = os.read(fd, 1 << 20)
    except BlockingIOError:
        break
    while got:
        _, mask, _, size = struct.unpack_from("iIII", got)
        name, got = got[16 : 16 + size].rstrip(b"\0"), got[16 + size :]
        for kind in counts:
            counts[kind] += bool(mask & kind and name == sys.argv[2].encode())
print(status, counts[OPEN], counts[MOVED_TO])
END
# shellcheck disable=SC2016 # the workers' shell expands it
dtctl train -d --name left -- \
    sh -c 'for i in $(seq 20); do echo $i >"$DTCTL_OUTPUT_DIR/$RANK.$i"; done' \
    >left.log 2>&1 || diag "$(cat left.log)"
busy='starting|joining|running|waiting|stopping|started'
# shellcheck disable=SC2317 # called through wait_for
over() { ! dtctl ps 2>/dev/null | grep -qE "$busy"; }
ok 'a run that nobody follows is over' wait_for 60 over
read -r code opens replaced < <(python3 opens.py .dtctl/default hashes dtctl fetch left)
is "$code" 0 'fetch brings the results of all hosts' || diag "$(tail -n 5 opens.log)"
ok "the cache of hashes is read once for all hosts ($opens times)" test "$opens" -le 2
is "$replaced" 1 'the cache of hashes is written once'

# shellcheck disable=SC2016 # the workers' shell expands it
costs 'a run whose results are fetched' train -- \
    sh -c 'for i in $(seq 100); do echo $i >"$DTCTL_OUTPUT_DIR/$RANK.$i"; done'
costs down down -y
done_testing
