# SPDX-License-Identifier: Apache-2.0
"""Where things are, and a machine on which a wrong program does no harm."""
import fcntl
import glob
import os
import shutil
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("DTCTL_BUILD") or os.path.join(SOURCE, "build"))
BIN = os.environ.get("DTCTL_BIN") or os.path.join(SOURCE, "bin")
SCRATCH = os.path.join(BUILD, "mutants")
UNCHANGED = os.path.join(SCRATCH, "unchanged")
JOBS = int(os.environ.get("JOBS") or 2)
REAP = os.path.join(BUILD, "release/tests/tools/reap")
# Kernels of an instruction set, and its name in /proc/cpuinfo.
INSTRUCTIONS = {"avx2": "avx2", "avx512": "avx512f", "bf16": "avx512_bf16", "amx": "amx_tile"}

# Called for the types of one instruction set alone.
CALLED_BY = {"kernels/cpu/attention_words.c": "amx", "kernels/cpu/conv_weight_rows.c": "amx"}


def runs_here(path):
    """False for kernels that this processor cannot run."""
    kind = CALLED_BY.get(path) or path[:-2].rsplit("_", 1)[-1]
    needs = INSTRUCTIONS.get(kind) if path.startswith("kernels/") else None
    with open("/proc/cpuinfo") as f:
        return not needs or needs in f.read().split()


def run(command, wall_s, processor_s=900, **environment):
    """Its status. Other work on the machine costs it no processor."""
    return subprocess.run(
        [REAP, "%d" % (wall_s + 1), "bash", "-c", 'ulimit -c 0 -t "$0"; exec "$@"',
         "%d" % (processor_s + 1)] + command, cwd=SOURCE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        env={**os.environ, **environment}).returncode


def is_inside():
    return "MUTANTS_HOME" in os.environ


def sandbox():
    """Once more, inside namespaces in which a wrong program does no harm."""
    script = ('set -e; mount --bind "$0" "$0"; ip link set lo up; '
              "while read -r _ where type rest; do case $type:$where in "
              'proc:*|sysfs:*|devpts:*|mqueue:*|*:/proc/*|*:"$0"|*:/dev|*:/dev/*) ;; '
              '*) mount -o remount,bind,ro "$where" || [ "$where" != / ];; esac; '
              "done < <(tac /proc/self/mounts); "
              'mkdir -p "$0/tmp"; mount -t tmpfs tmpfs "$0/tmp"; mount -t tmpfs tmpfs /dev/shm; '
              # Sources in /tmp stay where they are.
              'case $DTCTL_SRC in /tmp/*) to=$0$DTCTL_SRC; mkdir -p "$to"; '
              'mount --rbind "$DTCTL_SRC" "$to";; esac; mount --rbind "$0/tmp" /tmp; '
              'cd "$DTCTL_SRC"; exec python3 "$@"')
    os.makedirs(SCRATCH, exist_ok=True)
    lock = open(os.path.join(SCRATCH, "lock"), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("mutants: another one works in this folder")
    os.set_inheritable(lock.fileno(), True)
    for folder in glob.glob(os.path.join(SCRATCH, "worker*")):
        shutil.rmtree(folder)
    os.environ.update(MUTANTS_HOME=os.environ.get("HOME", "/"), TMPDIR="/tmp", HOME="/tmp",
                      CCACHE_DISABLE="1", DTCTL_SRC=SOURCE, DTCTL_BUILD=BUILD, DTCTL_BIN=BIN)
    user = ["--user", "--map-root-user"] if os.getuid() else []
    os.execvp("unshare", ["unshare", *user, "--pid", "--net", "--mount", "--fork", "--kill-child",
                          "--mount-proc", "--propagation", "private", "bash", "-c", script, SCRATCH,
                          os.path.abspath(sys.argv[0]), *sys.argv[1:]])
