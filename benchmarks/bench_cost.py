#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cost of training grows with the batch, the depth, the ranks and the data.

    bench_cost.py [--sweep NAME] [--seconds S] [--rounds N] [--plot FILE.svg] [--from FILE.jsonl]

Sweeps: batch (the seed's ResNet-18 with 8 to 256 images in a step), depth (a vision transformer of
1 to 12 blocks), ranks (the seed's ResNet-18, 64 images of each rank in a step, 1 to 8 ranks with
one thread each on this computer), data (an epoch of an mlp over 2,000 to 128,000 images in a packed
file). A sweep runs N times, up and down in turns; each point trains for about S seconds.

One JSON line per point: value (milliseconds of a step; of the sweep data, of an epoch), cpu_value
(the same of a processor), floor, and ratio = value / floor. The floor is the cost of the largest
point per image or block; of ranks, one rank with as many threads, at most one a processor, that
takes the same images in a step; of data, the cost of an image in the smallest set. predicted: the
step as `dttrain --plan` predicts it. --plot draws all points; with --from, those of an earlier run.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import dttrain_runs

CPUS = len(os.sched_getaffinity(0))
SIDE = 32
SEED_MODEL = "resnet18(stem=imagenet)"
STEPS_MIN, STEPS_MAX = 3, 200
RUN_SECONDS_MAX = 600
SWEEPS = {
    "batch": ([8, 16, 32, 64, 128, 256], "images in a step", "ms a step"),
    "depth": ([1, 2, 4, 8, 12], "blocks", "ms a step"),
    "ranks": ([1, 2, 4, 8], "ranks", "ms a step"),
    "data": ([2000, 8000, 32000, 128000], "images", "ms an epoch"),
}


def settings_of(sweep, x, folder):
    """Keys of [train] for a point, without its number of images."""
    keys = {"model": SEED_MODEL, "batch": 64, "threads": CPUS, "optimizer": "adam", "eval": "false",
            "print_every": 1, "epochs": 1, "flip": "false",
            "checkpoint_every_epochs": 0, "dataset": "shapes"}
    if sweep == "batch":
        keys["batch"] = x
    elif sweep == "depth":
        keys.update(model=f"vit(dim=192,depth={x},heads=3,patch=4)", batch=32)
    elif sweep == "ranks":
        keys.update(threads=1)
    else:
        keys.update(model="mlp", batch=250, dataset="packed",
                    data=dttrain_runs.packed(folder, SIDE, x))
    return keys


def predicted(keys, ranks, folder):
    out = subprocess.run(["dttrain", "--plan", "--json", "--ranks", str(ranks), "--ranks-per-node",
                          str(ranks)] + dttrain_runs.words(keys), check=True, cwd=folder,
                         stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS_MAX).stdout
    return json.loads(out)["predicted_step_ms"]


class Point:
    """peer: one rank that does the work of x ranks, with as many threads."""

    def __init__(self, sweep, x, seconds, folder, peer=False):
        self.sweep, self.x, self.folder, self.values, self.cpu = sweep, x, folder, [], []
        self.ranks = x if sweep == "ranks" and not peer else 1
        self.keys = settings_of(sweep, x, folder)
        if peer:
            self.keys.update(batch=self.keys["batch"] * x, threads=min(x, CPUS))
        self.peer = Point(sweep, x, seconds, folder, True) if self.ranks > 1 else None
        self.predicted = None
        if sweep == "data":
            return
        self.predicted = predicted(self.keys, self.ranks, folder)
        steps = round(seconds * 1e3 / max(self.predicted, 1e-3))
        self.steps = max(STEPS_MIN, min(STEPS_MAX, steps))
        one_step = self.keys["batch"] * self.ranks
        self.start = dttrain_runs.second(lambda: self.run(train_size=one_step)).cpu_ms

    def run(self, **more):
        return dttrain_runs.Run(os.path.join(self.folder, "run"), {**self.keys, **more},
                                self.ranks, RUN_SECONDS_MAX)

    def measure(self):
        if self.sweep == "data":
            run = self.run()
            value, cpu = sum(run.step_ms()), run.cpu_ms
        else:
            run = self.run(train_size=(self.steps + 1) * self.keys["batch"] * self.ranks)
            value = statistics.median(run.step_ms()[1:])
            cpu = (run.cpu_ms - self.start) / self.steps
        self.values.append(value)
        self.cpu.append(cpu)
        if self.peer:
            self.peer.measure()

    def row(self):
        row = {"bench": "cost", "sweep": self.sweep, "x": self.x,
               "value": round(statistics.median(self.values), 2),
               "cpu_value": round(statistics.median(self.cpu), 2), "cpus": CPUS}
        if self.predicted:
            row["predicted"] = round(self.predicted, 2)
        if self.sweep == "ranks":
            row["floor"] = round(statistics.median((self.peer or self).values), 2)
        return row


