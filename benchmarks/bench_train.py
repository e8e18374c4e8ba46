#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One training step of dttrain against PyTorch on the CPU, in one run, in turns.

Seed configuration: ResNet-18 with the ImageNet stem on 32x32 images, ten classes, batch 64 (or
--batch), Adam, the loss read after every step. One process with --threads threads each (default:
all CPUs). PyTorch runs in its usual and in its channels-last layout; the faster one counts. One
JSON line: median milliseconds of a step, images/s, ratio above 1 when dttrain is faster; cpu_ratio
compares processor time, which says more where other work shares the machine. Without PyTorch only
dttrain is measured.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, WARM, ROUNDS = 30, 5, 3
LAYOUTS = ["contiguous_format", "channels_last"]


def peer(layout, batch, threads, stem):
    """PyTorch's side: prints {"ms": median of a step, "cpu_ms": processor time per step}."""
    import torch
    from torch.nn import functional as F
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    "../tests/integration"))
    from train_torch import ResNet18
    torch.set_num_threads(threads)
    model = ResNet18(stem).to(memory_format=getattr(torch, layout)).train()
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    images = torch.rand(batch * 4, 3, 32, 32)
    labels = torch.randint(0, 10, (batch * 4,))
    took, cpu = [], 0
    for step in range(STEPS + WARM):
        if step == WARM:
            cpu = cpu_seconds(resource.RUSAGE_SELF)
        start = time.perf_counter()
        at = step % 4 * batch
        x = images[at:at + batch].to(memory_format=getattr(torch, layout))
        loss = F.cross_entropy(model(x), labels[at:at + batch])
        adam.zero_grad()
        loss.backward()
        adam.step()
        loss.item()
        took.append(time.perf_counter() - start)
    cpu = (cpu_seconds(resource.RUSAGE_SELF) - cpu) / STEPS
    print(json.dumps({"ms": statistics.median(took[WARM:]) * 1e3, "cpu_ms": cpu * 1e3}))


def cpu_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def run_ours(batch, threads, stem, steps):
    """The trainer itself: step times from its metrics, processor time of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "dataset": "shapes", "train_size": batch * steps, "epochs": 1, "batch": batch,
            "threads": threads, "stem": stem, "optimizer": "adam", "eval": "false",
            "print_every": 1, "resume": "never", "checkpoint_every_epochs": 0,
        }
        command = ["dttrain"]
        for key, value in settings.items():
            command += ["--set", f"train.{key}={value}"]
        variables = {k: v for k, v in os.environ.items() if k != "RANK"}
        before = cpu_seconds(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, env=variables, check=True, timeout=600,
                       stdout=subprocess.DEVNULL)
        cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
        with open(os.path.join(folder, "dttrain-output", "metrics.jsonl"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
    return [batch / row["images_per_s"] * 1e3 for row in rows[WARM:]], cpu * 1e3


def ours(batch, threads, stem):
    _, base = run_ours(batch, threads, stem, 1)
    took, cpu = run_ours(batch, threads, stem, STEPS + WARM)
    return {"ms": statistics.median(took), "cpu_ms": (cpu - base) / (STEPS + WARM - 1)}


def run_peer(layout, arguments):
    command = [sys.executable, __file__, "--peer", layout, "--batch", str(arguments.batch),
               "--threads", str(arguments.threads), "--stem", arguments.stem]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600).stdout
    return json.loads(out)


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--stem", default="imagenet")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.peer, arguments.batch, arguments.threads, arguments.stem)
        return
    try:
        import torch
        version = torch.__version__
    except ImportError:
        print("bench_train.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        version = None
    mine, theirs = [], {layout: [] for layout in LAYOUTS}
    for _ in range(ROUNDS):
        mine.append(ours(arguments.batch, arguments.threads, arguments.stem))
        for layout in LAYOUTS if version else []:
            theirs[layout].append(run_peer(layout, arguments))
    record = {
        "bench": "train-step", "model": "resnet18", "stem": arguments.stem,
        "batch": arguments.batch, "threads": arguments.threads, "rounds": ROUNDS,
        "ms": round(median(mine, "ms"), 2), "cpu_ms": round(median(mine, "cpu_ms"), 2),
        "images_per_s": round(arguments.batch / median(mine, "ms") * 1e3, 1),
    }
    if version:
        best = min(LAYOUTS, key=lambda layout: median(theirs[layout], "ms"))
        record.update({
            "torch": version, "torch_layout": best,
            "torch_ms": round(median(theirs[best], "ms"), 2),
            "torch_cpu_ms": round(median(theirs[best], "cpu_ms"), 2),
            "ratio": round(median(theirs[best], "ms") / median(mine, "ms"), 2),
            "cpu_ratio": round(median(theirs[best], "cpu_ms") / median(mine, "cpu_ms"), 2),
        })
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
