#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dtdata serve, as the nodes of a run start it: the window, the cache, hostile requests, faults.
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=4
mkdir set
for i in 0 1 2 3 4 5; do head -c 3000000 /dev/urandom >set/part-$i; done
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"

# The agent of a run: holds the server's socket, and ends it.
cat >client.py <<'END'
import http.client, json, os, socket, subprocess, sys, time, urllib.error, urllib.request

listed = subprocess.check_output(["dtdata", "list", sys.argv[1]])
listed = [json.loads(line) for line in listed.split(b"\n") if line]
made = 0

class Server:
    def __init__(self, window=1 << 30, cache_max=0, store=None, ends=0, objects=None, now=None):
        global made
        made += 1
        self.run = os.path.abspath(f"r{made}")
        self.store = os.path.abspath(store or f"cas{made}")
        lines = [{"now": now}] if now else []
        lines += [{"ca": listed[0]["ca"]},
                  {"input": "set", "window": window, "cache_max": cache_max, "ends": ends}]
        objects = objects or listed[1:-1]
        lines += [dict(o, index=i) for i, o in enumerate(objects)] + [{"end": True}]
        text = "".join(json.dumps(l) + "\n" for l in lines)
        out = subprocess.run(["dtdata", "serve", self.store, self.run], input=text, text=True,
                             check=True, stdout=subprocess.PIPE).stdout
        self.port = json.loads(out)["port"]
        self.urls = open(self.run + "/stream/set/urls").read().split()
        self.path = "/" + self.urls[0].split("/", 3)[3]
        self.agent = socket.socket(socket.AF_UNIX)
        self.agent.connect(self.run + "/stream.sock")
        self.text = b""

    def event(self, what):  # waits for it
        while True:
            for line in self.text.split(b"\n")[:-1]:
                if json.loads(line)["what"] == what:
                    return json.loads(line)
            more = self.agent.recv(4096)
            assert more, "the server has ended"
            self.text += more

    def raw(self, data):  # all of the answer
        s = socket.create_connection(("127.0.0.1", self.port), 20)
        s.sendall(data)
        got = b""
        try:
            while more := s.recv(1 << 16):
                got += more
        except ConnectionError:
            pass
        return got

    def status(self, data):
        return int((self.raw(data).split(b" ", 2) + [b"0", b"0"])[1] or 0)

    def renew(self, text):  # bytes, or lines as JSON; the answer
        if not isinstance(text, bytes):
            text = "".join(json.dumps(l) + "\n" for l in text).encode()
        return subprocess.run(["dtdata", "renew", self.run], input=text, stdout=subprocess.PIPE)

    def end(self):
        self.agent.sendall(b"end\n")
        while self.agent.recv(4096):
            pass

def ask(path):
    return urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + path).read().decode()

def reads():
    return ask("/-/log").count("GET /bucket/")

def content(i):
    return open(f"set/part-{i}", "rb").read()

def get(url, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60)

def failure(url):
    try:
        return 200, get(url).read()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except http.client.IncompleteRead as e:
        return 0, e.partial

def size(path):
    try:
        return os.stat(path).st_blocks * 512
    except FileNotFoundError:  # removed meanwhile
        return 0

def on_disk(store):
    return sum(size(os.path.join(d, f)) for d, _, names in os.walk(store) for f in names
               if f not in ("known", "hashes"))

def wait(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)

count = 0
def ok(held, text):
    global count
    count += 1
    print(f"{'ok' if held else 'not ok'} {count} - {text}", flush=True)
END
cat >cases.py <<'END'
from client import *

# ---- the window, and the cache
ask("/-/forget")
s = Server(window=4000000)
wait(lambda: reads() == 1)
get(s.urls[0], Range="bytes=0-0").read()
wait(lambda: reads() == 2)
ok(on_disk(s.store) < 3 * 3100000, "what is fetched ahead stays in the window")
ok(get(s.urls[0]).read() == content(0) and get(s.urls[5]).read() == content(5),
   "any order is served")
s.end()
ask("/-/forget")
s = Server(window=3000000, cache_max=7000000)
same = True
for i in list(range(6)) * 2:
    same &= get(s.urls[i]).read() == content(i)
    wait(lambda: on_disk(s.store) <= 7100000)  # a file may move while the folder is looked through
ok(same, "a cache that is smaller than the data serves all of it, twice")
ok(reads() > 6, "what it removed to stay below its limit is read again")
s.end()

