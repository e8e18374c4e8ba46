#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile peers of an agent's ports.

dtrun_hostile.py KIND TARGET COUNT SECONDS [SEED]

Keeps COUNT connections to TARGET (HOST:PORT, or the path of a unix socket) open for SECONDS, each
of which does what KIND says, and opens another for each that is closed. Prints "ready" when all were
open once, and at the end how many there were.

silent  says nothing          half    half a greeting     drip    a greeting, byte by byte
random  any bytes             frame   frames with lengths that lie
http    half a request        line    half a command
store   requests of the workers' store with lengths and counts that lie
mixed   each connection another one of these
"""
import os
import random
import selectors
import socket
import struct
import sys
import time

MAGIC = b"DTRN"
PAUSE_S = 0.02  # between looks, so that the crowd leaves the processor to the agent
KINDS = ["silent", "half", "drip", "random", "frame", "http", "line", "store"]
VALIDATE, SET, CHECK, LIST_KEYS = 0, 1, 5, 17
STORE_MAGIC = struct.pack("<BI", VALIDATE, 0x3C85F7CE)


def text(data):
    return struct.pack("<Q", len(data)) + data


def store_bytes(rng):
    lie = rng.choice([1 << 61, (1 << 64) - 1, 1 << 40, 4_000_000])
    names = b"".join(text(b"%08d" % i) for i in range(4000))
    return STORE_MAGIC + rng.choice([
        bytes([SET]) + struct.pack("<Q", lie) + b"x" * 100,
        bytes([SET]) + text(b"key") + struct.pack("<Q", lie) + b"x" * 100,
        bytes([CHECK]) + struct.pack("<Q", lie) + names,
        bytes([rng.randrange(256)]) + rng.randbytes(64),
    ])


def frame_bytes(rng):
    length = rng.choice([0, 1, 7, 1023, 1025, 8 << 20, (1 << 31) - 1, (1 << 32) - 1])
    count = rng.choice([0, 16, 1 << 31, (1 << 32) - 1])
    body = bytes([rng.randrange(256)]) + struct.pack("<I", count)
    return MAGIC + struct.pack("<I", length) + body + rng.randbytes(rng.randrange(64))


def payload(kind, rng):
    """What to send at once, and what a byte at a time."""
    hello = MAGIC + struct.pack("<IB", 300, 1) + struct.pack("<qq", 4, 1) + rng.randbytes(40)
    return {
        "silent": lambda: (b"", b""),
        "half": lambda: (hello[:rng.randrange(1, len(hello))], b""),
        "drip": lambda: (b"", hello),
        "random": lambda: (rng.randbytes(rng.choice([1, 30, 3000])), b""),
        "frame": lambda: (frame_bytes(rng), b""),
        "http": lambda: (b"GET / HTTP/1.1\r\nHost: ", b"x" * 200),
        "line": lambda: (b'{"op": "st', b""),
        "store": lambda: (store_bytes(rng), b""),
    }[kind]()


def connect(target, rng):
    if "/" in target:
        s = socket.socket(socket.AF_UNIX)
        address = target
    else:
        host, port = target.rsplit(":", 1)
        s, address = socket.socket(), (host, int(port))
        if host.startswith("127."):
            s.bind((f"127.0.0.{rng.randrange(2, 10)}", 0))
    s.settimeout(1)
    s.connect(address)
    s.setblocking(False)
    return s


def main():
    kind, target, count, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    selector = selectors.DefaultSelector()
    slow, total, told = {}, 0, False
    end = time.monotonic() + seconds
    beat = 0
    while time.monotonic() < end:
        for _ in range(min(count - len(slow), 64)):
            try:
                s = connect(target, rng)
            except OSError:
                time.sleep(0.01)
                break
            now, later = payload(rng.choice(KINDS) if kind == "mixed" else kind, rng)
            total += 1
            slow[s] = later
            selector.register(s, selectors.EVENT_READ)
            try:
                s.send(now)
            except OSError:
                pass
        if len(slow) >= count and not told or total >= 4 * count and not told:
            print("ready", flush=True)
            told = True
        time.sleep(PAUSE_S)
        for key, _ in selector.select(0.05):
            try:
                gone = not key.fileobj.recv(65536)
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                selector.unregister(key.fileobj)
                del slow[key.fileobj]
                key.fileobj.close()
        if time.monotonic() > beat:
            beat = time.monotonic() + 0.5
            for s, later in slow.items():
                try:
                    slow[s] = later[s.send(later[:1]):] if later else later
                except OSError:
                    pass
    print(f"{total} connections", flush=True)
    os._exit(0)


main()