def with_floors(sweep, rows):
    first, last = rows[0], rows[-1]
    for row in rows:
        base = first if sweep == "data" else last
        if sweep != "ranks":
            row["floor"] = round(base["value"] * row["x"] / base["x"], 2)
        row["ratio"] = round(row["value"] / row["floor"], 2)
    return rows


def measure(sweep, seconds, rounds):
    with tempfile.TemporaryDirectory() as folder:
        points = [Point(sweep, x, seconds, folder) for x in SWEEPS[sweep][0]]
        for i in range(rounds):
            for point in points if i % 2 == 0 else points[::-1]:
                point.measure()
        return with_floors(sweep, [point.row() for point in points])


# ---- the picture ---------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 300, 64, 16, 34, 46  # of a panel, and its edges
SERIES = (("value", "measured", "#1f4e8c", ""),
          ("predicted", "predicted by --plan", "#b3541e", "6 4"),
          ("floor", "floor", "#777777", "2 3"))


def ticks(least, most):
    """Powers of ten and their double and fivefold, at least one on either side."""
    values, power = [], 1e-3
    while power < most * 10:
        values += [power, 2 * power, 5 * power]
        power *= 10
    below = max(v for v in values if v <= least)
    above = min(v for v in values if v >= most)
    inside = [v for v in values if below <= v <= above]
    return inside if len(inside) < 8 else [v for v in inside if f"{v:e}"[0] == "1"]


def panel(sweep, rows, left, top):
    xs = [row["x"] for row in rows]
    ys = [row[key] for row in rows for key, *_ in SERIES if row.get(key)]
    marks = ticks(min(ys), max(ys))
    low, high = min(marks + [min(ys)]), max(marks + [max(ys)])

    def at(x, y):
        across = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(y / low) / math.log(high / low)
        return (left + LEFT + across * (WIDTH - LEFT - RIGHT),
                top + HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))

    _, x_name, y_name = SWEEPS[sweep]
    out = [f'<text x="{left + LEFT}" y="{top + 20}" font-weight="bold">{sweep}: {y_name}</text>']
    for mark in marks:
        (a, y), (b, _) = at(xs[0], mark), at(xs[-1], mark)
        out.append(f'<line x1="{a:.1f}" y1="{y:.1f}" x2="{b:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
                   f'<text x="{a - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for x in xs:
        a, y = at(x, low)
        out.append(f'<text x="{a:.1f}" y="{y + 16:.1f}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{left + (LEFT + WIDTH - RIGHT) / 2:.1f}" y="{top + HEIGHT - 10}" '
               f'text-anchor="middle">{x_name}</text>')
    for key, _, colour, dash in SERIES:
        points = [at(row["x"], row[key]) for row in rows if row.get(key)]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5" '
                   f'stroke-dasharray="{dash}"/>')
        if key == "value":
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
    return out


def plot(rows, path):
    sweeps = [s for s in SWEEPS if any(row["sweep"] == s for row in rows)]
    lines, height = [], (len(sweeps) + 1) // 2 * HEIGHT + 40
    for i, sweep in enumerate(sweeps):
        lines += panel(sweep, [row for row in rows if row["sweep"] == sweep], i % 2 * WIDTH,
                       i // 2 * HEIGHT)
    for i, (_, name, colour, dash) in enumerate(SERIES):
        x, y = LEFT + i * 190, height - 16
        lines.append(f'<line x1="{x}" y1="{y}" x2="{x + 30}" y2="{y}" stroke="{colour}" '
                     f'stroke-width="1.5" stroke-dasharray="{dash}"/>'
                     f'<text x="{x + 36}" y="{y + 4}">{name}</text>')
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{height}" '
                'font-family="sans-serif" font-size="12">\n'
                '<rect width="100%" height="100%" fill="white"/>\n')
        f.write("\n".join(lines) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", choices=SWEEPS)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--from", dest="rows", metavar="FILE.jsonl")
    arguments = parser.parse_args()
    if arguments.rows:
        with open(arguments.rows, encoding="utf-8") as f:
            rows = [row for row in map(json.loads, f) if row["bench"] == "cost"]
        if not rows:
            sys.exit(f"bench_cost.py: {arguments.rows} has no line of this benchmark")
    else:
        rows = []
        for sweep in [arguments.sweep] if arguments.sweep else SWEEPS:
            found = measure(sweep, arguments.seconds, arguments.rounds)
            for row in found:
                print(json.dumps(row), flush=True)
            rows += found
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
