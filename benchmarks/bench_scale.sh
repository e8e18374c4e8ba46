#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cost of dtctl itself as the cluster grows: processor time, peak memory and descriptors of each
# command, on SCALE_NODES namespace hosts with real sshd, which reach each other through the
# operator. The exponent is that of the processor time from the second last size to the last: 1 is
# linear.
source "${0%/*}/../tests/lib.sh"
read -ra SIZES <<<"${SCALE_NODES:-2 8 24}"
command -v python3 >/dev/null || { echo 'bench_scale needs python3' >&2; exit 1; }
hosts_up "${SIZES[-1]}"
hosts_route
LARGE_MB=16 SMALL_FILES=500
# All nodes share this machine's processors: a login takes long, and so does an agent's turn.
CONNECT_SECONDS=120 SILENCE_SECONDS=30

cat >cost.py <<'END'
import os, subprocess, sys, time

with open("cost.log", "a") as log:
    child = subprocess.Popen(sys.argv[1:], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
fds = rss = pid = 0
while not pid:
    try:
        fds = max(fds, len(os.listdir(f"/proc/{child.pid}/fd")))
        with open(f"/proc/{child.pid}/status") as status:
            peak = [line.split()[1] for line in status if line.startswith("VmHWM")]
        rss = max(rss, int(peak[0]) if peak else 0)
    except OSError:
        pass
    time.sleep(0.005)
    # RUSAGE_CHILDREN would include what ran in this process before Python, such as pyenv's shim.
    pid, status, used = os.wait4(child.pid, os.WNOHANG)
cpu_ms = (used.ru_utime + used.ru_stime) * 1000
print(f"{cpu_ms:.0f} {rss} {fds} {os.waitstatus_to_exitcode(status)}")
END
mkdir -p large small
head -c ${LARGE_MB}M /dev/urandom >large/file
for ((i = 0; i < SMALL_FILES; i++)); do head -c 2000 /dev/urandom >small/$i; done

declare -A cpu_of
bad=0
measure() { # NODES WHAT dtctl-ARGUMENT…
    local nodes=$1 what=$2 cpu rss fds code
    shift 2
    read -r cpu rss fds code < <(python3 cost.py dtctl "$@")
    [ "$code" = 0 ] || {
        bad=$((bad + 1))
        diag "dtctl $* with $nodes nodes ended with $code: $(tail -n 3 cost.log)" >&2
    }
    cpu_of[$what $nodes]=$cpu
    printf '{"bench":"scale","what":"%s","nodes":%d,"cpu_ms":%d,"rss_mb":%.1f,"fds":%d}\n' \
        "$what" "$nodes" "$cpu" "$((rss * 10 / 1024))e-1" "$fds"
}

for nodes in "${SIZES[@]}"; do
    printf '%s\n' '[cluster]' 'provider = "hosts"' '[hosts]' "list = [\"root@node[1-$nodes]\"]" \
        '[ssh]' "connect_timeout = \"${CONNECT_SECONDS}s\"" \
        '[train.torchrun]' "rdzv_conf = \"silence=$SILENCE_SECONDS\"" >dtctl.toml
    measure "$nodes" up up
    measure "$nodes" 'up again' up
    measure "$nodes" status status
    measure "$nodes" exec exec -- true
    measure "$nodes" train train -- true
    measure "$nodes" 'push large' push large
    measure "$nodes" 'push small' push small
    # shellcheck disable=SC2016 # the workers' shell expands it
    measure "$nodes" 'train and fetch' train -- \
        sh -c 'for i in $(seq 200); do echo $i >"$DTCTL_OUTPUT_DIR/$RANK.$i"; done'
    measure "$nodes" down down -y
done
last=${SIZES[-1]} before=${SIZES[-2]:-$last}
for what in up 'up again' status exec train 'push large' 'push small' 'train and fetch' down; do
    awk -v what="$what" -v a="${cpu_of[$what $before]}" -v b="${cpu_of[$what $last]}" \
        -v n="$before" -v m="$last" 'BEGIN { if (a > 0 && b > 0 && n != m)
        printf "{\"bench\":\"scale\",\"what\":\"%s\",\"from\":%d,\"to\":%d,\"exponent\":%.2f}\n",
            what, n, m, log(b / a) / log(m / n) }'
done
{
    is "$bad" 0 'every command ended with 0' || diag "$(tail -n 20 cost.log)"
    done_testing
} >&2
