# SPDX-License-Identifier: Apache-2.0
"""Which tests are to notice a change of a source, and how long each takes unchanged."""
import collections
import glob
import itertools
import json
import os
import re
import subprocess
import threading
import time

from mutation.machine import BUILD, REAP, SCRATCH, SOURCE, UNCHANGED
from mutation.programs import mode_of

SECONDS_MAX = float(os.environ.get("SECONDS_MAX") or 20)
SECONDS_ALL = float(os.environ.get("SECONDS_ALL") or 60)
WALL_MORE = 5  # on a busy machine
# Scripts that use a layer through the programs, and take few seconds.
OPERATOR = ["use_messages", "use_init", "use_exec", "up_questions", "down_results"]
TRAINS = ["train_command", "train_disk", "train_results"]
PUSHES = ["push_local", "push_gc"]
NODES = ["dtrun_flags", "dtrun"]
AGENTS = ["dtrun_agents", "dtrun_notice", "dtrun_node", "dtrun_stuck"]
STREAMS = ["train_stream", "train_stream_files"]
OBJECTS = ["use_data_index", "push_account", "push_objects", "train_objects"]
SCRIPTS = {
    "cmd/dtctl": OPERATOR + ["use_plan", "use_logs", "use_stop"] + TRAINS + PUSHES,
    "cmd/dtrun": NODES + TRAINS[:1], "cmd/dttrain": ["train_pipeline", "train_resume", "use_bench"],
    "base": OPERATOR[:1] + TRAINS[:1], "sys": OPERATOR[:1] + TRAINS[:1] + PUSHES[:1],
    "conf": ["use_init", "use_environment", "use_plan"], "convert": ["use_import"],
    "protocol": TRAINS[:1] + NODES, "channel": NODES, "cluster": ["use_plan", "up_kept"] + OPERATOR,
    "lifecycle": OPERATOR, "ui": OPERATOR[:3], "fleet": TRAINS + OPERATOR[3:],
    "follow": ["use_logs", "train_results", "use_watch"], "provider": OPERATOR[3:] + ["use_plan"],
    "run": TRAINS + ["use_logs", "train_data", "train_inputs", "train_input_lists"],
    "node": TRAINS + PUSHES + ["use_stop"], "xfer": PUSHES, "content": PUSHES, "remote": PUSHES[:1],
    "agent": NODES + TRAINS[:1] + AGENTS, "rendezvous": NODES + TRAINS[:1] + AGENTS,
    "worker": NODES + TRAINS[:1], "launch": NODES + TRAINS[:1], "tcpstore": NODES[1:],
    "copies": ["train_redeal"], "aws": ["aws_plan"], "terraform": ["aws_plan"],
    "nn": ["train_pipeline"], "trainer": ["train_pipeline", "use_bench"], "comm": ["use_bench"],
    "data": ["train_data", "use_data_index"], "stream": STREAMS,
    "object": ["use_unread"] + STREAMS[:1] + OBJECTS, "cmd/dtdata": STREAMS[:1] + OBJECTS,
}
COMMAND_SCRIPTS_MAX = 4
USERS_MAX = 3  # layers; a module that more of them use has tests of its own


def includes(path):
    try:
        with open(os.path.join(SOURCE, path)) as f:
            return set(re.findall(r'^\s*#\s*include\s+"([^"]+)"', f.read(), re.M))
    except OSError:
        return set()


def folder_of(path):
    parts = path.split("/")
    if parts[0] == "kernels":
        return "kernels"
    return "/".join(parts[1:-1]) if parts[0] == "lib" else "/".join(parts[:-1])


def users_of():
    """The layers that include each header, other than its own."""
    users = collections.defaultdict(set)
    for folder, _, names in os.walk(os.path.join(SOURCE, "lib")):
        layer = os.path.relpath(folder, os.path.join(SOURCE, "lib")).split("/")[0]
        for name in names:
            for header in includes(os.path.join(folder, name)) if name[-2:] in (".c", ".h") else ():
                if header.split("/")[0] != layer:
                    users[header].add(layer)
    return users


