# SPDX-License-Identifier: Apache-2.0
"""imds.py FOLDER: an instance metadata service (IMDSv2) on a free port of 127.0.0.1, for tests.

FOLDER/port    written when it listens
FOLDER/mode    read at each request: good, or a way to fail (FAILURES)
FOLDER/asked   a word is added per request
FOLDER/<path>  the answer below meta-data/, slashes as "_"; 404 where there is none
"""

import http.server
import os
import secrets
import sys
import time

HANG_S = 3
tokens = set()


def read(name, default=""):
    try:
        with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return default


def raw(handler, data):
    handler.wfile.write(data)
    handler.close_connection = True


def drip(handler):
    raw(handler, b"HTTP/1.1 200 OK\r\n")
    for _ in range(int(HANG_S / 0.1)):
        time.sleep(0.1)
        handler.wfile.write(b"X")


def endless(handler):
    raw(handler, b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(4096):
        handler.wfile.write(b'{"action":' * 1024)


FAILURES = {
    "error": lambda h: h.answer(500, "internal"),
    "hang": lambda h: time.sleep(HANG_S),
    "drip": drip,
    "endless": endless,
    "empty": lambda h: raw(h, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "garbage": lambda h: raw(h, bytes(range(256)) * 8 + b"\n\n$(touch pwned)"),
    "redirect": lambda h: h.answer(302, "", ("Location", "/latest/meta-data/elsewhere")),
    "close": lambda h: raw(h, b""),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def asked(self, word):
        with open(os.path.join(sys.argv[1], "asked"), "a", encoding="utf-8") as file:
            file.write(word + "\n")

    def answer(self, status, text, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def fails(self):
        failure = FAILURES.get(read("mode"))
        if failure:
            try:
                failure(self)
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.close_connection = True
        return failure

    def do_PUT(self):
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "none")
        self.asked("PUT:" + ttl)
        if self.fails():
            return
        if self.path != "/latest/api/token" or not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            self.answer(400, "")
        elif read("mode") == "no-token":
            self.answer(404, "")
        else:
            token = secrets.token_urlsafe(32) + "=="
            tokens.add(token)
            self.answer(200, "two words\r\nX-Injected: 1" if read("mode") == "bad-token" else token)

    def do_GET(self):
        name = self.path.removeprefix("/latest/meta-data/")
        text = read(name.replace("/", "_"), None)
        status = 404 if text is None else 200
        if self.headers.get("X-aws-ec2-metadata-token") not in tokens:
            status, text = 401, ""
        self.asked(name.rsplit("/", 1)[-1] + f":{status}")
        if not self.fails():
            self.answer(status, text or "")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(sys.argv[1], "port"), "w", encoding="ascii") as out:
    out.write(str(server.server_port))
server.serve_forever()
