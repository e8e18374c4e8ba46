# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a recipe by several systems, in turns: a JSON line each, and one of the means."""
import json
import os
import resource
import statistics
import subprocess
import time

UNITS = ("minutes", "cpu_minutes")


def dttrain(folder, name, keys):
    """Trains with these keys of [train] below `folder`; the last evaluation's top-1 in %."""
    out = os.path.join(folder, name)
    command = ["dttrain"]
    for key, value in {"resume": "never", **keys}.items():
        command += ["--set", f"train.{key}={value}"]
    variables = {k: v for k, v in os.environ.items() if k != "RANK"}
    for kind in ("OUTPUT", "MODEL", "STATE", "CACHE"):
        variables[f"DTCTL_{kind}_DIR"] = os.path.join(out, kind.lower())
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "output/metrics.jsonl"), encoding="utf-8") as f:
        return [row["acc1"] for row in map(json.loads, f) if row["event"] == "eval"][-1]


def peer(command):
    """The accuracy in % that a program prints in its last line."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(out.splitlines()[-1])


def timed(facts, name, seed, run, price):
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, before = time.monotonic(), used.ru_utime + used.ru_stime
    acc1 = run(seed)
    minutes = (time.monotonic() - start) / 60
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {**facts, "what": name, "seed": seed, "minutes": round(minutes, 3),
           "cpu_minutes": round((used.ru_utime + used.ru_stime - before) / 60, 3),
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
