#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""provider.py PROGRAM INFRA CACHE SOCKET FILE: one AWS provider for all Terraforms of a test, with
which it ends.

Starts PROGRAM, serves it at SOCKET, and writes to FILE what TF_REATTACH_PROVIDERS takes. A Terraform
that starts a provider of its own pays about eight seconds of a processor each time, nearly all of it
for two answers that are always the same: the schema of 1,500 resources, of which INFRA uses a few,
and the check of the provider's configuration. Both answers are kept in CACHE, and the schema without
the resources that INFRA does not name. Every other call goes to PROGRAM as it is.
"""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import grpc

CALLS_MAX = 64  # at a time
MESSAGE_BYTES_MAX = 64 << 20
PR_SET_PDEATHSIG = 1
OPTIONS = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
           ("grpc.max_send_message_length", MESSAGE_BYTES_MAX)]
KEPT = ("GetSchema", "PrepareProviderConfig")
SOURCES = ("registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws")

# The fields of the answer to GetSchema (tfplugin5.proto) that map a type's name to its schema:
# resources, data sources, ephemeral resources.
MAPS_OF_TYPES = (2, 3, 8)
DIAGNOSTICS = {"GetSchema": 4, "PrepareProviderConfig": 2}
LENGTH_DELIMITED = 2


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """(number, the whole field, its content) for each field of a message that has only messages and
    strings."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = varint(message, at)
        if tag & 7 != LENGTH_DELIMITED:
            raise ValueError(f"field {tag >> 3} has wire type {tag & 7}")
        length, at = varint(message, at)
        yield tag >> 3, message[begin:at + length], message[at:at + length]
        at += length


def without(types, schema):
    """The answer to GetSchema without the types that are not in `types`."""
    kept = []
    for number, whole, content in fields(schema):
        key = next((c for n, _, c in fields(content) if n == 1), b"") \
            if number in MAPS_OF_TYPES else b""
        if number not in MAPS_OF_TYPES or key.decode() in types:
            kept.append(whole)
    return b"".join(kept)


class Provider(grpc.GenericRpcHandler):
    def __init__(self, program, infra, cache):
        self.lock = threading.Lock()
        self.types = sorted({word for path in pathlib.Path(infra).rglob("*")
                             if path.suffix in (".tf", ".hcl")
                             for word in re.findall(r"\baws_[a-z0-9_]+", path.read_text())})
        stat = os.stat(program)
        self.name = f"{program} {stat.st_size} {stat.st_mtime_ns} {self.types}"
        self.cache = pathlib.Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen([program, "-debug"], stdout=subprocess.PIPE, text=True,
                                        preexec_fn=dies_with_its_parent)
        self.attach = next(json.loads(found[1]) for found in (
            re.search(r"TF_REATTACH_PROVIDERS='(.*)'", line) for line in self.process.stdout)
            if found)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        address = next(iter(self.attach.values()))["Addr"]["String"]
        self.channel = grpc.insecure_channel("unix:" + address, options=OPTIONS)

    def service(self, details):
        name = details.method.rpartition("/")[2]
        if details.method.startswith("/plugin."):  # of a parent and its plugin
            return None

        def call(request, context):
            try:
                if name in KEPT:
                    return self.kept(details.method, name, request)
                return self.ask(details.method, request)
            except grpc.RpcError as error:
                return context.abort(error.code(), error.details())

        return grpc.unary_unary_rpc_method_handler(call)

    def ask(self, method, request):
        return self.channel.unary_unary(method)(request)

    def kept(self, method, name, request):
        key = hashlib.sha256(f"{self.name} {method} ".encode() + request).hexdigest()
        path = self.cache / key
        with self.lock:
            if path.exists():
                return path.read_bytes()
            answer = self.ask(method, request)
            if name == "GetSchema":
                answer = without(self.types, answer)
            if all(number != DIAGNOSTICS[name] for number, _, _ in fields(answer)):
                part = path.with_name(f"{key}.{os.getpid()}")
                part.write_bytes(answer)
                part.rename(path)
            return answer


def dies_with_its_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main():
    program, infra, cache, socket, file = sys.argv[1:6]
    dies_with_its_parent()
    provider = Provider(program, infra, cache)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(CALLS_MAX), handlers=[provider],
                         options=OPTIONS)
    server.add_insecure_port("unix:" + socket)
    server.start()
    one = next(iter(provider.attach.values()))
    one["Addr"]["String"], one["Pid"] = socket, os.getpid()
    part = pathlib.Path(file + ".part")
    part.write_text(json.dumps({source: one for source in SOURCES}))
    part.rename(file)
    sys.exit(provider.process.wait())


if __name__ == "__main__":
    main()
