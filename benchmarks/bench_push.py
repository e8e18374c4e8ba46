#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Push against scp and rsync, over one OpenSSH server on this machine, in turns.

Cases: one large file that cannot be compressed, one that can, 10,000 small files, and the same
again when nothing has changed; directly, and behind 20 ms of round trip (tests/tools/delay_proxy).
Source and destination lie in memory (/dev/shm), so that the disk is not what is measured. All use
the same key, and the cipher the client prefers. One JSON line per case: seconds (median of ROUNDS)
and ratio = theirs / ours, above 1 when ours is faster. Nothing is left behind.

scp needs several round trips per file, a quarter of an hour for 10,000 of them: behind the delay it
gets a hundredth of the files, and its figure is a hundred times that (scp_sampled says so).
"""
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
LARGE_BYTES = 256 << 20
RTT_MS = 20
SAMPLE = 100  # folders of small files
SRC = os.environ.get("DTCTL_SRC", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("DTCTL_BUILD", os.path.join(SRC, "build"))
BIN = os.environ.get("DTCTL_BIN", os.path.join(SRC, "bin"))
TOOLS = os.path.join(BUILD, "release/tests/tools")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")


class Server:
    """sshd with keys of its own on a port of its own, and a delay proxy before it."""

    def __init__(self, top):
        self.top, self.port, self.far_port = top, free_port(), free_port()
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{top}/{name}")
        shutil.copy(f"{top}/user.pub", f"{top}/authorized")
        with open(f"{top}/host.pub", encoding="ascii") as f:
            key = " ".join(f.read().split()[:2])
        with open(f"{top}/known", "w", encoding="ascii") as f:
            for port in (self.port, self.far_port):
                f.write(f"[127.0.0.1]:{port} {key}\n")
        with open(f"{top}/config", "w", encoding="ascii") as f:
            f.write(f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {top}/host\n"
                    f"AuthorizedKeysFile {top}/authorized\nPidFile none\nStrictModes no\n"
                    "UsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
                    "Subsystem sftp internal-sftp\n")
        os.makedirs("/run/sshd", exist_ok=True)
        self.children = [subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", f"{top}/config"],
                                          stderr=subprocess.DEVNULL)]
        proxy = subprocess.Popen([f"{TOOLS}/delay_proxy", str(self.far_port), f"127.0.0.1:{self.port}",
                                  str(RTT_MS // 2)], stdout=subprocess.PIPE)
        self.children.append(proxy)
        proxy.stdout.readline()
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("sshd does not start")

    def stop(self):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
            child.wait()


def make_sources(top):
    rng = random.Random(1)
    os.makedirs(f"{top}/random")
    with open(f"{top}/random/file", "wb") as f:
        for _ in range(LARGE_BYTES >> 20):
            f.write(rng.randbytes(1 << 20))
    os.makedirs(f"{top}/text")
    words = [bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
             for _ in range(5000)]
    with open(f"{top}/text/file", "wb") as f:
        while f.tell() < LARGE_BYTES:
            f.write(b" ".join(rng.choices(words, k=20000)) + b"\n")
    for i in range(SAMPLE * 100):
        folder = f"{top}/small/{i // 100}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{i}.py", "wb") as f:
            f.write(b" ".join(rng.choices(words, k=rng.randint(20, 1200))))
    shutil.copytree(f"{top}/small/0", f"{top}/sample")


def commands(top, port, source):
    """What each program is called with, for a destination that is there or not."""
    identity, known = f"{top}/user", f"{top}/known"
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    options = ["-i", identity, "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes", "-F",
               "none"]
    shell = " ".join(["ssh", "-p", str(port)] + options)
    return {
        "dtctl": [f"{TOOLS}/remote_drive", "--config", "none", "--identity", identity,
                  "--known-hosts", known, "--port", str(port), "--cache", f"{top}/hashes",
                  "--replace", "push", "127.0.0.1", f"{BIN}/dtrun", f"{top}/node", "data",
                  f"{source}/"],
        "scp": ["scp", "-q", "-r", "-P", str(port)] + options +
               [source, f"{user}@127.0.0.1:{top}/scp"],
        "rsync": ["rsync", "-a", "-e", shell, f"{source}/", f"{user}@127.0.0.1:{top}/rsync/"],
    }


def clear(top):
    for name in ("node/data", "node/cas", "scp", "rsync"):
        shutil.rmtree(f"{top}/{name}", ignore_errors=True)


def same(a, b):
    return subprocess.run(["diff", "-rq", a, b], stdout=subprocess.DEVNULL).returncode == 0


def measure(top, port, source, again, sampled):
    """Seconds of each program, in turns."""
    seconds = {"dtctl": [], "scp": [], "rsync": []}
    for _ in range(ROUNDS):
        clear(top)
        for name, command in commands(top, port, source).items():
            scale = 1
            if name == "scp" and sampled:
                scale = SAMPLE
                command[command.index(source)] = f"{top}/sample"
            elif again and name != "scp":  # scp cannot tell what is there
                run(*command)
            start = time.perf_counter()
            run(*command)
            seconds[name].append((time.perf_counter() - start) * scale)
        for folder in ("node/data", "rsync") if sampled else ("node/data", "scp", "rsync"):
            if not same(source, f"{top}/{folder}"):
                sys.exit(f"{folder} is not what was sent")
    return {name: statistics.median(values) for name, values in seconds.items()}


def main():
    for program in ("/usr/sbin/sshd", "scp", "rsync"):
        if not shutil.which(program):
            print(f"bench_push.py: {program} is not installed", file=sys.stderr)
            return
    run("make", "-s", "-C", SRC, f"BUILD={BUILD}", "MODE=release", f"{TOOLS}/remote_drive",
        f"{TOOLS}/delay_proxy")
    top = tempfile.mkdtemp(prefix="bench_push.", dir="/dev/shm")
    os.chmod(top, 0o755)
    server = Server(top)
    try:
        make_sources(top)
        # The agent is there beforehand, as after `dtctl up`.
        push = commands(top, server.port, "")["dtctl"]
        run(*push[:push.index("--replace")], "hello", "127.0.0.1", f"{BIN}/dtrun", f"{top}/node")
        for rtt, port in ((0, server.port), (RTT_MS, server.far_port)):
            for case, source, again in (("large-random", "random", False),
                                        ("large-text", "text", False),
                                        ("small-10000", "small", False),
                                        ("small-10000-again", "small", True)):
                sampled = source == "small" and rtt > 0
                s = measure(top, port, f"{top}/{source}", again, sampled)
                print(json.dumps({
                    "bench": "push", "case": case, "rtt_ms": rtt,
                    "bytes": LARGE_BYTES if "large" in case else None,
                    "dtctl_s": round(s["dtctl"], 3), "scp_s": round(s["scp"], 3),
                    "rsync_s": round(s["rsync"], 3), "scp_sampled": sampled,
                    "ratio_scp": round(s["scp"] / s["dtctl"], 2),
                    "ratio_rsync": round(s["rsync"] / s["dtctl"], 2)}), flush=True)
    finally:
        server.stop()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
