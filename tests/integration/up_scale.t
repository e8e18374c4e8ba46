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
# shellcheck disable=SC2016 # the workers' shell expands it
costs 'a run whose results are fetched' train -- \
    sh -c 'for i in $(seq 100); do echo $i >"$DTCTL_OUTPUT_DIR/$RANK.$i"; done'
costs down down -y
done_testing
