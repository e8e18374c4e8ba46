#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does dtdata find the credentials that botocore finds, and sign as it does?

aws_oracle.py find|sign SEED COUNT: random files, caches and environments, with aws.py as AWS; or
random keys, regions and names of objects. Prints what differs, and one line with the counts.
Left out, since dtdata differs on purpose: AWS_REGION, and AWS_PROFILE beside AWS_DEFAULT_PROFILE
(botocore does not know the first, and prefers the last); login_session (refused); duration_seconds
that is no number (refused).
"""
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit
from xml.sax.saxutils import escape

import aws
import botocore.auth
import botocore.credentials
import botocore.session
from botocore.awsrequest import AWSRequest

HOME = os.environ["HOME"]
PATH = os.environ["PATH"]
botocore.credentials.AssumeRoleProvider.__init__.__defaults__ = (lambda _: "123456", None, None)

# ---- files ---------------------------------------------------------------------------------------


class Case:
    """The files of one case, and the environment that leads to them."""

    def __init__(self, rng, port):
        self.rng, self.count = rng, 0
        self.config, self.credentials, self.sessions = {}, {}, {}
        self.names = ["default"] + rng.sample(["lab", "x.y-1", "two words", "prod", "b"], 3)
        self.base = f"http://127.0.0.1:{port}"
        self.env = {"HOME": HOME, "PATH": PATH, "AWS_ENDPOINT_URL": self.base,
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.base, "NO_PROXY": "127.0.0.1"}

    def chance(self, part):
        return self.rng.random() < part

    def word(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def put(self, name, key, value):
        both = [self.config, self.credentials]
        self.rng.choice(both).setdefault(name, {})[key] = value

    def time(self, hours):
        at = datetime.now(timezone.utc) + timedelta(hours=hours)
        zone = timezone(timedelta(hours=self.rng.choice([0, 2, -5])))
        return self.rng.choice([at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                at.astimezone(zone).isoformat(timespec="seconds"),
                                at.isoformat(timespec="milliseconds")])

    # Kinds of profiles.
    def keys(self, name):
        where = self.rng.choice([self.config, self.credentials]).setdefault(name, {})
        where["aws_access_key_id"] = key = self.word("AK")
        if self.chance(0.9):
            where["aws_secret_access_key"] = aws.secret_of(key)
        if self.chance(0.2):
            where["aws_session_token"] = self.word("tok=en/")

    def process(self, name):
        key = self.word("AP")
        answer = {"Version": 1, "AccessKeyId": key, "SecretAccessKey": aws.secret_of(key)}
        if self.chance(0.3):
            answer["SessionToken"] = self.word("T")
        if self.chance(0.5):
            answer["Expiration"] = self.time(self.rng.choice([-2, 2, 30]))
        if self.chance(0.1):
            answer["Version"] = 2
        if self.chance(0.1):
            del answer["SecretAccessKey"]
        text = json.dumps(answer)
        quoted = self.rng.choice([f"'{text}'", '"' + text.replace('"', '\\"') + '"',
                                  text.replace('"', '\\"').replace(" ", "\\ ")])
        line = self.rng.choice(["echo {}", "/bin/echo  {}", "printf %s {}", "'ec'\"ho\" {}"])
        if self.chance(0.15):
            line = self.rng.choice(["false", "sh -c 'echo sorry >&2; exit 3'", "no-such-program",
                                    "echo 'open {}", "echo $HOME", "echo []"])
        self.put(name, "credential_process", line.replace("{}", quoted))

    def login(self, name):
        session = self.chance(0.6)
        where = self.config.setdefault(name, {})
        url, region = f"https://{self.word('org')}.example/start", "eu-west-3"
        cache = url
        if session:
            cache = self.word("session")
            where["sso_session"] = cache
            settings = {"sso_start_url": url, "sso_region": region}
            if self.chance(0.1):
                del settings[self.rng.choice(list(settings))]
            if self.chance(0.95):
                self.sessions[cache] = settings
            if self.chance(0.2):
                where["sso_region"] = self.rng.choice([region, "us-east-2"])
        else:
            where.update({"sso_start_url": url, "sso_region": region})
        where.update({"sso_account_id": "123456789012",
                      "sso_role_name": "denied" if self.chance(0.05) else self.word("Role")})
        if self.chance(0.1):
            del where[self.rng.choice(["sso_account_id", "sso_role_name"])]
        if self.chance(0.9):
            self.token(cache, url, region)

    def token(self, cache, url, region):
        token = {"startUrl": url, "region": region,
                 "accessToken": self.word("bad-" if self.chance(0.05) else "good-"),
                 "expiresAt": self.time(self.rng.choice([-1, 0.1, 5]))}
        if self.chance(0.6):
            token.update({"clientId": self.word("client"), "clientSecret": self.word("s"),
                          "registrationExpiresAt": self.time(self.rng.choice([-1, 500])),
                          "refreshToken": self.word("bad-" if self.chance(0.2) else "good-")})
        if self.chance(0.05):
            del token["accessToken"]
        name = hashlib.sha1(cache.encode()).hexdigest()
        path = os.path.join(HOME, ".aws/sso/cache", name + ".json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            json.dump(token, f)

    def role(self, name):
        arn = "arn:aws:iam::123456789012:role/" + ("denied" if self.chance(0.05) else self.word("r"))
        self.put(name, "role_arn", arn)
        source = self.chance(0.75)
        if source:
            self.put(name, "source_profile", self.rng.choice(self.names + self.names[1:] + ["gone"]))
        if self.chance(0.03 if source else 0.95):
            self.put(name, "credential_source", self.rng.choice(
                ["Environment", "Ec2InstanceMetadata", "Ec2InstanceMetadata", "EcsContainer",
                 "Nowhere"]))
        for key, value, part in (("external_id", self.word("ext+"), 0.3),
                                 ("role_session_name", self.word("me@x."), 0.4),
                                 ("duration_seconds", "1800", 0.3),
                                 ("mfa_serial", "arn:aws:iam::1:mfa/me", 0.2)):
            if self.chance(part):
                self.put(name, key, value)

    def web(self, name):
        if self.chance(0.9):
            self.put(name, "role_arn", "arn:aws:iam::1:role/" + self.word("web"))
        self.put(name, "web_identity_token_file", self.web_file())
        if self.chance(0.5):
            self.put(name, "role_session_name", self.word("web."))

    def web_file(self):
        path = os.path.join(HOME, self.word("web-token"))
        if self.chance(0.9):
            with open(path, "w") as f:
                f.write(self.word("eyJ."))
        return path

    def nothing(self, name):
        self.config.setdefault(name, {})["output"] = "json"

    # All of it.
    def make(self):
        kinds = [self.keys, self.keys, self.process, self.login, self.login, self.role, self.role,
                 self.role, self.web, self.nothing]
        for name in self.names:
            self.rng.choice(kinds)(name)
            if self.chance(0.2):
                self.rng.choice(kinds)(name)
            self.config.setdefault(name, {})["region"] = self.rng.choice(
                ["eu-west-1", "us-west-2", "cn-north-1"])
        self.make_env()
        self.write()

    def make_env(self):
        env = self.env
        if self.chance(0.7):
            env["AWS_PROFILE"] = self.rng.choice(self.names)
        elif self.chance(0.1):
            env["AWS_PROFILE"] = "gone"
        if self.chance(0.12) and env.get("AWS_PROFILE") != "gone":
            env["AWS_ACCESS_KEY_ID"] = key = self.word("AE")
            if self.chance(0.85):
                env["AWS_SECRET_ACCESS_KEY"] = aws.secret_of(key)
            if self.chance(0.4):
                env["AWS_SESSION_TOKEN"] = self.word("E")
            if self.chance(0.4):
                env["AWS_CREDENTIAL_EXPIRATION"] = self.time(self.rng.choice([-1, 3]))
        if self.chance(0.1):
            env["AWS_WEB_IDENTITY_TOKEN_FILE"] = self.web_file()
            if self.chance(0.8):
                env["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/" + self.word("env")
            if self.chance(0.5):
                env["AWS_ROLE_SESSION_NAME"] = self.word("env.")
        if self.chance(0.15):
            env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = self.base + "/container?of=" + self.word("")
            env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = self.rng.choice(["container token", "bad"])
        if self.chance(0.3):
            env["AWS_EC2_METADATA_DISABLED"] = "true"
        if self.chance(0.2):
            env["AWS_DEFAULT_REGION"] = "ap-south-1"

    def section(self, kind, name):
        if kind == "profile" and name == "default" and self.chance(0.8):
            return "[default]"
        quote_ = '"' if " " in name or self.chance(0.1) else ""
        return f"[{kind}{self.rng.choice([' ', '  '])}{quote_}{name}{quote_}]"

    def lines(self, values):
        mark = self.rng.choice(["=", " = ", " ="])
        text = "".join(f"{k}{mark}{v}\n" for k, v in values.items())
        if self.chance(0.2):
            text = "# a comment = 1\n" + text + "; another\n\n"
        if self.chance(0.1):
            text += "s3 =\n  max_queue_size = 9\n  aws_access_key_id = NESTED\n"
        return text

    def write(self):
        config = [self.section("profile", n) + "\n" + self.lines(v) for n, v in self.config.items()]
        config += [self.section("sso-session", n) + "\n" + self.lines(v)
                   for n, v in self.sessions.items()]
        self.rng.shuffle(config)
        credentials = [f"[{n}]\n" + self.lines(v) for n, v in self.credentials.items()]
        os.makedirs(os.path.join(HOME, ".aws"), exist_ok=True)
        for name, sections, variable in (("config", config, "AWS_CONFIG_FILE"),
                                         ("credentials", credentials,
                                          "AWS_SHARED_CREDENTIALS_FILE")):
            path = os.path.join(HOME, ".aws", name)
            if self.chance(0.2):
                path = os.path.join(HOME, self.word(name))
                self.env[variable] = path.replace(HOME, "~") if self.chance(0.5) else path
            with open(path, "w") as f:
                f.write("".join(sections))


# ---- both ----------------------------------------------------------------------------------------


def by_botocore(env):
    os.environ.clear()
    os.environ.update(env)
    session = botocore.session.Session()
    try:
        found = session.get_credentials()
        if found is None:
            return "error", "nothing is set up"
        key = found.get_frozen_credentials()
        ends = getattr(found, "_expiry_time", None)
        return (key.access_key, key.secret_key, key.token,
                session.get_config_variable("region"), ends and int(ends.timestamp()))
    except Exception as e:  # noqa: BLE001: any failure is one
        return "error", f"{type(e).__name__}: {e}"


def by_dtdata(env):
    p = subprocess.Popen(["dtdata", "--asks", "account"], env=env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    found, text = None, ""
    for line in p.stdout:
        j = json.loads(line)
        if "ask" in j:
            p.stdin.write('{"code":"123456"}\n' if j["ask"] == "code" else "{}\n")
            p.stdin.flush()
        elif "account" in j:
            found = j["account"]
        else:
            text = j.get("text", "")
    if p.wait() or not found:
        return "error", text
    return (found["id"], found["secret"], found["token"], found["region"],
            found["ends"] and found["ends"] // 1000 or None)


def is_odd(want, got):
    """botocore reads a profile's sso_session also for keys that are found elsewhere."""
    return want[0] == "error" and "SSO token provider" in want[1] and got[0] != "error"


