#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of the S3 protocol on loopback, in memory, for tests.

s3.py PORT_FILE: serves buckets that exist once something was put into them, to the key AKTEST with
the secret SECRETTEST (and the token TOKEN, where one comes). It checks signatures by itself, of
headers and of presigned addresses, and the hashes of bodies. Pages of lists have PAGE objects.

POST /-/fault?kind=KIND&key=KEY&count=N makes the next N requests for a key (*END: of that end) go wrong:
  slow     503 SlowDown               reset   the connection ends half way
  short    fewer bytes than promised  whole   all of the object in place of a range, as 200
  bytes    one wrong byte             denied  403 AccessDenied
  error    500 InternalError          stall   half of the bytes, then nothing for two minutes
  called   a range, as 200            bare    the ETag without quotes
  huge     a list with objects of 9 TB each (key: empty)
The bucket "far" is in the region eu-far-1: requests that are signed for another one get 301.
POST /-/clock?ahead=S: the server's clock is S seconds ahead.
GET /-/faults is one line for each key whose faults have not all come.
POST /-/hold?key=KEY holds the answers to requests for a key (*END: of that end) back until /-/release.
POST /-/refuse?peer=ADDRESS: requests from there get 403 AccessDenied from now on; no peer: from nobody.
POST /-/lists?pause=S&skip=N: each page of a list comes S seconds late, after the next N pages.
POST /-/revoke?key=ID: what the key of that ID has signed gets 403 ExpiredToken from now on; /-/revoke: none.
GET /-/bytes is "ADDRESS BYTES" for each client: what it got of objects since the last /-/forget.
GET /-/copied is one line for each key that was copied from another one.
GET /-/log is one line for each request: METHOD PATH RANGE STATUS.
GET /-/role/… plays the metadata service of an instance (version 2).
CERTIFICATE and KEY in the environment: it speaks TLS. ADDRESS: it listens there, not on loopback.
"""
import base64
import hashlib
import hmac
import os
import socket
import ssl
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

SECRETS = {"AKTEST": "SECRETTEST", "AKROLE": "SECRETROLE"}
PAGE = int(os.environ.get("PAGE", "1000"))
objects, uploads, faults, log, copied = {}, {}, {}, [], []
given, refused = {}, set()  # by client
revoked = set()  # key IDs
BUCKETS = ("bucket", "public", "far")  # exist from the start
FAR = "eu-far-1"
clock = {"ahead": 0.0}
lock = threading.Lock()
HOLD_S = 120  # at most
held, released = set(), threading.Condition()
late_pages = {"pause": 0.0, "skip": 0}


def is_held(key):
    return any(key.endswith(k[1:]) if k[:1] == "*" else key == k for k in held)


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(scope, stamp, request, key_id):
    key = ("AWS4" + SECRETS.get(key_id, "?")).encode()
    for part in scope.split("/"):
        key = mac(key, part)
    digest = hashlib.sha256(request.encode()).hexdigest()
    return mac(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}").hex()


class Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code
        self.text, self.headers = "", []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def canonical(self, path, query, names, payload):
        pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query)
        headers = "".join(f"{n}:{self.headers.get(n, '').strip()}\n" for n in names)
        return "\n".join([self.command, path, "&".join(f"{k}={v}" for k, v in pairs), headers,
                          ";".join(names), payload])

    def check(self, path, query, body):
        fields = dict(query)
        if "X-Amz-Signature" in fields:
            key_id, scope = fields["X-Amz-Credential"].split("/", 1)
            rest = [(k, v) for k, v in query if k != "X-Amz-Signature"]
            names, payload = fields["X-Amz-SignedHeaders"].split(";"), "UNSIGNED-PAYLOAD"
            stamp, given = fields["X-Amz-Date"], fields["X-Amz-Signature"]
            limit = int(fields["X-Amz-Expires"])
            token = fields.get("X-Amz-Security-Token")
        else:
            words = self.headers.get("Authorization", "")
            if not words.startswith("AWS4-HMAC-SHA256 "):
                raise Refused(403, "AccessDenied")
            parts = dict(p.strip().split("=", 1) for p in words[17:].split(","))
            key_id, scope = parts["Credential"].split("/", 1)
            names, given, rest = parts["SignedHeaders"].split(";"), parts["Signature"], query
            payload = self.headers["x-amz-content-sha256"]
            stamp, limit, token = self.headers["x-amz-date"], 900, None
            if payload != hashlib.sha256(body).hexdigest():
                raise Refused(400, "XAmzContentSHA256Mismatch")
            token = self.headers.get("x-amz-security-token")
        if token not in (None, "TOKEN"):
            raise Refused(403, "InvalidToken")
        made = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
        now = time.time() + clock["ahead"]
        age = now - made.timestamp()
        if age > limit or age < -900:
            why = Refused(403, "RequestTimeTooSkewed")
            now = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            why.text = f"<RequestTime>{stamp}</RequestTime><ServerTime>{now}</ServerTime>"
            raise why
        if path.startswith("/far") and f"/{FAR}/" not in scope:
            why = Refused(301, "PermanentRedirect")
            why.headers = [("x-amz-bucket-region", FAR)]
            raise why
        if key_id in revoked:
            raise Refused(403, "ExpiredToken")
        if "host" not in names or key_id not in SECRETS:
            raise Refused(403, "InvalidAccessKeyId")
        if not hmac.compare_digest(
                given, signature(scope, stamp, self.canonical(path, rest, names, payload), key_id)):
            raise Refused(403, "SignatureDoesNotMatch")
        md5 = self.headers.get("content-md5")
        if md5 and base64.b64decode(md5) != hashlib.md5(body).digest():
            raise Refused(400, "BadDigest")

    def answer(self, status, body=b"", headers=()):
        with lock:
            log.append(f"{self.command} {self.path.split('?')[0]} "
                       f"{self.headers.get('Range', '-')} {status}")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, why):
        self.answer(why.status, f"<Error><Code>{why.code}</Code><Message>by the test</Message>"
                    f"{why.text}</Error>".encode(), [("x-amz-request-id", "R1")] + why.headers)

    def list(self, bucket, fields):
        prefix = fields.get("prefix", "")
        keys = sorted(k for b, k in objects if b == bucket and k.startswith(prefix))
        start, most = fields.get("continuation-token", ""), int(fields.get("max-keys", PAGE))
        keys = [k for k in keys if k > start]
        page, text, mark = keys[:min(most, PAGE)], "", "" if self.fault == "bare" else "&quot;"
        for key in page:
            data, etag = objects[bucket, key]
            size = 9 * 10**12 if self.fault == "huge" else len(data)
            text += (f"<Contents><Key>{escape(quote(key))}</Key><Size>{size}</Size>"
                     f"<ETag>{mark}{etag}{mark}</ETag></Contents>")
        if len(page) < len(keys):
            text += (f"<IsTruncated>true</IsTruncated><NextContinuationToken>"
                     f"{escape(page[-1])}</NextContinuationToken>")
        self.answer(200, f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3/">'
                    f"{text}<EncodingType>url</EncodingType></ListBucketResult>".encode())

    def read(self, data, etag, fault):
        match, span = self.headers.get("If-Match"), self.headers.get("Range")
        if match and match.strip('"') != etag:
            raise Refused(412, "PreconditionFailed")
        status, headers = 200, [("ETag", etag if fault == "bare" else f'"{etag}"')]
        if span and fault != "whole":
            first, last = span[6:].split("-")
            first, last = int(first), min(int(last), len(data) - 1)
            if first >= len(data):
                raise Refused(416, "InvalidRange")
            headers.append(("Content-Range", f"bytes {first}-{last}/{len(data)}"))
            data, status = data[first:last + 1], 206
        if fault == "bytes":
            data = bytes([data[0] ^ 1]) + data[1:]
        if fault == "short":
            data = data[:-1]
        if fault == "called":
            status = 200
        with lock:
            given[self.client_address[0]] = given.get(self.client_address[0], 0) + len(data)
        if fault not in ("reset", "stall"):
            return self.answer(status, data, headers)
        self.send_response(status)
        for name, value in headers + [("Content-Length", str(len(data)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[:len(data) // 2])
        self.wfile.flush()
        if fault == "stall":
            with released:
                released.wait(HOLD_S)
        self.close_connection = True

    def post(self, bucket, key, fields, body):
        if "uploads" in fields:
            name = f"u{len(uploads)}"
            uploads[name] = {}
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
                               "</InitiateMultipartUploadResult>".encode())
        parts = uploads.pop(fields["uploadId"])
        data = b"".join(parts[n] for n in sorted(parts))
        if body.count(b"<PartNumber>") != len(parts):
            raise Refused(400, "InvalidPart")
        sums = b"".join(hashlib.md5(parts[n]).digest() for n in sorted(parts))
        etag = hashlib.md5(sums).hexdigest() + f"-{len(parts)}"  # as S3 makes it
        objects[bucket, key] = data, etag
        return self.answer(200, f"<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag>"
                           "</CompleteMultipartUploadResult>".encode())

    def put(self, bucket, key, fields, body):
        source = self.headers.get("x-amz-copy-source")
        if source:
            place = tuple(unquote(source).lstrip("/").split("/", 1))
            if place not in objects:
                raise Refused(404, "NoSuchKey")
            data, etag = objects[place]
            if self.headers.get("x-amz-copy-source-if-match", etag).strip('"') != etag:
                raise Refused(412, "PreconditionFailed")
            etag = hashlib.md5(data).hexdigest()  # also of an object that came in parts
            objects[bucket, key] = data, etag
            copied.append(key)
            return self.answer(200, f"<CopyObjectResult><ETag>&quot;{etag}&quot;</ETag>"
                               "</CopyObjectResult>".encode())
        etag = hashlib.md5(body).hexdigest()
        if "uploadId" in fields:
            uploads[fields["uploadId"]][int(fields["partNumber"])] = body
        else:
            objects[bucket, key] = body, etag
        self.answer(200, b"", [("ETag", f'"{etag}"')])

    def control(self, path, fields):
        role = path.removeprefix("/-/role/latest/")
        if path == "/-/fault":
            faults[fields["key"]] = [fields["kind"]] * int(fields.get("count", "1"))
        elif path == "/-/hold":
            held.add(fields["key"])
        elif path == "/-/release":
            with released:
                held.clear()
                released.notify_all()
        elif path == "/-/log":
            return self.answer(200, "\n".join(log).encode())
        elif path == "/-/refuse":
            refused.clear()
            refused.add(fields.get("peer", ""))
        elif path == "/-/faults":
            return self.answer(200, "\n".join(f"{k} {q}" for k, q in faults.items() if q).encode())
        elif path == "/-/clock":
            clock.update(ahead=float(fields["ahead"]))
        elif path == "/-/lists":
            late_pages.update(pause=float(fields["pause"]), skip=int(fields.get("skip", "0")))
        elif path == "/-/revoke":
            revoked.clear()
            revoked.add(fields.get("key", ""))
        elif path == "/-/copied":
            return self.answer(200, "\n".join(copied).encode())
        elif path == "/-/bytes":
            return self.answer(200, "\n".join(f"{c} {n}" for c, n in given.items()).encode())
        elif path == "/-/forget":
            log.clear()
            given.clear()
        elif role == "api/token" and self.command == "PUT":
            return self.answer(200, b"imds-token")
        elif self.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return self.answer(401)
        elif role == "meta-data/iam/security-credentials/":
            return self.answer(200, b"node-role")
        elif role.endswith("/node-role"):
            return self.answer(200, b'{"AccessKeyId":"AKROLE","SecretAccessKey":"SECRETROLE",'
                               b'"Token":"TOKEN"}')
        elif role == "meta-data/placement/region":
            return self.answer(200, b"eu-test-1")
        return self.answer(200)

    def client_is_gone(self):
        """A process that ended with requests under way meets no fault that was set since."""
        try:
            return not socket.socket.recv(self.connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def handle_all(self):
        parts = urlsplit(self.path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fields = dict(query)
        if parts.path.startswith("/-/"):
            return self.control(parts.path, fields)
        gone = self.client_is_gone()
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        try:
            with lock:
                queue = faults.get(key) or next(
                    (q for k, q in faults.items() if k[:1] == "*" and key.endswith(k[1:])), [])
                fault = queue.pop() if queue and not gone else ""
            if fault == "slow":
                raise Refused(503, "SlowDown")
            if fault == "error":
                raise Refused(500, "InternalError")
            if fault == "denied" or self.client_address[0] in refused:
                raise Refused(403, "AccessDenied")
            if bucket != "public" or self.command in ("PUT", "DELETE"):
                self.check(parts.path, query, body)
            if self.command == "PUT":
                return self.put(bucket, key, fields, body)
            if self.command == "POST":
                return self.post(bucket, key, fields, body)
            if self.command == "DELETE":
                if "uploadId" in fields:
                    uploads.pop(fields["uploadId"], None)
                else:
                    objects.pop((bucket, key), None)
                return self.answer(204)
            if "list-type" in fields:
                self.fault = fault
                if bucket not in BUCKETS and not any(b == bucket for b, _ in objects):
                    raise Refused(404, "NoSuchBucket")
                late_pages["skip"] -= 1
                time.sleep(late_pages["pause"] if late_pages["skip"] < 0 else 0)
                return self.list(bucket, fields)
            with released:
                released.wait_for(lambda: not is_held(key), HOLD_S)
            if (bucket, key) not in objects:
                raise Refused(404, "NoSuchKey")
            return self.read(*objects[bucket, key], fault)
        except Refused as e:
            return self.refuse(e)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_all


class Server(ThreadingHTTPServer):
    # Eight nodes connect at once. The default of 5 drops connections, which TCP tries again after
    # 1, 3 and 7 s.
    request_queue_size = 512


def main():
    server = Server((os.environ.get("ADDRESS", "127.0.0.1"), 0), Handler)
    if os.environ.get("CERTIFICATE"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["CERTIFICATE"], os.environ["KEY"])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(str(server.server_port))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()


main()
