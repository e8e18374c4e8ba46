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

from mutation.machine import REAP, SCRATCH, SOURCE, UNCHANGED
from mutation.programs import command_of, environment_of, program_of

SECONDS_MAX = float(os.environ.get("SECONDS_MAX") or 20)
SECONDS_ALL = float(os.environ.get("SECONDS_ALL") or 60)
WALL_MORE = 5  # on a busy machine
# Scripts that use a layer through the programs, and take few seconds: together they reach nearly
# every line of it that any script without a cloud reaches.
OPERATOR = ["use_messages", "use_init", "use_exec", "up_questions", "down_results"]
TRAINS = ["train_command", "train_disk", "train_results"]
PUSHES = ["push_local", "push_gc"]
NODES = ["dtrun_flags", "dtrun"]
AGENTS = ["dtrun_agents", "dtrun_notice", "dtrun_node", "dtrun_stuck", "dtrun_watch"]
STREAMS = ["train_stream", "train_stream_files"]
OBJECTS = ["use_data_index", "push_account", "push_objects", "train_objects"]
OVER_SSH = ["train_extract_hosts"]
ARCHIVES = ["train_extract_full", "train_setup"]
INPUTS = ["train_input_lists", "train_inputs"]
AWS = ["aws_plan", "aws_messages"]
SCRIPTS = {
    "cmd/dtctl": OPERATOR + ["use_plan", "use_logs", "use_stop"] + TRAINS + PUSHES + [
        "push_with", "run_seed", "use_state", "use_import"],
    "cmd/dtrun": ["dtrun_wait", "dtrun_shard_range"] + NODES + TRAINS[:1],
    "cmd/dttrain": ["train_pipeline", "train_resume", "use_bench"],
    "base": OPERATOR[:2] + TRAINS[:1] + OVER_SSH,
    "sys": OPERATOR[:1] + ["dtrun_wait"] + TRAINS[:1] + PUSHES[:1] + ["up_names"],
    "conf": ["use_init", "use_environment", "use_plan", "use_completion", "dtrun_shard_range",
             "up_kept", "run_seed", "use_import", "aws_plan"],
    "convert": ["use_import"],
    "protocol": ["use_environment"] + TRAINS[:1] + NODES, "channel": NODES,
    "cluster": ["use_plan", "up_kept"] + OPERATOR + TRAINS[:1],
    "lifecycle": ["up_kept"] + OPERATOR + AWS[1:], "ui": OPERATOR[:4] + ["up_kept"] + PUSHES[:1] + [
        "train_run_terminal"],
    "fleet": PUSHES[:1] + OVER_SSH + ARCHIVES[:1] + OPERATOR[3:] + TRAINS,
    "follow": ["use_logs", "train_results", "use_watch"],
    "provider": ["up_kept"] + OPERATOR[3:] + ["use_plan"] + OVER_SSH + AWS,
    "run": TRAINS + ["use_logs", "use_exec", "train_call_off", "train_setup", "train_result_names",
                     "train_up_inputs", "use_unread"] + INPUTS + ["train_plan"],
    "run/inputs": ["train_objects", "train_renew", "train_objects_fanout"],
    "run/results": ["train_outputs_s3"],
    "node": TRAINS + PUSHES + ["use_stop"] + ARCHIVES, "xfer": PUSHES + OVER_SSH + INPUTS[:1],
    "content": PUSHES + ARCHIVES[:1] + INPUTS, "remote": PUSHES[:1] + OVER_SSH + [
        "up_kept", "up_names", "aws_plan", "push_login"],
    "agent": NODES + TRAINS[:1] + AGENTS, "rendezvous": NODES + TRAINS[:1] + AGENTS,
    "worker": NODES + TRAINS[:1] + ["train_sagemaker", "dtrun_watch"],
    "launch": ["use_environment"] + NODES + TRAINS[:1] + ["train_sagemaker"],
    "tcpstore": NODES[1:], "copies": ["train_redeal"], "aws": AWS + ["up_kept"], "terraform": AWS,
    "nn": ["train_pipeline"], "comm": ["use_bench"],
    "trainer": ["train_pipeline", "use_bench", "train_results", "train_plan"], "data": [
        "use_data_index", "train_resume", "train_stream"],
    "stream": STREAMS, "object": ["use_unread"] + STREAMS[:1] + OBJECTS,
    "cmd/dtdata": STREAMS[:1] + OBJECTS,
}
GPU_TESTS = {"kernels/cuda/": ("tests/gpu/test_cuda_",),
             "lib/comm/nccl": ("tests/gpu/test_collectives", "tests/gpu/test_nccl_library")}
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
    inner = SCRIPTS.get(folder_of(path), [])
    return list(dict.fromkeys(named + found + inner + SCRIPTS.get(layer, [])))


def tests_of(path, tests, users):
    """Tests that name the module's header, of its layer, of layers that use it, and scripts."""
    folder = folder_of(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    headers = {"%s/%s.h" % (folder, s) for s in (stem, stem.rsplit("_", 1)[0], stem.split("_")[0])}
    used_by = set().union(*(users[h] for h in headers))
    headers |= {h for h in includes(path) if h.startswith(folder + "/")}
    # The inside of a module is tested from outside.
    headers |= {h.replace("_impl.h", ".h") for h in headers}
    near = [t for t, used in tests.items() if used & headers or any(
        path.startswith(p) and t.startswith(to) for p, to in GPU_TESTS.items())]
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
        program = os.path.join(SOURCE, test) if test.endswith(".t") else program_of(test)
        meets = glob.glob(UNCHANGED + "/dt*") if test.endswith(".t") else []
        made = max(os.stat(f).st_mtime_ns for f in [program, *meets])
        with self.lock:
            lock = self.locks[test]
        with lock:
            if test not in self.known or self.known[test][0] != made:
                took = measure(command_of(test, program)) or measure(command_of(test, program))
                self.known[test] = [made, took]
                if not took or took[0] > SECONDS_MAX:
                    print("# left out: " + test, flush=True)
                # The next call gives what failed another chance.
                with self.lock, open(self.cache, "w") as f:
                    json.dump({t: k for t, k in dict(self.known).items() if k[1]}, f)
        took = self.known[test][1]
        return took if took and took[0] <= SECONDS_MAX else None


def measure(command):
    began = time.monotonic()
    line = subprocess.run(["bash", "-c", 'TIMEFORMAT="%U %S"; time "$@" >/tmp/x.$$ 2>&1', "x", REAP,
                           "%d" % (WALL_MORE * SECONDS_MAX), *command], cwd=SOURCE, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE,
                          env={**os.environ, "DTCTL_BIN": UNCHANGED, **environment_of(command[-1])})
    used = sum(float(x) for x in line.stderr.split("\n")[-2].split())
    known = line.returncode == 0 or used > SECONDS_MAX
    return [used, time.monotonic() - began] if known else None


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
