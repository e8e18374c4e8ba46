#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that lies. Put in the place of a node's agent, it passes the verbs on to the real one and
changes what comes back; for fetch it has lists of its own.

    REAL and MODE lie beside this file, as links or text: the real agent, and "KIND SEED".
"""
import hashlib
import os
import random
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = os.path.join(HERE, "REAL")
ESCAPES = "\\u001b]0;PWNED\\u0007\\u001b[2J\\u009b2J\\u0000"
RAW = b"\x1b]0;PWNED\x07\x1b[2J\xc2\x9b2J\x9b\x00"
FILE, FOLDER, LINK = 1, 2, 3
ENTRIES, ENTRIES_END, NEED_END, BATCH, DONE = 2, 3, 5, 6, 9


def send(data):
    os.write(1, data) if len(data) < 4096 else sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def frame(kind, payload):
    send(struct.pack("<IBBH", len(payload), kind, 0, 0) + payload)


def read_exactly(count):
    data = b""
    while len(data) < count:
        got = os.read(0, count - len(data))
        if not got:
            sys.exit(1)
        data += got
    return data


def entry(kind, path, rest=b"", mode=0o644):
    return struct.pack("<BHQH", kind, mode, 10**18, len(path)) + path + rest


def file_entry(path, data=b"", size=None, mode=0o644):
    size = len(data) if size is None else size
    return entry(FILE, path, struct.pack("<Q", size) + hashlib.sha256(data).digest(), mode)


def link_entry(path, target):
    return entry(LINK, path, struct.pack("<H", len(target)) + target)


def lists(rng, victim):
    """Entries, and the contents that go with them."""
    key = b"owned by the node\n"
    out = victim.encode()
    up = b"../" * rng.randint(1, 12)
    every = [
        [file_entry(up + b"victim/owned", key)],
        [file_entry(out + b"/owned", key)],
        [file_entry(b"a/" + up + b"owned", key)],
        [link_entry(b"x", out), file_entry(b"x/owned", key)],
        [link_entry(b"x", up + b"victim")],
        [entry(FOLDER, b"d"), link_entry(b"d/x", out), file_entry(b"d/x", key)],
        [file_entry(b".dtctl-part/tmp/owned", key), link_entry(b".dtctl-part/y", out)],
        [file_entry(b".dtctl/guard", key), file_entry(b".dtctl/default/cluster.toml", key)],
        [file_entry(b"huge", key, rng.choice([2**61, 2**64 - 1, 2**45, 2**44, 2**32 * 4 << 20]))],
        [file_entry(b"huge%d" % i, key, 2**45) for i in range(100)],
        [entry(FOLDER, b"d/" * rng.choice([100, 129, 2000]) + b"d")],
        [file_entry(b"\x1b]0;PWNED\x07\x9b2J" + bytes(rng.randrange(1, 32) for _ in range(9)), key)],
        [file_entry(b"set", key, mode=0o7777)],
        [file_entry(b"same", key), file_entry(b"same", b"other")],
        [entry(rng.randrange(4, 256), b"kind")],
        [file_entry(b"wrong", b"not this", 9)],
        [file_entry(b"n/" * 60 + b"%d-" % i + b"n" * 200, key) for i in range(20000)],
    ]
    return rng.choice(every), key


def hostile_fetch(rng, victim):
    frame(1, struct.pack("<I", 1))
    length, _, _, _ = struct.unpack("<IBBH", read_exactly(8))
    read_exactly(length)
    chosen, key = lists(rng, victim)
    block = b""
    for one in chosen:
        block += one
        if len(block) > 400000:
            frame(ENTRIES, block)
            block = b""
    frame(ENTRIES, block)
    frame(ENTRIES_END, struct.pack("<Q", len(chosen)))
    while True:
        length, kind, _, _ = struct.unpack("<IBBH", read_exactly(8))
        read_exactly(length)
        if kind == NEED_END:
            break
    frame(BATCH, hashlib.sha256(key).digest() + struct.pack("<I", len(key)) + key)
    frame(DONE, b"")
    read_exactly(8)


def pass_on(rng, kind):
    here = os.path.abspath(__file__).encode()
    real = os.path.realpath(REAL).encode()
    child = subprocess.Popen([REAL] + sys.argv[1:], stdout=subprocess.PIPE)
    left = rng.choice([0, 1, 7, 50, 300, 5000])
    while True:
        data = os.read(child.stdout.fileno(), 65536)
        if not data:
            sys.exit(child.wait())
        data = data.replace(real, here)
        if kind == "escapes":
            data = re.sub(rb'":"', b'":"' + ESCAPES.encode(), data)
        elif kind == "flip":
            some = bytearray(data)
            for _ in range(1 + len(some) // 200):
                some[rng.randrange(len(some))] ^= 1 << rng.randrange(8)
            data = bytes(some)
        elif kind == "cut":
            data, left = data[:left], left - len(data)
        elif kind == "numbers":
            big = rng.choice([b"-1", b"99999999999999999999", b"1e999", b"4294967296", b"0"])
            data = re.sub(rb'":-?[0-9]+', b'":' + big, data)
        send(data)
        if kind == "cut" and left <= 0:
            child.kill()
            sys.exit(rng.choice([0, 1, 3, 255]))


def stay(rng, victim):
    """A hello, and then verbs on the same streams."""
    sys.argv.remove("--stay")
    hello = subprocess.run([REAL] + sys.argv[1:], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                           check=False)
    send(hello.stdout.replace(os.path.realpath(REAL).encode(), os.path.abspath(__file__).encode()))
    verb = b""
    while not verb.endswith(b"\n"):
        verb += read_exactly(1)
    if verb == b"fetch\n":
        hostile_fetch(rng, victim)
    else:
        os.execv(REAL, [REAL, "--node", verb.decode().strip()] + sys.argv[3:])


def main():
    with open(os.path.join(HERE, "MODE"), encoding="ascii") as f:
        kind, seed, victim = f.read().split()
    verb = sys.argv[2] if len(sys.argv) > 2 else ""
    rng = random.Random(seed + verb)
    stays = "--stay" in sys.argv
    if kind == "lists" and verb == "fetch":
        hostile_fetch(rng, victim)
    elif kind == "flood" and verb != "hello":
        line = rng.choice([b"A", b'{"a":"', b"\xff", b"\0", b"[", RAW])
        for _ in range(512):
            send(line * (131072 // len(line)))
    elif kind == "noise" and verb != "hello":
        sys.stderr.buffer.write(RAW + b" error: " + RAW + b"\n")
        send(bytes(rng.randrange(256) for _ in range(3000)))
        sys.exit(rng.choice([0, 1, 2, 3, 134]))
    elif kind == "lists" and stays:
        stay(rng, victim)
    else:  # dtctl replaces an agent whose hello is strange
        pass_on(rng, kind if verb != "hello" or rng.random() < 0.2 else "honest")


try:
    main()
except BrokenPipeError:
    os._exit(1)
