# SPDX-License-Identifier: Apache-2.0
"""Runs of dttrain in a benchmark: how it is started, and what it measured."""
import json
import os
import resource
import shutil
import subprocess
import time

RUN_SECONDS_MAX = 4 * 3600


def cpu_seconds(who=resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def words(keys):
    """Arguments for these keys of [train]."""
    return [word for key, value in keys.items() for word in ("--set", f"train.{key}={value}")]


class Run:
    """Trains with these keys of [train], in `out`, which is made anew: dttrain adds to the metrics
    of an earlier run. start_ms: until the first step has ended; cpu_ms: of all its processes."""

    def __init__(self, out, keys, ranks=1, seconds_max=RUN_SECONDS_MAX):
        command = ["timeout", str(seconds_max)]
        if ranks > 1:
            command += ["dtrun", "--standalone", "--nproc-per-node", str(ranks), "--no-python"]
        command += ["dttrain"] + words({"resume": "never", **keys})
        variables = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        for kind in ("OUTPUT", "MODEL", "STATE", "CACHE"):
            variables[f"DTCTL_{kind}_DIR"] = os.path.join(out, kind.lower())
        shutil.rmtree(out, ignore_errors=True)
        self.start_ms, self.images = None, keys.get("batch", 0) * ranks
        before, start = cpu_seconds(), time.perf_counter()
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE,
                              text=True) as process:
            for line in process.stdout:
                if self.start_ms is None and line.startswith("Epoch: [0]["):
                    self.start_ms = (time.perf_counter() - start) * 1e3
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        self.cpu_ms = (cpu_seconds() - before) * 1e3
        with open(os.path.join(out, "output", "metrics.jsonl"), encoding="utf-8") as f:
            self.metrics = [json.loads(line) for line in f]

    def rows(self, event):
        return [row for row in self.metrics if row["event"] == event]

    def step_ms(self):
        """Milliseconds of each step, where every step is printed."""
        return [self.images / row["images_per_s"] * 1e3 for row in self.rows("train")]


def packed(folder, side, images):
    """A file with the pixels of the built-in shapes, made once for each size and number."""
    path = os.path.join(folder, f"{side}-{images}.dtpack")
    if not os.path.exists(path):
        jpegs = os.path.join(folder, f"{side}-{images}")
        for command in (["make-shapes", jpegs, "--images", str(images), "--test-images", "10",
                         "--image-size", str(side)],
                        ["pack", jpegs, path, "--split", "train", "--image-size", str(side)]):
            subprocess.run(["dtctl", "data"] + command, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    return path


def second(run):
    """What run() gives the second time, for what a start costs: in the first one a virtual machine
    gets its memory from the host, which takes seconds of a processor."""
    run()
    return run()