def tokens():
    """What the tokens of logins say, without times."""
    folder, found = os.path.join(HOME, ".aws/sso/cache"), {}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name)) as f:
            found[name] = {k: v for k, v in json.load(f).items() if k != "expiresAt"}
    return found


def same(x, y):
    if x[0] == "error" or y[0] == "error":
        return x[0] == y[0]
    near = x[4] is y[4] or (x[4] and y[4] and abs(x[4] - y[4]) <= 5)
    return x[:4] == y[:4] and near


def show(case):
    print("#", {k: v for k, v in case.env.items() if k.startswith("AWS")})
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        usual = ".aws/config" if name == "AWS_CONFIG_FILE" else ".aws/credentials"
        path = case.env.get(name, "~/" + usual).replace("~", HOME)
        print("# ---", usual, open(path).read().replace("\n", "\n# "))


def find(seed, count):
    server, kinds, wrong = aws.serve(), Counter(), 0
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        shutil.rmtree(os.path.join(HOME, ".aws"), ignore_errors=True)
        case = Case(rng, server.server_port)
        case.make()
        cache, copy = os.path.join(HOME, ".aws/sso"), os.path.join(HOME, "sso.copy")
        shutil.rmtree(copy, ignore_errors=True)
        if os.path.exists(cache):
            shutil.copytree(cache, copy)
        want = by_botocore(case.env)
        kept = tokens()
        if os.path.exists(copy):  # without what botocore has renewed
            shutil.rmtree(cache)
            shutil.move(copy, cache)
        got = by_dtdata(case.env)
        odd = is_odd(want, got)
        kinds["odd" if odd else "error" if want[0] == "error" else want[0][:2]] += 1
        if not odd and (not same(want, got) or kept != tokens()):
            wrong += 1
            print(f"# case {number}: botocore {want}\n#   dtdata {got}")
            show(case)
        for secret in ("SECRET-OF-", "TOKEN/", "good-"):
            if got[0] == "error" and secret in got[1]:
                wrong += 1
                print(f"# case {number}: the error has a secret: {got[1]}")
    print(f"find seed={seed} cases={count} wrong={wrong} "
          + " ".join(f"{k}={v}" for k, v in sorted(kinds.items())))
    return wrong


