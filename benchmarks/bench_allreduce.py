#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce of dttrain's collectives against torch.distributed's gloo, in one run, in turns.

Two ranks (or --ranks) on this machine; one JSON line per size and topology: median microseconds of
both, and ratio = gloo / ours, above 1 when ours is faster; cpu_us is processor time of one rank,
which says more where other work shares the machine. With nodes > 1 ours goes over loopback TCP, as
gloo always does. Without PyTorch it says so and measures nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SIZES = [4, 1024, 16384, 262144, 1048576, 26214400, 44726568]  # the last: ResNet-18's gradients
SECONDS_PER_SIZE = 0.6
ROUNDS = 3


def gloo_rank(rank, ranks, sizes, store):
    """One gloo rank; rank 0 prints {bytes: [microseconds, processor microseconds]}."""
    import resource
    import time
    import torch
    import torch.distributed as dist

    def cpu_us():
        used = resource.getrusage(resource.RUSAGE_SELF)
        return (used.ru_utime + used.ru_stime) * 1e6

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    medians = {}
    for size in sizes:
        x = torch.arange(size // 4, dtype=torch.float32) * 1e-6
        runs, took, cpu = 3, [], 0
        for _ in range(2):
            took, cpu = [], cpu_us()
            for _ in range(runs):
                dist.barrier()
                start = time.perf_counter()
                dist.all_reduce(x)
                x /= ranks  # ours gives the mean too
                took.append((time.perf_counter() - start) * 1e6)
            cpu = (cpu_us() - cpu) / runs
            agreed = torch.tensor([SECONDS_PER_SIZE * 1e6 / (statistics.median(took) + 1)])
            dist.broadcast(agreed, 0)
            runs = int(min(400, max(5, agreed.item())))
        medians[size] = [statistics.median(took), cpu]
    if rank == 0:
        print(json.dumps(medians), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run_gloo(ranks, sizes):
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
        command = [sys.executable, __file__, "--ranks", str(ranks), "--store", store]
        for size in sizes:
            command += ["--bytes", str(size)]
        children = [
            subprocess.Popen(command + ["--rank", str(r)], env=environment, stdout=subprocess.PIPE)
            for r in range(ranks)
        ]
        outputs = [child.communicate(timeout=300)[0] for child in children]
        if any(child.returncode for child in children):
            raise SystemExit("gloo failed")
        return {int(k): v for k, v in json.loads(outputs[0]).items()}


def run_ours(program, ranks, nodes, sizes):
    command = [program, "--ranks", str(ranks), "--nodes", str(nodes)]
    for size in sizes:
        command += ["--bytes", str(size)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300).stdout
    records = [json.loads(line) for line in lines.splitlines()]
    return {record["bytes"]: [record["us"], record["cpu_us"]] for record in records}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", type=int, action="append")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = arguments.bytes or SIZES
    if arguments.rank is not None:
        gloo_rank(arguments.rank, arguments.ranks, sizes, arguments.store)
        return
    try:
        import torch
    except ImportError:
        print("bench_allreduce.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        return
    build = os.environ.get("DTCTL_BUILD", "build")
    program = os.path.join(build, "release", "benchmarks", "bench_allreduce")
    topologies = [1] + ([arguments.ranks] if arguments.ranks > 1 else [])
    ours = {(n, s): [] for n in topologies for s in sizes}
    gloo = {s: [] for s in sizes}
    for _ in range(ROUNDS):
        for nodes in topologies:
            for size, us in run_ours(program, arguments.ranks, nodes, sizes).items():
                ours[nodes, size].append(us)
        for size, us in run_gloo(arguments.ranks, sizes).items():
            gloo[size].append(us)
    for nodes in topologies:
        for size in sizes:
            mine, mine_cpu = (statistics.median(v) for v in zip(*ours[nodes, size]))
            theirs, theirs_cpu = (statistics.median(v) for v in zip(*gloo[size]))
            print(json.dumps({
                "bench": "allreduce-gloo", "ranks": arguments.ranks, "nodes": nodes, "bytes": size,
                "us": round(mine, 2), "gloo_us": round(theirs, 2),
                "ratio": round(theirs / mine, 2), "cpu_us": round(mine_cpu, 2),
                "gloo_cpu_us": round(theirs_cpu, 2), "cpu_ratio": round(theirs_cpu / mine_cpu, 2),
                "rounds": ROUNDS, "torch": torch.__version__,
            }), flush=True)


if __name__ == "__main__":
    main()
