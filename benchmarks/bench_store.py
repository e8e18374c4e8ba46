#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dtrun's store against PyTorch's own server, with the same clients, in turns.

The load comes from bench_store (one thread, C) with 1, 8 and 32 clients, and from PyTorch's own
Python client. One JSON line per operation and number of clients; ratio = ours / theirs in
operations per second, above 1 when ours does more; cpu_ratio = theirs / ours in processor time that
an operation costs the server, which other load on the machine hardly disturbs. Without PyTorch it says so and measures nothing.
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 3
MS = 400
CLIENTS = [1, 8, 32]  # PyTorch 2.13 has been seen not to accept the 52nd connection


def torch_server():
    """Child: PyTorch's server until its input ends."""
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    print(store.port, flush=True)
    sys.stdin.read()


def torch_client(port):
    """Child: PyTorch's client; prints {operation: operations per second}."""
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", port, None, False, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=20))
    store.set("key", "v" * 32)
    cases = {"set": lambda: store.set("key", "v" * 32), "get": lambda: store.get("key"),
             "add": lambda: store.add("sum", 1), "check": lambda: store.check(["key"])}
    figures = {}
    for name, call in cases.items():
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < MS / 1000:
            for _ in range(20):
                call()
            count += 20
        store.add("fence", 1)
        figures[name] = count / (time.perf_counter() - start)
    print(json.dumps(figures), flush=True)


def start(command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return child, child.stdout.readline().decode().strip()


def main():
    try:
        import torch
    except ImportError:
        print("bench_store.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        return
    program = os.path.join(os.environ.get("DTCTL_BUILD", "build"), "release", "benchmarks",
                           "bench_store")
    servers = {"ours": start([program, "serve"]),
               "torch": start([sys.executable, __file__, "--server"])}
    figures = {}
    for _ in range(ROUNDS):
        for name, (child, port) in servers.items():
            for clients in CLIENTS:
                out = subprocess.run([program, "load", "127.0.0.1", port, str(clients), str(MS),
                                      str(child.pid)],
                                     stdout=subprocess.PIPE, check=True, timeout=120).stdout
                for line in out.splitlines():
                    r = json.loads(line)
                    figures.setdefault(("C", r["op"], clients), {}).setdefault(name, []).append(
                        (r["ops_per_s"], r["p50_us"], r["p99_us"], r["server_cpu_us"]))
            out = subprocess.run([sys.executable, __file__, "--client", port],
                                 stdout=subprocess.PIPE, check=True, timeout=120).stdout
            for op, rate in json.loads(out.splitlines()[-1]).items():
                figures.setdefault(("python", op, 1), {}).setdefault(name, []).append((rate, 0, 0, 0))
    for child, _ in servers.values():
        child.stdin.close()
        child.wait(20)
    for (client, op, clients), by_server in figures.items():
        mine = [statistics.median(x) for x in zip(*by_server["ours"])]
        theirs = [statistics.median(x) for x in zip(*by_server["torch"])]
        record = {"bench": "store", "client": client, "op": op, "clients": clients,
                  "ops_per_s": round(mine[0]), "torch_ops_per_s": round(theirs[0]),
                  "ratio": round(mine[0] / theirs[0], 2), "rounds": ROUNDS,
                  "torch": torch.__version__}
        if client == "C":
            record.update(p50_us=mine[1], p99_us=mine[2], torch_p50_us=theirs[1],
                          torch_p99_us=theirs[2], server_cpu_us=mine[3],
                          torch_server_cpu_us=theirs[3],
                          cpu_ratio=round(theirs[3] / mine[3], 2))
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    if "--server" in sys.argv:
        torch_server()
    elif "--client" in sys.argv:
        torch_client(int(sys.argv[-1]))
    else:
        main()
