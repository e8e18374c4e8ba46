#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of dttrain against PyTorch on the CPU, in one run, in turns.

    bench_train.py [--case NAME] [--peers NAME,…] [--rounds N] [--seconds S] [--threads N]

Cases: seed (ResNet-18, ImageNet stem, 32x32, batch 64, Adam), cifar (the same with the CIFAR stem),
airbench (the network of the recipe cifar10-94, batch 256, SGD), resnet50 (224x224, batch 8, SGD),
vit_small (patch 16, 224x224, batch 8, AdamW). PyTorch runs as PEERS says, each in a process that
is started once; dttrain runs with both types of train.dtype. A round gives each about S seconds of
steps; rounds take turns. All of it takes about ten minutes.

One JSON line per case: median milliseconds of a step and processor milliseconds for each, start_ms
from the start of the process to the end of its first step, the best peer, and ratio = best peer /
dttrain for both types, in time and in processor time (which says more where other work shares the
machine). share: of the machine's peak of that type, measured by bench_kernels, with the model's
nominal operations (dttrain skips products with padding: its share of a network on small images may
exceed 1). Without PyTorch only dttrain is measured.
"""
import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import dttrain_runs

HERE = os.path.dirname(os.path.abspath(__file__))
WARM = 2
RUN_SECONDS_MAX = 600
# model of dttrain, side of an image, batch, optimizer, GFLOP of one image forward and backward
CASES = {
    "seed": ("resnet18(stem=imagenet)", 32, 64, "adam", 0.217),
    "cifar": ("resnet18(stem=cifar)", 32, 64, "adam", 3.33),
    "airbench": ("airbench", 32, 256, "sgd", 0.71),
    "resnet50": ("resnet50(stem=imagenet)", 224, 8, "sgd", 24.3),
    "vit_small": ("vit_small", 224, 8, "adamw", 27.6),
}
# name: channels last and fused optimizer, bfloat16, torch.compile
PEERS = {"eager": (False, False, False), "channels_last": (True, False, False),
         "bf16": (True, True, False), "compile": (True, False, True)}
TYPES = ("f32", "bf16")


def torch_model(case):
    sys.path.insert(0, os.path.join(HERE, "../tests/integration"))
    if case == "vit_small":
        from train_vit import Vit
        return Vit(dim=384, depth=12, heads=6, size=224)
    if case == "airbench":
        from train_airbench import network
        return network(64)
    from train_torch import ResNet
    name, _, stem = CASES[case][0].rstrip(")").partition("(stem=")
    return ResNet(name, stem)


def peer(case, name, threads):
    """PyTorch's side: for each line N on standard input N steps, and their times in one line."""
    import torch
    from torch.nn import functional as F
    last, bf16, compiled = PEERS[name]
    _, side, batch, kind, _ = CASES[case]
    torch.set_num_threads(threads)
    layout = torch.channels_last if last else torch.contiguous_format
    model = torch_model(case).to(memory_format=layout).train()
    fused = {"fused": True} if last else {}
    optimizer = {"adam": lambda p: torch.optim.Adam(p, 1e-3, **fused),
                 "adamw": lambda p: torch.optim.AdamW(p, 1e-3, **fused),
                 "sgd": lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9, **fused)}[kind](
                     model.parameters())
    run = torch.compile(model) if compiled else model
    images = torch.rand(batch, 3, side, side).to(memory_format=layout)
    labels = torch.randint(0, 10, (batch,))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = run(images)
        loss = F.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    for i in range(WARM):
        step()
        print("ready" if i == WARM - 1 else "warm", flush=True)
    for line in sys.stdin:
        took, before = [], dttrain_runs.cpu_seconds(resource.RUSAGE_SELF)
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            took.append((time.perf_counter() - start) * 1e3)
        cpu = (dttrain_runs.cpu_seconds(resource.RUSAGE_SELF) - before) / len(took) * 1e3
        print(json.dumps({"ms": took, "cpu_ms": cpu}), flush=True)


