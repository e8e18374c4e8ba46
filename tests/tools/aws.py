#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""AWS's servers of credentials on loopback, for tests: STS, SSO, SSO OIDC, the metadata service of
an instance, and the server of a container. Keys follow from what was asked, so that two clients
that ask for the same get the same.

aws.py PORT_FILE: serves until it is ended. A key ID's secret is SECRET-OF-ID. STS checks the
signature of AssumeRole, and that a key with a token was given out here. Names that mean something:
role "denied": 403; a token of a login that does not begin with "good": 401; a refresh token that
does not begin with "good": 400.
GET /-/log is one line for each request: METHOD PATH ACTION STATUS.
GET /-/life?seconds=N: keys that are given out from now on end after so long (negative: they have).
"""
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

given = {}  # key ID: token
log = []
life_s = 3600


def secret_of(key_id):
    return "SECRET-OF-" + key_id


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def make(*words):
    """A key of a session that follows from the words."""
    name = hashlib.sha256("\0".join(str(w) for w in words).encode()).hexdigest()[:16].upper()
    given["AS" + name] = "TOKEN/" + name + "=="
    return "AS" + name, secret_of("AS" + name), given["AS" + name]


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def session_name(fields):
    """Clients make up names; these say nothing."""
    name = fields.get("RoleSessionName", "")
    return "" if name.startswith(("botocore-session-", "dtctl-")) else name


class Refused(Exception):
    def __init__(self, status, code, text):
        super().__init__(code)
        self.status, self.code, self.text = status, code, text


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json", headers=()):
        if isinstance(body, dict):
            body = json.dumps(body)
        log.append(f"{self.command} {urlsplit(self.path).path} {self.action} {status}")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    # ---- STS ------------------------------------------------------------------------------------

    def caller(self, path, body):
        """The key ID that has signed."""
        words = self.headers.get("Authorization", "")
        if not words.startswith("AWS4-HMAC-SHA256 "):
            raise Refused(403, "MissingAuthenticationToken", "it is not signed")
        parts = dict(p.strip().split("=", 1) for p in words[17:].split(","))
        key_id, scope = parts["Credential"].split("/", 1)
        names = parts["SignedHeaders"].split(";")
        lines = "".join(f"{n}:{' '.join(self.headers.get(n, '').split())}\n" for n in names)
        text = "\n".join(["POST", path, "", lines, ";".join(names),
                          hashlib.sha256(body).hexdigest()])
        key = ("AWS4" + secret_of(key_id)).encode()
        for part in scope.split("/"):
            key = mac(key, part)
        digest = hashlib.sha256(text.encode()).hexdigest()
        stamp = self.headers["x-amz-date"]
        if mac(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}").hex() != parts["Signature"]:
            raise Refused(403, "SignatureDoesNotMatch", "the signature is another one")
        if not {"host", "x-amz-date"} <= set(names):
            raise Refused(403, "IncompleteSignature", "a header is not signed")
        token = self.headers.get("x-amz-security-token")
        if key_id in given and given[key_id] != token:
            raise Refused(403, "InvalidClientTokenId", "the token is another one")
        return key_id, scope.split("/")[1], token

    def sts(self, path, body):
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True))
        self.action, role = fields["Action"], fields["RoleArn"]
        if role.endswith("/denied"):
            raise Refused(403, "AccessDenied", "not authorized to perform: sts:" + self.action)
        if fields.get("Version") != "2011-06-15" or not fields.get("RoleSessionName"):
            raise Refused(400, "ValidationError", "a field is missing")
        if self.action == "AssumeRole":
            if "SerialNumber" in fields and fields.get("TokenCode") != "123456":
                raise Refused(403, "AccessDenied", "MultiFactorAuthentication failed")
            words = self.caller(path, body) + (fields.get("ExternalId"),
                                               fields.get("DurationSeconds"),
                                               fields.get("SerialNumber"))
        else:
            words = (fields["WebIdentityToken"],)
        key_id, secret, token = make(self.action, role, session_name(fields), *words)
        self.answer(200, f'<{self.action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                    f"<{self.action}Result><Credentials><AccessKeyId>{key_id}</AccessKeyId>"
                    f"<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}"
                    f"</SessionToken><Expiration>{iso(time.time() + life_s)}</Expiration>"
                    f"</Credentials></{self.action}Result></{self.action}Response>", "text/xml")

    # ---- SSO ------------------------------------------------------------------------------------

    def sso(self, fields):
        token = self.headers.get("x-amz-sso_bearer_token", "")
        if not token.startswith("good"):
            raise Refused(401, "UnauthorizedException", "Session token not found or invalid")
        if fields["role_name"] == "denied":
            raise Refused(403, "ForbiddenException", "No access")
        key_id, secret, session = make("sso", token, fields["role_name"], fields["account_id"])
        self.answer(200, {"roleCredentials": {
            "accessKeyId": key_id, "secretAccessKey": secret, "sessionToken": session,
            "expiration": int((time.time() + life_s) * 1000)}})

    def create_token(self, body):
        fields = json.loads(body)
        if fields["grantType"] != "refresh_token" or not fields["refreshToken"].startswith("good"):
            return self.answer(400, {"error": "invalid_grant",
                                     "error_description": "Invalid refresh token provided"},
                               headers=[("x-amzn-ErrorType", "InvalidGrantException")])
        name = hashlib.sha256((fields["refreshToken"] + fields["clientId"] +
                               fields["clientSecret"]).encode()).hexdigest()[:12]
        return self.answer(200, {"accessToken": "good-" + name, "expiresIn": 28800,
                                 "refreshToken": "good-next-" + name, "tokenType": "Bearer"})

    # ---- machines and containers ----------------------------------------------------------------

    def key(self, name):
        key_id, secret, token = make(name)
        return {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": iso(time.time()),
                "AccessKeyId": key_id, "SecretAccessKey": secret, "Token": token,
                "Expiration": iso(time.time() + life_s)}

    def metadata(self, path):
        if path == "/latest/api/token":
            return self.answer(200, "imds-token", "text/plain",
                               [("x-aws-ec2-metadata-token-ttl-seconds", "21600")])
        if self.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            raise Refused(401, "Unauthorized", "no token")
        path = path.removeprefix("/latest/meta-data/")
        if path == "iam/security-credentials/":
            return self.answer(200, "node-role", "text/plain")
        if path == "iam/security-credentials/node-role":
            return self.answer(200, self.key("machine"))
        if path == "placement/region":
            return self.answer(200, "eu-test-1", "text/plain")
        raise Refused(404, "NotFound", path)

    def control(self, path, fields):
        global life_s
        if path == "/-/life":
            life_s = int(fields["seconds"])
        return self.answer(200, "\n".join(log) if path == "/-/log" else "", "text/plain")

    def handle_all(self):
        parts = urlsplit(self.path)
        fields, self.action = dict(parse_qsl(parts.query, keep_blank_values=True)), "-"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if parts.path.startswith("/-/"):
                return self.control(parts.path, fields)
            if parts.path.startswith("/latest/"):
                return self.metadata(parts.path)
            if parts.path == "/federation/credentials":
                return self.sso(fields)
            if parts.path == "/token":
                return self.create_token(body)
            if parts.path == "/container":
                if self.headers.get("Authorization") not in (None, "container token"):
                    raise Refused(401, "Unauthorized", "another token")
                return self.answer(200, self.key("container" + str(fields)))
            return self.sts(parts.path, body)
        except Refused as e:
            if self.action == "-":
                return self.answer(e.status, {"message": e.text}, headers=[
                    ("x-amzn-ErrorType", e.code)])
            return self.answer(e.status, f"<ErrorResponse><Error><Type>Sender</Type><Code>{e.code}"
                               f"</Code><Message>{e.text}</Message></Error><RequestId>R1"
                               "</RequestId></ErrorResponse>", "text/xml")

    do_GET = do_PUT = do_POST = handle_all


def serve():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    address = serve().server_port
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(str(address))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    threading.Event().wait()
