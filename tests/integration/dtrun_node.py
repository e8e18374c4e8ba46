# SPDX-License-Identifier: Apache-2.0
"""Drives `dtrun --node …` as dtctl does, on loopback nodes 127.0.0.2… of one folder each.

    dtrun_node.py start FOLDER NODES MIN RESTARTS [KEY=VALUE…] -- COMMAND…   pids of the agents
    dtrun_node.py follow FOLDER NODE [FROM-JSON]       records as text: file contents to FOLDER/got.N/
"""
import json
import os
import struct
import subprocess
import sys

RUN = "run-1"


def record(text):
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def root(folder, node):
    return os.path.join(folder, f"n{node}")


def start(folder, nodes, minimum, restarts, options, command):
    agents = []
    extra = dict(o.split("=", 1) for o in options)
    for i in range(nodes):
        child = subprocess.Popen(["dtrun", "--node", "start", "--root", root(folder, i), "--run", RUN],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        spec = (f'[run]\nid="{RUN}"\nname="test"\nnode="n{i}"\nnode_rank={i}\nnnodes_min={minimum}\n'
                f'nnodes_max={nodes}\nnproc_per_node="{extra.get("nproc", "1")}"\n'
                f'max_restarts={restarts}\nkey="{"5a" * 32}"\naddress="127.0.0.{i + 2}"\n'
                f'workdir="runs/{RUN}/work"\n'
                f'shutdown_timeout_ms={extra.get("shutdown_ms", "5000")}\n'
                f'command={json.dumps(command)}\n[env]\nFOLDER="{folder}"\n'
                '[inputs.train]\npath="data"\nmode="replicated"\n')
        child.stdin.write(record(spec))
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        assert answer["event"] == "listening", answer
        agents.append((child, answer["port"]))
    roster = "".join(f'[[node]]\nrank={i}\nname="n{i}"\naddress="127.0.0.{i + 2}"\nport={port}\n'
                     for i, (_, port) in enumerate(agents))
    pids = []
    for child, _ in agents:
        child.stdin.write(record(roster))
        child.stdin.close()
        answer = json.loads(child.stdout.readline())
        assert answer["event"] == "started", answer
        assert child.wait(10) == 0
        pids.append(str(answer["pid"]))
    print(" ".join(pids))


def follow(folder, node, offsets):
    command = ["dtrun", "--node", "follow", "--root", root(folder, node), "--run", RUN]
    child = subprocess.Popen(command + (["--from", offsets] if offsets else []),
                             stdout=subprocess.PIPE)
    seen = json.loads(offsets) if offsets else {}
    while True:
        head = child.stdout.read(4)
        if len(head) < 4:
            break
        header, _, raw = child.stdout.read(struct.unpack("<I", head)[0]).partition(b"\n")
        header = json.loads(header)
        if "file" in header:
            assert header["offset"] == seen.get(header["file"], 0), (header, seen)
            assert header["bytes"] == len(raw), header
            seen[header["file"]] = header["offset"] + len(raw)
            path = os.path.join(folder, f"got.{node}", header["file"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "ab") as out:
                out.write(raw)
            if header["file"] == os.environ.get("CUT"):
                child.kill()  # as a dropped connection
                break
        elif "end" in header:
            print(header["end"], header["exit_status"])
    with open(os.path.join(folder, f"offsets.{node}"), "w", encoding="utf-8") as out:
        json.dump(seen, out)
    child.wait(10)


if sys.argv[1] == "start":
    cut = sys.argv.index("--")
    start(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:cut],
          sys.argv[cut + 1:])
else:
    follow(sys.argv[2], int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