class Peer:
    def __init__(self, case, name, threads):
        command = [sys.executable, __file__, "--peer", name, "--case", case,
                   "--threads", str(threads)]
        self.name, start = name + "_torch", time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.alive = self.process.stdout.readline() == "warm\n"
        self.start_ms = (time.perf_counter() - start) * 1e3
        self.alive = self.alive and self.process.stdout.readline() == "ready\n"
        if not self.alive:
            print(f"bench_train.py: PyTorch cannot run {case} as {name}", file=sys.stderr)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    """The trainer itself: step times from its metrics, processor time of the whole process."""

    def __init__(self, case, dtype, threads, folder):
        self.name, self.case, self.dtype, self.threads = dtype, case, dtype, threads
        self.folder, self.base, self.start_ms = folder, None, None

    def run(self, steps):
        model, side, batch, optimizer, _ = CASES[self.case]
        keys = {"model": model, "batch": batch, "threads": self.threads, "optimizer": optimizer,
                "dtype": self.dtype, "eval": "false", "print_every": 1, "epochs": 1,
                "flip": "false", "checkpoint_every_epochs": 0}
        if side == 32:
            keys.update({"dataset": "shapes", "train_size": batch * steps})
        else:
            keys.update({"dataset": "packed",
                         "data": dttrain_runs.packed(self.folder, side, batch * steps)})
        run = dttrain_runs.Run(os.path.join(self.folder, "run"), keys, 1, RUN_SECONDS_MAX)
        return run.step_ms(), run.cpu_ms, run.start_ms

    def steps(self, count):
        if self.base is None:
            _, self.base, self.start_ms = dttrain_runs.second(lambda: self.run(1))
        took, cpu, _ = self.run(count + 1)
        return {"ms": took[1:], "cpu_ms": (cpu - self.base) / count}

    def close(self):
        pass


def measure(runners, rounds, seconds):
    """Steps of all, in turns; {name: {"ms": median, "cpu_ms": median of the rounds}}."""
    count, out = {}, {}
    for r in runners:
        count[r.name] = max(2, min(30, round(seconds * 1e3 / statistics.median(r.steps(2)["ms"]))))
    results = {r.name: [] for r in runners}
    for _ in range(rounds):
        for r in runners:
            results[r.name].append(r.steps(count[r.name]))
    for name, rows in results.items():
        out[name] = {"ms": round(statistics.median(ms for row in rows for ms in row["ms"]), 2),
                     "cpu_ms": round(statistics.median(row["cpu_ms"] for row in rows), 2)}
    for r in runners:
        out[r.name]["start_ms"] = round(r.start_ms, 1)
    return out


def peaks(threads):
    """Operations per second of each type, in 1e9."""
    tool = os.path.join(os.environ.get("DTCTL_BUILD", os.path.join(HERE, "../build")),
                        "release/benchmarks/bench_kernels")
    out = subprocess.run([tool, "--threads", str(threads), "--only", "peak"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    row = json.loads(out.splitlines()[0])
    return {"f32": row["gflops"], "bf16": row["gflops_bf16"]}


def bench(case, threads, rounds, seconds, names):
    model, side, batch, optimizer, gflop = CASES[case]
    peak = peaks(threads)
    with tempfile.TemporaryDirectory() as folder:
        ours = [Ours(case, dtype, threads, folder) for dtype in TYPES]
        peers = [Peer(case, name, threads) for name in names]
        alive = [p for p in peers if p.alive]
        mine = measure(ours + alive, rounds, seconds)
        for p in peers:
            p.close()
    theirs = {p.name: mine.pop(p.name) for p in alive}
    record = {"bench": "train-step", "case": case, "model": model, "side": side, "batch": batch,
              "optimizer": optimizer, "threads": threads, "rounds": rounds, "peak_gflops": peak}
    for dtype in TYPES:
        row = dict(mine[dtype], images_per_s=round(batch / mine[dtype]["ms"] * 1e3, 1),
                   share=round(gflop * batch / mine[dtype]["ms"] * 1e3 / peak[dtype], 2))
        for unit in ("ms", "cpu_ms") if theirs else ():
            row[unit.replace("ms", "ratio")] = round(
                min(t[unit] for t in theirs.values()) / mine[dtype][unit], 2)
        record[dtype] = row
    if theirs:
        record.update({"best": min(theirs, key=lambda n: theirs[n]["ms"])},
                      **theirs)
    print(json.dumps(record), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.case, arguments.peer, arguments.threads)
        return
    names = [name for name in arguments.peers.split(",") if name]
    if set(names) - set(PEERS):
        parser.error(f"--peers: {arguments.peers}: some of {','.join(PEERS)}")
    if importlib.util.find_spec("torch") is None:
        print("bench_train.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        names = []
    for case in [arguments.case] if arguments.case else CASES:
        bench(case, arguments.threads, arguments.rounds, arguments.seconds, names)


if __name__ == "__main__":
    main()
