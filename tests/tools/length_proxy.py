#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody between an SSH client and its server who changes the length of one packet.

    length_proxy.py LISTEN_PORT TARGET_ADDRESS TARGET_PORT PACKET CHANGE

Listens on 127.0.0.1, prints "ready", and relays until killed. In what the server sends, the PACKETth
packet after the keys were exchanged (from 1) gets another length: with an AEAD cipher such as
aes256-gcm@openssh.com those four bytes travel in the clear (RFC 5647, 7.3). CHANGE is "=N", the new
length, or "^N", what it is exclusive-ored with. Everything else passes unchanged. Prints "changed OLD
NEW" on standard output for each connection that got that far.
"""
import socket
import sys
import threading

NEWKEYS = 21
TAG_BYTES = 16


class Server:
    """The server's side of one connection: bytes in, the same bytes out but for one length."""

    def __init__(self, packet, change):
        self.packet, self.change = packet, change
        self.held = b""
        self.stage = "banner"
        self.count = 0

    def length(self, old):
        value = int(self.change[1:], 0)
        new = value if self.change[0] == "=" else old ^ value
        print(f"changed {old} {new}", flush=True)
        return new

    def feed(self, data):
        if self.stage == "through":
            return data
        self.held += data
        out = b""
        while self.stage != "through":
            end = self.next_end()
            if end is None:
                break
            out, self.held = out + self.held[:end], self.held[end:]
        if self.stage == "through":
            out, self.held = out + self.held, b""
        return out

    def next_end(self):
        """How many bytes can go on; None: more must come."""
        if self.stage == "banner":
            end = self.held.find(b"\n") + 1
            if end and self.held.startswith(b"SSH-"):
                self.stage = "plain"
            return end or None
        if len(self.held) < 6:
            return None
        length = int.from_bytes(self.held[:4], "big")
        if self.stage == "sealed" and self.count + 1 == self.packet:
            self.held = self.length(length).to_bytes(4, "big") + self.held[4:]
            self.stage = "through"
            return 0
        end = 4 + length + (TAG_BYTES if self.stage == "sealed" else 0)
        if len(self.held) < end:
            return None
        if self.stage == "sealed":
            self.count += 1
        elif self.held[5] == NEWKEYS:
            self.stage = "sealed"
        return end


def relay(source, target, change):
    try:
        while data := source.recv(65536):
            target.sendall(change(data))
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    port, address, target_port, packet, change = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)))
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection((address, int(target_port)), 10)
        server.settimeout(None)
        for way in ((client, server, lambda data: data),
                    (server, client, Server(int(packet), change).feed)):
            threading.Thread(target=relay, args=way, daemon=True).start()


if __name__ == "__main__":
    main()
