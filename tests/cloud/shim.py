#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shim.py PORT LAB_PORT CALL_LOG: AWS's API on 127.0.0.1:PORT.

It asks moto (moto_api.py), adds what moto lacks (shim_ec2.py, shim_tagging.py), refuses calls as
faults say (shim_faults.py), tells the lab which instances were started and ended, and writes one
JSON line for each call to CALL_LOG:
    {"t", "region", "service", "action", "status", "code", "source"}

Besides the API it answers on its own paths, for cloud.sh and for the lab:
    GET  /_shim/ready          200 as soon as it serves
    POST /_shim/fault          a fault as JSON (see shim_faults.py); DELETE forgets all of them
    POST /_shim/end            {"id", "reason"}: an instance ended without an API call
"""

import collections
import http.server
import json
import re
import sys
import threading
import time
import urllib.parse
import urllib.request

import moto_api
import shim_ec2
import shim_faults
import shim_tagging
import shim_xml

BODY_BYTES_MAX = 4 << 20
LAB_SECONDS_MAX = 60
ANSWERS_KEPT_MAX = 1000
# Of a bucket, and of an object in it; paths are of the form /BUCKET/KEY.
S3_ACTIONS = {"GET": ("ListBucket", "GetObject"), "HEAD": ("ListBucket", "GetObject"),
              "PUT": ("CreateBucket", "PutObject"), "DELETE": ("DeleteBucket", "DeleteObject")}
SCOPE = re.compile(r"Credential=[^/]+/\d+/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")


def ec2_headers(region):
    """Of a call that the shim makes by itself; moto checks no signature."""
    return {"Content-Type": "application/x-www-form-urlencoded",
            "Authorization": "AWS4-HMAC-SHA256 "
                             f"Credential=shim/20260101/{region}/ec2/aws4_request"}


class Call:
    """One API call: what was asked, and how to ask moto."""

    def __init__(self, cloud, method, path, headers, body):
        self.cloud, self.method, self.path, self.headers = cloud, method, path, headers
        self.body = body
        scope = SCOPE.search(headers.get("Authorization", ""))
        self.region, self.service = scope.groups() if scope else ("us-east-1", "")
        self.params = {}
        self.late_failure = ""  # how an instance that it starts ends at once (shim_faults.py)
        self.action = headers.get("X-Amz-Target", "").rpartition(".")[2]
        if "x-www-form-urlencoded" in headers.get("Content-Type", ""):
            self.params = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
            self.action = self.params.get("Action", "")
        if self.service == "s3" and method in S3_ACTIONS:
            self.action = S3_ACTIONS[method]["/" in path.partition("?")[0].strip("/")]
        self.action = self.action or f"{method} {path.partition('?')[0]}"

    def forward(self, params=None):
        """Asks moto the same thing, or with other form parameters: (status, headers, body)."""
        body = self.body if params is None else urllib.parse.urlencode(params).encode()
        with self.cloud.moto_lock:
            return self.cloud.moto.ask(self.method, self.path, self.headers, body)

    def ask(self, action, **params):
        """Asks moto another EC2 action in this call's region: the body of its answer."""
        other = Call(self.cloud, "POST", "/", ec2_headers(self.region), b"")
        return other.forward({"Action": action, "Version": "2016-11-15", **params})[2]