def scripts_of(path, layer):
    """First those that are called as the file is, then the shortest that run the command."""
    stem = re.sub(r"^cmd_", "", os.path.splitext(os.path.basename(path))[0])
    command = re.match(r"cmd/dtctl/(?:cmd_)?([a-z]+)", path)
    runs = command and re.compile(r"\bdtctl (?:-\S+ )*%s\b" % command.group(1))
    named, found = [], []
    for script in sorted(glob.glob(os.path.join(SOURCE, "tests/integration/*.t"))):
        name = os.path.basename(script)[:-2]
        with open(script) as f:
            text = f.read()
        if "cloud.sh" in text:
            continue
        if name.endswith("_" + stem):
            named.append(name)
        if runs and runs.search(text):
            found.append((len(text), name))
    found = [name for _, name in sorted(found)[:COMMAND_SCRIPTS_MAX]]
    return list(dict.fromkeys(named + found + SCRIPTS.get(layer, [])))


def tests_of(path, tests, users):
    """Tests that name the module's header, of its layer, of layers that use it, and scripts."""
    folder = folder_of(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    headers = {"%s/%s.h" % (folder, s) for s in (stem, stem.rsplit("_", 1)[0], stem.split("_")[0])}
    used_by = set().union(*(users[h] for h in headers))
    headers |= {h for h in includes(path) if h.startswith(folder + "/")}
    # The inside of a module is tested from outside.
    headers |= {h.replace("_impl.h", ".h") for h in headers}
    near = [t for t, used in tests.items() if used & headers]
    layer = folder if path.startswith("cmd/") else folder.split("/")[0]
    same = [t for t in tests if t not in near and "/%s/" % layer.split("/")[0] in t]
    if not near and not same:
        same = [t for t, used in tests.items() if any(u.startswith(folder + "/") for u in used)]
    using = [t for t in tests if t not in near + same and len(used_by) <= USERS_MAX and
             t.split("/")[-2] in used_by]
    return near, same, using, ["tests/integration/%s.t" % s for s in scripts_of(path, layer)]


class Seconds:
    """What each test takes unchanged, (processor, wall); None: it fails, or is too slow."""

    def __init__(self):
        self.cache = os.path.join(SCRATCH, "seconds.json")
        self.lock = threading.Lock()
        self.locks = collections.defaultdict(threading.Lock)
        try:
            with open(self.cache) as f:
                self.known = json.load(f)
        except (OSError, ValueError):
            self.known = {}

    def __getitem__(self, test):
        program = os.path.join(SOURCE, test) if test.endswith(".t") else os.path.join(
            BUILD, mode_of(test), test)
        meets = glob.glob(UNCHANGED + "/dt*") if test.endswith(".t") else []
        made = max(os.stat(f).st_mtime_ns for f in [program, *meets])
        with self.lock:
            lock = self.locks[test]
        with lock:
            if test not in self.known or self.known[test][0] != made:
                self.known[test] = [made, measure(program)]
                if not self.known[test][1]:
                    print("# left out: " + test, flush=True)
                with self.lock, open(self.cache, "w") as f:
                    json.dump(dict(self.known), f)
        return self.known[test][1]


def measure(program):
    began = time.monotonic()
    line = subprocess.run(["bash", "-c", 'TIMEFORMAT="%U %S"; time "$@" >/tmp/x.$$ 2>&1', "x", REAP,
                           "%d" % (WALL_MORE * SECONDS_MAX), program], cwd=SOURCE, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env={**os.environ, "DTCTL_BIN": UNCHANGED})
    used = sum(float(x) for x in line.stderr.split("\n")[-2].split())
    good = line.returncode == 0 and used <= SECONDS_MAX
    return [used, time.monotonic() - began] if good else None


def chosen_of(path, tests, users, seconds):
    """One after the other: a test is measured when it is needed. Scripts are in order already."""
    count, total = 0, 0
    *units, scripts = tests_of(path, tests, users)
    units = (sorted(group, key=lambda t: seconds[t] or [0]) for group in units)
    for t in itertools.chain(itertools.chain.from_iterable(units), scripts):
        total += seconds[t][0] if seconds[t] else 0
        if seconds[t] and (count == 0 or total <= SECONDS_ALL):
            count += 1
            yield t
