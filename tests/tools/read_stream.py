# SPDX-License-Identifier: Apache-2.0
"""read_stream.py [NUMBER COMMAND]: a reader that knows the addresses of the streamed input `set`
alone, as libraries read shards.

Reads each object in the order of the list, and writes its SHA-256 and its path to the output of its
rank. Before it reads object NUMBER, it runs the shell's COMMAND. NAMES, of all objects with a colon
between two of them, are the index in the whole input.
"""
import hashlib
import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request

READ_SECONDS_MAX = 60
before = int(sys.argv[1]) if len(sys.argv) > 2 else -1
names = os.environ.get("NAMES", "").split(":")
out = open(os.environ["DTCTL_OUTPUT_DIR"] + "/" + os.environ["RANK"], "w", encoding="utf-8")
urls = open(os.environ["DTCTL_INPUT_SET_URLS"], encoding="utf-8").read().split()
rows = [json.loads(line) for line in open(os.environ["DTCTL_INPUT_SET_LIST"], encoding="utf-8")]
assert len(urls) == len(rows) and os.path.isdir(os.environ["DTCTL_INPUT_SET"])
for n, (url, row) in enumerate(zip(urls, rows)):
    path = urllib.parse.unquote(url.split("/", 5)[5])
    assert path == row["path"], (path, row)
    if len(names) > 1:
        assert row["index"] == names.index(path), (path, row)
    if n == before:
        subprocess.run(sys.argv[2], shell=True, check=True)
    data = urllib.request.urlopen(url, timeout=READ_SECONDS_MAX).read()
    assert len(data) == row["size"]
    out.write(f"{hashlib.sha256(data).hexdigest()}  {path}\n")
