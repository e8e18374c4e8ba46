# SPDX-License-Identifier: Apache-2.0
"""imds.py: the instance metadata service of one node, on 169.254.169.254 in the node's namespace.

IMDSv2: a PUT gives a token with a time to live, a GET needs one. A GET without a token is answered
with 401 where the instance was started with tokens required, except to cloud-init, which asks
without one where it cannot read the machine's DMI data, and in a container it cannot.
"""

import base64
import http.server
import json
import re
import secrets
import threading
import time

PREFIX = re.compile(r"/(?:latest|\d{4}-\d\d-\d\d)/(.*)")
TOKEN_SECONDS_MAX = 21600


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Metadata:
    """What the service of one node answers; the lab changes `notice`, `rebalance` and `broken`."""

    def __init__(self, birth):
        self.birth = birth
        self.tokens = {}
        self.notice = None  # (action, seconds since the epoch)
        self.rebalance = None  # seconds since the epoch
        self.broken = 0  # answer every request with this status
        self.requests = 0

    def token(self, seconds):
        token = secrets.token_urlsafe(24)
        self.tokens[token] = time.monotonic() + seconds
        return token

    def token_holds(self, token):
        return self.tokens.get(token, 0) > time.monotonic()

    def tree(self):
        """Every path below meta-data/, with its text; a path is a file or a folder, never both."""
        b = self.birth
        host = "ip-" + b["private_ip"].replace(".", "-") + ".ec2.internal"
        nic = f"network/interfaces/macs/{b['mac']}/"
        files = {
            "ami-id": b["image"], "ami-launch-index": "0", "hostname": host,
            "local-hostname": host, "instance-action": "none", "instance-id": b["id"],
            "instance-life-cycle": b["life_cycle"], "instance-type": b["type"],
            "local-ipv4": b["private_ip"], "mac": b["mac"], "reservation-id": "r-0",
            "placement/availability-zone": b["zone"], "placement/region": b["region"],
            "security-groups": "default", "services/domain": "amazonaws.com",
            "services/partition": "aws", nic + "device-number": "0", nic + "mac": b["mac"],
            nic + "local-ipv4s": b["private_ip"], nic + "local-hostname": host,
            "events/maintenance/scheduled": "[]",
        }
        if b["public_ip"]:
            files["public-ipv4"] = b["public_ip"]
        if b["public_key"]:
            files["public-keys/0/openssh-key"] = b["public_key"]
        if b["profile"]:  # the role of a test has its profile's name
            role = b["profile"].rpartition("/")[2]
            files["iam/security-credentials/" + role] = json.dumps({
                "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "ASIA" + role.upper(),
                "SecretAccessKey": "secret", "Token": "token",
                "Expiration": stamp(time.time() + 3600)})
        if b["metadata"]["tags"] == "enabled":
            files.update(("tags/instance/" + k, v) for k, v in b["tags"].items())
        if self.notice is not None:
            action, at = self.notice
            files["spot/instance-action"] = json.dumps({"action": action, "time": stamp(at)})
            if action == "terminate":
                files["spot/termination-time"] = stamp(at)
        if self.rebalance is not None:
            files["events/recommendations/rebalance"] = json.dumps(
                {"noticeTime": stamp(self.rebalance)})
        return files

    def identity(self):
        b = self.birth
        return json.dumps({
            "accountId": "123456789012", "architecture": "x86_64", "imageId": b["image"],
            "availabilityZone": b["zone"], "instanceId": b["id"], "instanceType": b["type"],
            "privateIp": b["private_ip"], "region": b["region"], "version": "2017-09-30"})

    def get(self, path):
        """The body for a path after the version, or None."""
        if path == "user-data":
            return base64.b64decode(self.birth["user_data"]) or None
        if path == "dynamic/instance-identity/document":
            return self.identity().encode()
        if path == "":
            return b"dynamic\nmeta-data\nuser-data"
        if path in ("meta-data", "meta-data/"):
            return self.listing("")
        if not path.startswith("meta-data/"):
            return None
        name = path[len("meta-data/"):]
        found = self.tree().get(name)
        return found.encode() if found is not None else self.listing(name.rstrip("/") + "/")

    def listing(self, folder):
        if folder == "public-keys/":
            return b"0=key" if self.birth["public_key"] else None
        names = {}
        for path in self.tree():
            if path.startswith(folder):
                head, slash, _ = path[len(folder):].partition("/")
                names[head + slash] = True
        return "\n".join(sorted(names)).encode() or None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refused(self):
        """True when the request was answered with what keeps everybody out."""
        metadata = self.server.metadata
        metadata.requests += 1
        if metadata.broken:
            self.send(metadata.broken)
        elif metadata.birth["metadata"]["endpoint"] == "disabled":
            self.send(403)
        else:
            return False
        return True

    def do_PUT(self):
        self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 4096))
        if self.refused():
            return
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token":
            self.send(404)
        elif self.headers.get("X-Forwarded-For"):
            self.send(403)
        elif not ttl.isdigit() or not 1 <= int(ttl) <= TOKEN_SECONDS_MAX:
            self.send(400)
        else:
            self.send(200, self.server.metadata.token(int(ttl)).encode(),
                      [("X-aws-ec2-metadata-token-ttl-seconds", ttl)])

    def may_read(self):
        token = self.headers.get("X-aws-ec2-metadata-token")
        if token is not None:
            return self.server.metadata.token_holds(token)
        agent = self.headers.get("User-Agent", "")
        return (agent.startswith(("Cloud-Init/", "python-requests/"))
                or self.server.metadata.birth["metadata"]["tokens"] == "optional")

    def do_GET(self):
        if self.refused():
            return
        match = PREFIX.fullmatch(self.path)
        if not self.may_read():
            self.send(401)
        elif match is None or (body := self.server.metadata.get(match.group(1))) is None:
            self.send(404)
        else:
            self.send(200, body)


class Server(http.server.ThreadingHTTPServer):
    """Serves one node's metadata on a socket that was made in the node's namespace."""

    daemon_threads = True

    def __init__(self, sock, metadata):
        super().__init__(sock.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.metadata = metadata
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.2},
                         daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()
