#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dtctl push` and `dtctl fetch` beside scp and rsync: one node with a real OpenSSH server, in turns.

The programs are called as users call them, on a cluster that is up. All use the same server, key
and cipher (AES-256-GCM). Source and destination lie in memory; nobody calls fsync. Every file was
read before. Before each run the destination is gone, and with it what dtctl keeps on both sides:
its store of content, and its caches of hashes, so that it hashes everything anew (not in the case
"again", where all programs find everything in place and scp, which cannot tell, takes no part).

Cases: one large file of random bytes, one of text, 10,000 small files of text, these again; nearby
(loopback) and behind 20 ms of round trip (tests/tools/delay_proxy, a relay that holds every byte for
10 ms each way and has no limit of its own; one TCP connection ends and another begins there).

One JSON line per case: seconds, the median of ROUNDS; processor seconds of the client and of
everything below the server; ratio = theirs / ours, above 1 when ours is faster. It needs root, for
namespaces of its own. scp takes several round trips per small file, minutes for all of them: it is
timed with two small numbers of files, and its figure is the line through both (scp_sampled).
"""
import json
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import namespaces

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
LARGE_BYTES = int(os.environ.get("BENCH_LARGE_MB", "256")) << 20
RTT_MS = 20
FILES, FOLDERS = 10000, 100  # small ones
SAMPLES = {0: (500, 2500), RTT_MS: (10, 40)}  # files that scp gets instead
CIPHER = "aes256-gcm@openssh.com"
SRC = os.environ.get("DTCTL_SRC", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("DTCTL_BUILD", os.path.join(SRC, "build"))
BIN = os.environ.get("DTCTL_BIN", os.path.join(SRC, "bin"))
PROXY = os.path.join(BUILD, "release/tests/tools/delay_proxy")
NEAR, FAR = 2201, 2202  # ports, in a network namespace of our own
PROGRAMS = ("dtctl", "scp", "rsync")


def run(*command, cwd=None):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, cwd=cwd)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")


class Node:
    """sshd whose sessions have a home folder of their own, and a delay before it."""

    def __init__(self, top):
        self.home, user = f"{top}/node", f"{top}/home/.ssh/id_ed25519"
        os.makedirs(f"{self.home}/.ssh")
        os.makedirs(os.path.dirname(user))
        for path in (f"{top}/host", user):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
        shutil.copy(f"{user}.pub", f"{self.home}/.ssh/authorized_keys")
        with open(f"{top}/host.pub", encoding="ascii") as f:
            key = " ".join(f.read().split()[:2])
        with open(f"{top}/home/.ssh/known_hosts", "w", encoding="ascii") as f:
            f.writelines(f"[127.0.0.1]:{port} {key}\n" for port in (NEAR, FAR))
        with open(f"{top}/sshd_config", "w", encoding="ascii") as f:
            f.write(f"Port {NEAR}\nListenAddress 127.0.0.1\nHostKey {top}/host\nPidFile none\n"
                    "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                    "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n")
        os.makedirs("/run/sshd", exist_ok=True)
        inside = 'mount --bind "$1" "$2" && cd / && exec env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin ' \
                 '/usr/sbin/sshd -D -e -f "$3"'
        root_home = os.path.expanduser("~root")
        self.sshd = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", self.home,
             root_home, f"{top}/sshd_config"], stderr=subprocess.DEVNULL)
        self.proxy = subprocess.Popen([PROXY, str(FAR), f"127.0.0.1:{NEAR}", str(RTT_MS // 2)],
                                      stdout=subprocess.PIPE)
        self.proxy.stdout.readline()
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", NEAR), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("sshd does not start")

    def cpu(self):
        """Processor seconds of everything below sshd that has ended."""
        with open(f"/proc/{self.sshd.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for child in (self.sshd, self.proxy):
            child.send_signal(signal.SIGTERM)
            child.wait()


def make_sources(top):
    rng = random.Random(1)
    os.makedirs(f"{top}/random")
    with open(f"{top}/random/file", "wb") as f:
        for _ in range(LARGE_BYTES >> 20):
            f.write(rng.randbytes(1 << 20))
    words = [bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
             for _ in range(5000)]
    os.makedirs(f"{top}/text")
    with open(f"{top}/text/file", "wb") as f:
        while f.tell() < LARGE_BYTES:
            f.write(b" ".join(rng.choices(words, k=20000)) + b"\n")
    for i in range(FILES):
        folder = f"{top}/small/{i // (FILES // FOLDERS)}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{i}.py", "wb") as f:
            f.write(b" ".join(rng.choices(words, k=rng.randint(20, 1200))))
    for count in {count for pair in SAMPLES.values() for count in pair}:
        for i in range(count):
            part = f"{i // (FILES // FOLDERS)}/{i}.py"
            os.makedirs(os.path.dirname(f"{top}/sample-{count}/{part}"), exist_ok=True)
            shutil.copy(f"{top}/small/{part}", f"{top}/sample-{count}/{part}")


def make_cluster(top, port):
    """A cluster of one node, up."""
    folder = f"{top}/cluster-{port}"
    os.makedirs(folder)
    with open(f"{folder}/dtctl.toml", "w", encoding="ascii") as f:
        f.write(f'[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@127.0.0.1:{port}"]\n')
    run(f"{BIN}/dtctl", "up", cwd=folder)
    with open(f"{folder}/.dtctl/default/cluster.toml", encoding="ascii") as f:
        names = [line.split('"')[1] for line in f if line.startswith("name") and '"' in line]
    return folder, names[-1]


def commands(top, port, node, verb, source):
    """What each program is called with, and where the files end up."""
    options = ["-F", "none", "-o", "BatchMode=yes", "-o", f"Ciphers={CIPHER}", "-o",
               f"UserKnownHostsFile={top}/home/.ssh/known_hosts", "-i",
               f"{top}/home/.ssh/id_ed25519"]
    shell = " ".join(["ssh", "-p", str(port)] + options)
    far, here = f"root@127.0.0.1:{top}", f"{top}/{source}"
    scp = ["scp", "-q", "-r", "-P", str(port)] + options
    rsync = ["rsync", "-a", "-e", shell]
    if verb == "push":
        return {"dtctl": ([f"{BIN}/dtctl", "push", f"{here}/", "--to", f"{top}/to-dtctl"],
                          f"{top}/to-dtctl"),
                "scp": (scp + [here, f"{far}/to-scp"], f"{top}/to-scp"),
                "rsync": (rsync + [f"{here}/", f"{far}/to-rsync/"], f"{top}/to-rsync")}
    return {"dtctl": ([f"{BIN}/dtctl", "fetch", "--path", f"{here}/", "--to", f"{top}/to-dtctl"],
                      f"{top}/to-dtctl/{node}"),
            "scp": (scp + [f"{far}/{source}", f"{top}/to-scp"], f"{top}/to-scp"),
            "rsync": (rsync + [f"{far}/{source}/", f"{top}/to-rsync/"], f"{top}/to-rsync")}


def clear(top, cluster):
    for path in [f"{top}/to-{name}" for name in PROGRAMS] + [f"{top}/node/.dtctl/cas"]:
        shutil.rmtree(path, ignore_errors=True)
    for path in (f"{top}/node/.dtctl/hashes", f"{cluster}/.dtctl/default/hashes"):
        if os.path.exists(path):
            os.unlink(path)


def same(a, b):
    return subprocess.run(["diff", "-rq", a, b], stdout=subprocess.DEVNULL).returncode == 0


def timed(node, command, cwd):
    """Seconds, and processor seconds of both sides."""
    before, far = resource.getrusage(resource.RUSAGE_CHILDREN), node.cpu()
    start = time.perf_counter()
    run(*command, cwd=cwd)
    seconds = time.perf_counter() - start
    time.sleep(0.03)  # the server's processes end after their client
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            node.cpu() - far)


def one(top, node, cluster, port, program, verb, source, again):
    """One run of one program, checked."""
    folder, name = cluster
    command, to = commands(top, port, name, verb, source)[program]
    if again:
        run(*command, cwd=folder)
    figures = timed(node, command, folder)
    if not same(f"{top}/{source}", to):
        sys.exit(f"{to} is not what was sent")
    shutil.rmtree(to)
    return figures


def sampled(few, more, n, m):
    """What FILES files take, when n take few and m take more."""
    return tuple(a + (b - a) * (FILES - n) / (m - n) for a, b in zip(few, more))


def measure(top, node, cluster, port, rtt, verb, source, again):
    """Medians of each program, in turns."""
    figures = {}
    for _ in range(ROUNDS):
        clear(top, cluster[0])
        for program in PROGRAMS:
            if program == "scp" and source == "small":
                if again:
                    continue
                two = [one(top, node, cluster, port, program, verb, f"sample-{count}", False)
                       for count in SAMPLES[rtt]]
                result = sampled(*two, *SAMPLES[rtt])
            else:
                result = one(top, node, cluster, port, program, verb, source, again)
            figures.setdefault(program, []).append(result)
    return {program: [statistics.median(v) for v in zip(*rounds)]
            for program, rounds in figures.items()}


def report(verb, case, rtt, figures):
    line = {"bench": "push", "verb": verb, "case": case, "rtt_ms": rtt, "rounds": ROUNDS,
            "cipher": CIPHER}
    for program, (seconds, client, far) in figures.items():
        line[f"{program}_s"] = round(seconds, 3)
        line[f"{program}_cpu_s"] = round(client, 3)
        line[f"{program}_far_cpu_s"] = round(far, 2)
    for program in PROGRAMS[1:]:
        if program in figures:
            line[f"ratio_{program}"] = round(figures[program][0] / figures["dtctl"][0], 2)
            line[f"cpu_ratio_{program}"] = round(
                sum(figures[program][1:]) / sum(figures["dtctl"][1:]), 2)
    if "scp" in figures:
        line["scp_sampled"] = case.startswith("small")
    print(json.dumps(line), flush=True)


CASES = [("push", "large-random", "random", False), ("push", "large-text", "text", False),
         ("push", "small-10000", "small", False), ("push", "small-10000-again", "small", True),
         ("fetch", "large-random", "random", False), ("fetch", "small-10000", "small", False)]


def main():
    for program in ("/usr/sbin/sshd", "scp", "rsync", "unshare", "ip"):
        if not shutil.which(program):
            print(f"bench_push.py: {program} is not installed", file=sys.stderr)
            return
    if os.getuid() != 0:
        print("bench_push.py: namespaces need root", file=sys.stderr)
        return
    namespaces.enter()
    run("make", "-s", "-C", SRC, f"BUILD={BUILD}", "MODE=release", PROXY)
    top = tempfile.mkdtemp(prefix="bench_push.", dir="/dev/shm")
    os.chmod(top, 0o755)
    os.environ["HOME"] = f"{top}/home"
    node = Node(top)
    try:
        make_sources(top)
        for rtt, port in ((0, NEAR), (RTT_MS, FAR)):
            cluster = make_cluster(top, port)
            for verb, case, source, again in CASES:
                report(verb, case, rtt,
                       measure(top, node, cluster, port, rtt, verb, source, again))
    finally:
        node.stop()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
