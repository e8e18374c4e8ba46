# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a recipe by several systems, in turns: a JSON line each, and one of the means."""
import json
import os
import statistics
import subprocess
import time

import dttrain_runs

UNITS = ("minutes", "cpu_minutes")


def dttrain(folder, name, keys):
    """Trains with these keys of [train] below `folder`; the last evaluation's top-1 in %."""
    return dttrain_runs.Run(os.path.join(folder, name), keys).rows("eval")[-1]["acc1"]


def peer(command):
    """The accuracy in % that a program prints in its last line."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(out.splitlines()[-1])


def timed(facts, name, seed, run, price):
    start, before = time.monotonic(), dttrain_runs.cpu_seconds()
    acc1 = run(seed)
    minutes = (time.monotonic() - start) / 60
    cpu_minutes = (dttrain_runs.cpu_seconds() - before) / 60
    row = {**facts, "what": name, "seed": seed, "minutes": round(minutes, 3),
           "cpu_minutes": round(cpu_minutes, 3),
           "acc1": round(acc1, 2), "cents": round(minutes / 60 * price * 100, 3)}
    print(json.dumps(row), flush=True)
    return row


def in_turns(facts, runs, seeds, price):
    """runs: {name: function of a seed that returns the accuracy in %}; price: dollars an hour. The
    last line has ratio = the best peer's minutes / the best minutes of a name with dttrain."""
    rows = []
    for i, seed in enumerate(seeds):
        for name in list(runs) if i % 2 == 0 else list(runs)[::-1]:
            rows.append(timed(facts, name, seed, runs[name], price))
    last = {"bench": facts["bench"], "what": "mean", "seeds": len(seeds)}
    for name in runs:
        mine = [row for row in rows if row["what"] == name]
        last[name] = {key: round(statistics.mean(row[key] for row in mine), 3)
                      for key in (*UNITS, "acc1", "cents")}
    ours = [name for name in runs if name.startswith("dttrain")]
    theirs = [name for name in runs if name not in ours]
    if ours and theirs:
        for unit in UNITS:
            best = [min(last[name][unit] for name in names) for names in (theirs, ours)]
            last[unit.replace("minutes", "ratio")] = round(best[0] / best[1], 2)
    print(json.dumps(last))