# ---- requests
s = Server()
c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
whole = content(0)
def part(range):
    c.request("GET", s.path, headers={"Range": range})
    r = c.getresponse()
    return r.status, r.read(), r.headers.get("Content-Range")
ok(part("bytes=10-19") == (206, whole[10:20], "bytes 10-19/3000000"), "a range")
ok(part("bytes=-5") == (206, whole[-5:], "bytes 2999995-2999999/3000000"), "the last bytes")
ok(part("bytes=2999990-") == (206, whole[-10:], "bytes 2999990-2999999/3000000"), "to the end")
ok(part("bytes=3000000-")[::2] == (416, "bytes */3000000"), "no such range")
ok(part("bytes=9-5")[:2] == (200, whole), "what is no range does not count")
c.request("HEAD", s.path)
r = c.getresponse()
ok((r.status, r.read(), r.headers["Content-Length"]) == (200, b"", "3000000"), "HEAD has no body")
c.request("GET", s.path, headers={"Range": "bytes=0-1", "If-Range": r.headers["ETag"]})
ok(c.getresponse().read() == whole[:2], "one connection has served them all; If-Range holds")
secret = s.path.split("/")[1]
def line(path, method="GET", more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n".encode()
ok(s.status(line(s.path.replace(secret, "0" * 32))) == 404, "a wrong secret finds nothing")
ok(s.status(line("/set/part-0")) == 404 and s.status(line("/")) == 404, "nor does none")
ok(all(s.status(line(f"/{secret}/set/{p}")) == 404
       for p in ("../set/part-0", "..%2f..%2fetc/passwd", "part-9", "", "part-0/", "%00part-0")),
   "what is not in the list is not there")
ok(s.status(line(s.path, "POST", "Content-Length: 2\r\n") + b"ab") in (405, 413),
   "only GET and HEAD")
ok(s.status(b"GET " + b"/a" * 20000 + b" HTTP/1.1\r\n\r\n") == 431, "a head that is too long")
ok(s.status(b"\x16\x03\x01\x02\x00\r\n\r\n") == 400, "what is no HTTP")
two = line(s.path, more="Range: bytes=0-0\r\n").replace(b"Connection: close\r\n", b"")
ok(s.raw(two + line(s.path, more="Range: bytes=1-1\r\n")).count(b"206 Partial") == 2, "two at once")
half = []
for i in range(300):
    h = socket.create_connection(("127.0.0.1", s.port))
    h.sendall(b"GET " + s.path.encode()[:i % 20])
    half.append(h)
stuck = socket.create_connection(("127.0.0.1", s.port))
stuck.sendall(line(s.path))  # never reads its answer
ok(get(s.urls[1]).read() == content(1), "readers that do not go on hold nobody up")
del half, stuck
if os.getuid() == 0:
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        os._exit(0 if s.status(line(s.path)) == 0 else 1)
    ok(os.waitpid(pid, 0)[1] == 0, "another user of this host is not served, secret or not")
else:
    ok(True, "another user of this host # SKIP only root can become one")
ok(s.event("first")["ms"] >= 0 and s.event("whole")["bytes"] == 18000000, "the agent gets both")
s.end()
wait(lambda: not os.path.exists(s.run + "/stream.sock"))
ok(not os.path.exists(s.run + "/stream.sock"), "the server ends with the run")

# ---- faults
for kind in "reset", "short", "slow":
    ask(f"/-/fault?kind={kind}&key=set/part-2&count=1")
s = Server(window=1)
ok(all(get(s.urls[i]).read() == content(i) for i in range(6)), "faults that pass are not seen")
s.end()
ask("/-/fault?kind=bytes&key=set/part-3&count=1")
s = Server(window=1)
status, data = failure(s.urls[3])
ok(status in (0, 409) and data != content(3), "a wrong byte is not passed on as the whole object")
ok("MD5" in s.event("failed")["text"], "the agent gets the reason")
ok(failure(s.urls[3]) == (200, content(3)), "the next read begins anew")
ask("/-/hold?key=set/part-5")
slow = socket.create_connection(("127.0.0.1", s.port))
slow.sendall(line(s.urls[5].split(str(s.port))[1]))
ok(failure(s.urls[4]) == (200, content(4)), "a reader that waits holds nobody up")
ask("/-/release")
got = b""
while more := slow.recv(1 << 16):
    got += more
ok(got.endswith(content(5)), "and gets its bytes when they come")
s.end()
s = Server(window=1)
os.rename("set/part-1", "old")
open("set/part-1", "wb").write(os.urandom(3000000))
subprocess.run(["dtdata", "put", "set", "s3://bucket/set"], check=True, stdout=subprocess.DEVNULL)
os.rename("old", "set/part-1")
status, text = failure(s.urls[1])
ok(status == 409 and "has changed since it was listed" in text,
   "an object that changed is an error")
s.end()
cut = subprocess.run(["dtdata", "serve", "cas9", "r9"], input='{"ca":""}\n', text=True,
                     stdout=subprocess.PIPE)
ok(cut.returncode != 0 and "cut off" in cut.stdout, "a list without its end is refused")
END
# ---- few bytes of large objects
mkdir big
for i in 0 1; do head -c 9000000 /dev/urandom >big/part-$i; done
dtdata put big s3://bucket/big >put.out || bail_out "$(cat put.out)"
cat >few.py <<'END'
from client import *

def whole(i):
    return open(f"big/part-{i}", "rb").read()

ask("/-/forget")
s = Server(window=1)
ok(get(s.urls[1], Range="bytes=5000000-5000099").read() == whole(1)[5000000:5000100],
   "few bytes of an object that is to come are served")
ok(get(s.urls[1], Range="bytes=100-299").read() == whole(1)[100:300], "few bytes are right")
ok(get(s.urls[1], Range="bytes=8999990-").read() == whole(1)[-10:], "the last bytes are right")
ok(get(s.urls[0]).read() == whole(0) and get(s.urls[1]).read() == whole(1),
   "both objects are whole in the end")
ok("part-1 bytes=5000000-5000099 206" in ask("/-/log"), "a request of their own has brought them")
s.end()
ask("/-/fault?kind=whole&key=big/part-1&count=100")
s = Server(window=1)
ok(all(get(s.urls[1], Range=f"bytes={n}-{n + 9}").read() == whole(1)[n:n + 10]
       for n in range(8000000, 1000, -999999)) and get(s.urls[1]).read() == whole(1),
   "a server without ranges sends all of it")
s.end()
END
ok 'the server holds' python3 cases.py s3://bucket/set
sed 's/^/# /' out/ok.log
is "$(grep -c '^not ok' out/ok.log)" 0 'every case holds'
ok 'the server holds for few bytes' python3 few.py s3://bucket/big
sed 's/^/# /' out/ok.log
is "$(grep -c '^not ok' out/ok.log)" 0 'every case of few bytes holds'

# ---- new addresses
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
cat >renew.py <<'END'
from client import *

now, good = int(time.time() * 1000), listed[1:-1]
bad = [dict(o, url=o["url"].replace("X-Amz-Signature=", "X-Amz-Signature=0")) for o in good]
s = Server(window=1, objects=bad, ends=now + 300000, store="renew1")
ok(s.event("ends")["input"] == "set", "addresses are asked for before they end")
ok(failure(s.urls[1])[0] == 502, "an address that is over reads nothing")
def taken(text):
    out = s.renew(text).stdout
    return json.loads(out)["end"] if out else None
end = {"end": True, "ends": now + 7200000}
ok(taken([{"input": "other"}] + good + [end]) == 0, "another input has no address here")
ok(taken(good + [end]) == 0, "addresses belong to an input")
ok(taken([{"input": "set"}] + [dict(o, id="0" * 64) for o in good] + [end]) == 0,
   "an address is taken for the same content alone")
ok(taken([{"input": "set"}] + [dict(o, path="../" + o["path"]) for o in good] + [end]) == 0,
   "an address is taken for a known object alone")
ok(taken(b"no JSON\n[1]\n{}\n\0\n" + b"{" * 300 + b"\n" + json.dumps(end).encode() + b"\n") == 0,
   "other lines change nothing")
ok(s.renew(b"x" * 200000).returncode != 0, "a line has a limit")
status, text = failure(s.urls[1])
ok(status == 409 and "has changed since it was listed" in text,
   "a read of an object that has changed in the source fails with that reason")
ok(s.renew([{"input": "set"}] + good[2:] + [end]) and failure(s.urls[0])[0] == 409 and
   "is not in the source any more" in failure(s.urls[0])[1],
   "a read of an object that has gone from the source fails with that reason")
ok(taken([{"input": "set"}] + good + [end]) == len(good), "new addresses are taken")
ok(s.event("renewed")["input"] == "set", "the server reports the new addresses to the agent")
ok(all(failure(s.urls[i]) == (200, content(i)) for i in range(6)), "they read every byte")
s.end()

# Several dtctl follow the run.
late = now + 3600000
s = Server(window=1, objects=bad, ends=now + 300000, store="renew4")
slow = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for one in slow:
    one.connect(s.run + "/renew.sock")
    one.sendall(b"".join(json.dumps(l).encode() + b"\n" for l in [{"input": "set"}] + good[:3]))
ok(taken([{"input": "set"}] + good + [{"end": True, "ends": late}]) == len(good),
   "a dtctl that does not go on holds no other one up")
for one in slow:
    one.sendall(json.dumps(end).encode() + b"\n")
ok([json.loads(one.recv(100))["end"] for one in slow] == [3, 3], "each dtctl has its own answer")
for _ in range(20):
    idle = socket.socket(socket.AF_UNIX)
    idle.connect(s.run + "/renew.sock")
    slow.append(idle)
ok(taken([{"input": "set"}] + good + [end]) == len(good), "connections that say nothing end")
ok(all(failure(s.urls[i]) == (200, content(i)) for i in range(6)), "every byte is read")
s.end()

# The clock of this node differs from that of the operator's computer.
for day in -86400000, 86400000:
    s = Server(window=1, objects=good, ends=now + day + 300000, now=now + day, store="renew5")
    left = s.event("ends")["left_ms"]
    ok(290000 <= left <= 300000, f"what is left does not depend on the node's clock ({left} ms)")
    ok(taken([{"now": now + day}, {"input": "set"}] + good +
             [{"end": True, "ends": now + day + 310000}]) == len(good) and
       b"renewed" not in s.text, "addresses that end no later are none for longer")
    ok(taken([{"now": now + day}, {"input": "set"}] + good +
             [{"end": True, "ends": now + day + 7200000}]) == len(good) and
       s.event("renewed")["input"] == "set", "new ones count by the operator's clock")
    s.end()
    ok(b'"over"' not in s.text, "no run ends for its node's clock")
s = Server(window=1, objects=good, ends=-(1 << 63), now=(1 << 63) - 1, store="renew5")
ok("end within 60 s" in s.event("over")["text"], "times without sense are over")
s.end()

s = Server(objects=good, ends=int(time.time() * 1000) + 62000, store="renew2")
s.event("whole")
time.sleep(2.5)  # the addresses come to their last minute
s.end()
ok(b'"over"' not in s.text, "objects that are here need no addresses")
s = Server(window=1, objects=bad, ends=now + 30000, store="renew3")
ok("end within 60 s" in s.event("over")["text"], "the agent hears of addresses that are over")
s.end()
END
ok 'the server takes new addresses' python3 renew.py s3://bucket/set
sed 's/^/# /' out/ok.log
is "$(grep -c '^not ok' out/ok.log)" 0 'every case of new addresses holds'

# ---- a full disk
mkdir full
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)" # a case has changed one
cat >disk.py <<'END'
import shutil
from client import *

s = Server(window=3000000, store="full/cas")
ok(all(get(s.urls[i]).read() == content(i) for i in list(range(6)) * 2),
   "a disk that is smaller than the data serves all of it, twice")
s.end()
wait(lambda: not os.path.exists(s.run + "/stream.sock"))
shutil.rmtree("full/cas")
with open("full/fill", "wb") as f:
    f.write(b"x" * (10 << 20))
s = Server(window=1, store="full/cas2")
status, text = failure(s.urls[0])
ok(status == 507 and "'s3://bucket/set/part-0': the disk has" in text, "a full disk is an error")
os.unlink("full/fill")
ok(failure(s.urls[0]) == (200, content(0)), "the next read succeeds when there is room")
s.end()
END
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    ok 'the server holds on a small disk' unshare -m sh -c \
        'mount -t tmpfs -o size=74m none full && exec python3 disk.py s3://bucket/set'
    sed 's/^/# /' out/ok.log
    is "$(grep -c '^not ok' out/ok.log)" 0 'every case of a full disk holds'
else
    skip 2 'only root can mount a small disk'
fi
s3_stop
done_testing
