#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dtrun's store against PyTorch's own servers (libuv, its default, and the older one with a thread
that polls), with the same clients, in turns.

The load comes from bench_store (one thread, C) with 1, 8 and 64 clients, each with one request in
flight, as PyTorch's clients have, and with 64, where the kernel's work per packet is shared by many
requests; and from PyTorch's own Python client. Where there are two processors, servers have the
first and clients the second. "floor" is a server that only receives and sends.

One JSON line per operation and load; ratio_* = ours / theirs in operations per second, above 1 when
ours does more; cpu_ratio_* = theirs / ours in processor time that an operation costs the server,
which other load on the machine disturbs less. Without PyTorch it says so and measures nothing.
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 3
MS = 200
LOADS = [(1, 1), (8, 1), (64, 1), (1, 64), (8, 64), (64, 64)]  # clients, requests in flight


def torch_server(use_libuv):
    """Child: PyTorch's server until its input ends."""
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=use_libuv)
    print(store.port, flush=True)
    sys.stdin.read()


def torch_client(port):
    """Child: PyTorch's client; prints {operation: operations per second}."""
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", port, None, False, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=60))
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


def on_processor(i):
    processors = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(processors[i])] if len(processors) > 1 else []


def start(command):
    # PyTorch's server resolves each client's name and blocks all clients meanwhile. Short timeouts
    # bound this where no name server answers.
    resolver = {"RES_OPTIONS": "timeout:1 attempts:1"}
    child = subprocess.Popen(on_processor(0) + command, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env={**os.environ, **resolver})
    return child, child.stdout.readline().decode().strip()


def client(command):
    return subprocess.run(on_processor(1) + command, stdout=subprocess.PIPE, check=True,
                          timeout=300).stdout.splitlines()


def measure(program, child, port, add):
    for clients, depth in LOADS:
        for line in client([program, "load", "127.0.0.1", port, str(clients), str(depth), str(MS),
                            str(child.pid)]):
            r = json.loads(line)
            add(("C", r["op"], clients, depth),
                [r["ops_per_s"], r["p50_us"], r["p99_us"], r["server_cpu_us"]])


def main():
    try:
        import torch
    except ImportError:
        print("bench_store.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        return
    program = os.path.join(os.environ.get("DTCTL_BUILD", "build"), "release", "benchmarks",
                           "bench_store")
    servers = {"dtctl": start([program, "serve"]), "floor": start([program, "floor"]),
               "libuv": start([sys.executable, __file__, "--server", "libuv"]),
               "legacy": start([sys.executable, __file__, "--server", "legacy"])}
    figures = {}
    for _ in range(ROUNDS):
        for name, (child, port) in servers.items():
            def add(case, values, name=name):
                figures.setdefault(case, {}).setdefault(name, []).append(values)
            measure(program, child, port, add)
            if name != "floor":
                out = client([sys.executable, __file__, "--client", port])
                for op, rate in json.loads(out[-1]).items():
                    add(("python", op, 1, 1), [rate])
    for child, _ in servers.values():
        child.stdin.close()
        child.wait(20)
    for (kind, op, clients, depth), by_server in figures.items():
        median = {name: [statistics.median(x) for x in zip(*values)]
                  for name, values in by_server.items()}
        record = {"bench": "store", "client": kind, "op": op, "clients": clients, "depth": depth,
                  "rounds": ROUNDS, "torch": torch.__version__}
        for name, values in median.items():
            for key, value in zip(["ops_per_s", "p50_us", "p99_us", "cpu_us"], values):
                record[f"{name}_{key}"] = round(value, 3 if key == "cpu_us" else 1)
        for peer in ("libuv", "legacy"):
            record[f"ratio_{peer}"] = round(median["dtctl"][0] / median[peer][0], 2)
            if kind == "C":
                record[f"cpu_ratio_{peer}"] = round(median[peer][3] / median["dtctl"][3], 2)
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    if "--server" in sys.argv:
        torch_server(sys.argv[-1] == "libuv")
    elif "--client" in sys.argv:
        torch_client(int(sys.argv[-1]))
    else:
        main()