class Cloud:
    """What the shim knows besides moto: faults, instances, groups, addresses."""

    def __init__(self, lab_port, log_path):
        self.moto = moto_api.Moto()
        self.lab_port = lab_port
        self.lock = threading.RLock()
        self.moto_lock = threading.Lock()  # moto's tables are not made for two calls at a time
        self.log = open(log_path, "a", buffering=1, encoding="utf-8")
        self.faults = shim_faults.Faults()
        self.sent = collections.OrderedDict()  # answers by the id that a client's attempts share
        self.ec2 = shim_ec2.Ec2(self)
        self.tagging = shim_tagging.Tagging(self.ec2)

    def record(self, call, status, code, source="api"):
        line = {"t": round(time.time(), 3), "region": call.region, "service": call.service,
                "action": call.action, "status": status, "code": code, "source": source}
        zone = call.params.get("Placement.AvailabilityZone")
        if zone:
            line["zone"] = zone
        with self.lock:
            self.log.write(json.dumps(line) + "\n")

    def tell_lab(self, path, message):
        if self.lab_port == 0: # started machines are not booted
            return {"text": ""}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.lab_port}{path}", json.dumps(message).encode(),
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LAB_SECONDS_MAX) as answer:
            return json.loads(answer.read() or b"null")

    def handle(self, call, stale):
        if call.service == "tagging" and call.action == "GetResources":
            return self.tagging.get_resources(call, stale)
        if call.service == "ec2":
            self.tagging.before(call)
        return self.ec2.handle(call)

    def answer(self, call):
        """Returns (status, headers, body, code); None means: hang up without an answer."""
        fault = self.faults.meets(call)
        refused = fault.before(call) if fault is not None else None
        if refused is not None:
            return shim_xml.refusal(call, *refused)
        call.late_failure = fault.code if fault is not None and fault.kind == "late" else ""
        again = self.answered(call)
        if again is not None:
            return again
        try:
            answer = self.handle(call, stale=fault is not None and fault.kind == "stale")
        except shim_xml.Refused as no:
            return shim_xml.refusal(call, no.status, no.code, no.message)
        if fault is not None and fault.loses_answer():
            return None
        self.keep(call, answer)
        return answer

    # On a busy machine the provider's client sometimes drops a connection right after the answer
    # and asks again. Losses here are injected on purpose (shim_faults.py).
    def answered(self, call):
        with self.lock:
            return self.sent.get(call.headers.get("Amz-Sdk-Invocation-Id", ""))

    def keep(self, call, answer):
        key = call.headers.get("Amz-Sdk-Invocation-Id", "")
        if not key or answer[0] != 200:
            return
        with self.lock:
            self.sent[key] = answer
            while len(self.sent) > ANSWERS_KEPT_MAX:
                self.sent.popitem(last=False)

    def ended(self, instance_id, reason):
        """The guest powered off, or the host took the machine: the API shows it."""
        with self.lock:
            instance = self.ec2.instances.get(instance_id)
        if instance is None:
            return
        instance.end(reason, self.ec2.ending_seconds)
        call = Call(self, "POST", "/", ec2_headers(instance.region), b"")
        call.params = {"Action": "TerminateInstances", "Version": "2016-11-15",
                       "InstanceId.1": instance_id}
        call.action = "TerminateInstances"
        status, _, _ = call.forward(call.params)
        self.record(call, status, "", reason)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # an answer is one write: who hangs up after its head has all of it
    cloud = None

    def log_message(self, *_):
        pass

    def send(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding",
                                    "server", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_BYTES_MAX:
            raise ValueError(f"a body of {length} bytes; the limit is {BODY_BYTES_MAX}")
        return self.rfile.read(length)

    def control(self, body):
        if self.path == "/_shim/fault" and self.command == "DELETE":
            self.cloud.faults.clear()
            self.cloud.ec2.ending_seconds = shim_ec2.ENDING_SECONDS
            for instance in list(self.cloud.ec2.instances.values()):
                instance.end_now()
        elif self.path == "/_shim/fault":
            wish = json.loads(body)
            if wish["kind"] == "ending":
                self.cloud.ec2.ending_seconds = float(wish["seconds"])
            else:
                self.cloud.faults.add(wish)
        elif self.path == "/_shim/end":
            message = json.loads(body)
            self.cloud.ended(message["id"], message["reason"])
        elif self.path != "/_shim/ready":
            return self.send(404, {}, b"")
        return self.send(200, {}, b"{}")

    def serve(self):
        try:
            body = self.body()
            if self.path.startswith("/_shim/"):
                return self.control(body)
            call = Call(self.cloud, self.command, self.path, self.headers, body)
            answer = self.cloud.answer(call)
            if answer is None:
                self.cloud.record(call, 0, "lost")
                self.close_connection = True
                return None
            status, headers, out, code = answer
            self.cloud.record(call, status, code)
            return self.send(status, headers, out)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:  # a fault of the shim must be seen in the test's log
            print(f"shim: {self.command} {self.path}: {error!r}", file=sys.stderr, flush=True)
            self.send(500, {}, repr(error).encode())
        return None

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    port, lab_port = int(sys.argv[1]), int(sys.argv[2])
    Handler.cloud = Cloud(lab_port, sys.argv[3])
    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