# ---- signatures ----------------------------------------------------------------------------------

seen = []
keys_of = []


class Bucket(BaseHTTPRequestHandler):
    """Lists random keys, and keeps the requests."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        seen.append((self.path, dict(self.headers.items())))
        page = "".join(f"<Contents><Key>{escape(quote(k))}</Key><Size>1</Size>"
                       f"<ETag>&quot;e&quot;</ETag></Contents>" for k in keys_of)
        body = (f"<ListBucketResult>{page}<EncodingType>url</EncodingType>"
                "</ListBucketResult>").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def words(rng, most):
    alphabet = "abcZ09-._~ +=&*%#?@!$'(),;:/ü€語"
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, most)))


def stamp_of(text):
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ")


def check_header(key, region, base):
    path, headers = seen[-1]
    low = {k.lower(): v for k, v in headers.items()}
    request = AWSRequest("GET", base + path, headers={
        "x-amz-content-sha256": low["x-amz-content-sha256"]})
    request.context["payload_signing_enabled"] = True
    at = stamp_of(low["x-amz-date"])
    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: at
    botocore.auth.S3SigV4Auth(key, "s3", region).add_auth(request)
    return request.headers["Authorization"], low["authorization"]


def check_url(key, region, base, name, url):
    query = dict(parse_qsl(urlsplit(url).query))
    at = stamp_of(query["X-Amz-Date"])
    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: at
    request = AWSRequest("GET", f"{base}/bucket/{quote(name, safe='/-_.~')}")
    botocore.auth.S3SigV4QueryAuth(key, "s3", region,
                                   expires=int(query["X-Amz-Expires"])).add_auth(request)
    want = urlsplit(request.url)
    return ((want.path, sorted(parse_qsl(want.query))),
            (urlsplit(url).path, sorted(parse_qsl(urlsplit(url).query))))


def sign(seed, count):
    server, wrong, urls = ThreadingHTTPServer(("127.0.0.1", 0), Bucket), 0, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        alphabet = "ABCabc019+/=-_."
        secret, token = ("".join(rng.choice(alphabet) for _ in range(n)) for n in (40, 300))
        key = botocore.credentials.Credentials("AK" + str(number), secret,
                                               token if rng.random() < 0.5 else None)
        region = rng.choice(["us-east-1", "eu-central-1", "ap-southeast-4"])
        prefix = "p" + words(rng, 12).replace("/", "") + "/"
        keys_of[:] = sorted({prefix + "k" + words(rng, 30).replace("/", "-") for _ in range(20)})
        env = {"HOME": HOME, "PATH": PATH, "AWS_ENDPOINT_URL_S3": base, "AWS_REGION": region,
               "AWS_ACCESS_KEY_ID": key.access_key, "AWS_SECRET_ACCESS_KEY": secret,
               "NO_PROXY": "127.0.0.1"}
        if key.token:
            env["AWS_SESSION_TOKEN"] = key.token
        p = subprocess.run(["dtdata", "list", "s3://bucket/" + prefix], env=env,
                           stdout=subprocess.PIPE, text=True)
        lines = [json.loads(x) for x in p.stdout.splitlines()]
        pairs = [check_header(key, region, base)]
        pairs += [check_url(key, region, base, x["name"].removeprefix("s3://bucket/"), x["url"])
                  for x in lines if "url" in x]
        urls += len(pairs) - 1
        if len(pairs) != len(keys_of) + 1:
            pairs.append((len(keys_of), p.stdout))
        for want, got in pairs:
            if want != got:
                wrong += 1
                print(f"# case {number}: botocore {want}\n#   dtdata {got}")
    print(f"sign seed={seed} cases={count} urls={urls} wrong={wrong}")
    return wrong


os.environ.pop("AWS_PROFILE", None)
began = time.monotonic()
failed = {"find": find, "sign": sign}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
print(f"# {time.monotonic() - began:.1f} s")
sys.exit(1 if failed else 0)
