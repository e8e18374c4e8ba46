# SPDX-License-Identifier: Apache-2.0
"""node.py: one node of the lab: a network namespace, an overlay of the image, and systemd in it.

    bridge dtc0 (operator's namespace) ── veth ── eth0 of the node, with its addresses
    lower: the image made by `make setup`    upper: a folder of this node
    systemd-nspawn --boot in the node's network namespace, in control groups of its own

There is no default route anywhere: a node reaches 10/8, 172.16/12 and 192.168/16 and the
documentation networks 203.0.113/24 and 198.51.100/24 on its link, and nothing else.
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import imds

BRIDGE = "dtc0"
LINK_NETS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "203.0.113.0/24", "198.51.100.0/24")
IMDS_ADDRESS = "169.254.169.254"
CLONE_NEWNET = 0x40000000
REBOOTED = 133
END_SECONDS_MAX = 20
CGROUP_SECONDS_MAX = 5
SMALL_DISK = "1g"
CLOUD_CFG = """\
datasource_list: [Ec2]
datasource:
  Ec2:
    metadata_urls: ["http://169.254.169.254"]
    strict_id: false
    timeout: 5
    max_wait: 20
network: {config: disabled}
ssh_genkeytypes: [ed25519]
"""
# Services of a machine image that a container does not need; they only cost start-up time.
MASKED = ("systemd-timesyncd.service", "console-getty.service", "getty.target",
          "systemd-logind-varlink.socket", "e2scrub_reap.service", "systemd-firstboot.service")
libc = ctypes.CDLL(None, use_errno=True)
with open(os.path.dirname(os.path.abspath(__file__)) + "/stages.py", encoding="utf-8") as stages:
    STAGES = stages.read()


def sh(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def cgroup_folders(name):
    """The folder `name` below this process's group, in the unified and in systemd's hierarchy."""
    own = {}
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own[controllers] = path
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            where, kind = fields.split()[4], rest.split()
            if kind[0] == "cgroup2" and "" in own:
                yield where + own[""].rstrip("/") + "/" + name
            elif kind[0] == "cgroup" and "name=systemd" in kind[2]:
                yield where + own["name=systemd"].rstrip("/") + "/" + name


def remove_cgroup(folder):
    """A group may be busy for a moment after its last process has gone."""
    end = time.monotonic() + CGROUP_SECONDS_MAX
    while os.path.isdir(folder) and time.monotonic() < end:
        for path, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                time.sleep(0.05)


def name_of(birth):
    """The node's name in its cluster: the Name tag, without the cluster's name in front of it."""
    tags = birth["tags"]
    return tags.get("Name", "").removeprefix(f"dtctl-{tags.get('dtctl-cluster', '')}-")


class Node:
    """States: new, running, ended. `lock` guards the end; `watch` alone takes a node apart."""

    def __init__(self, lab, birth, presets):
        self.lab, self.birth, self.presets = lab, birth, presets
        self.id = birth["id"]
        self.name = name_of(birth) or self.id
        self.folder = os.path.join(lab.folder, self.id)
        self.state, self.ending = "new", ""
        self.lock = threading.Lock()
        self.process, self.imds = None, None
        self.metadata = imds.Metadata(birth)
        self.link = "dv" + self.id[-10:]
        self.cgroups = list(cgroup_folders(f"dtctl-cloud-{lab.id}/{self.id}"))
        self.boots = 0
        self.born = time.time()
        self.gone = threading.Event()

    # ---- coming up ----------------------------------------------------------------------------
    def start(self):
        try:
            os.makedirs(self.folder)
            self.make_network()
            self.make_root()
            self.boot()
        except Exception:
            self.ending = "start"
            self.take_apart()
            self.gone.set()
            raise
        threading.Thread(target=self.watch, daemon=True).start()

    def make_network(self):
        ns, b = self.id, self.birth
        if not b["mac"] or not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", b["mac"]):
            b["mac"] = "02:00:" + ":".join(f"{int(x):02x}" for x in b["private_ip"].split("."))
        first = int(b["mac"][:2], 16) & 0xfe | 0x02  # a local address, and not a group's
        b["mac"] = f"{first:02x}" + b["mac"][2:]
        sh("ip", "netns", "add", ns)
        sh("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", ns)
        sh("ip", "link", "set", self.link, "master", BRIDGE, "up")
        sh("ip", "-n", ns, "link", "set", "eth0", "address", b["mac"])
        sh("ip", "-n", ns, "link", "set", "lo", "up")
        sh("ip", "-n", ns, "addr", "add", IMDS_ADDRESS + "/32", "dev", "lo")
        sh("ip", "-n", ns, "addr", "add", b["private_ip"] + "/32", "dev", "eth0")
        sh("ip", "-n", ns, "link", "set", "eth0", "up")
        for net in LINK_NETS:
            sh("ip", "-n", ns, "route", "add", net, "dev", "eth0", "src", b["private_ip"])
        if b["public_ip"]:
            self.set_public(b["public_ip"])
        self.imds = imds.Server(self.socket_inside(), self.metadata)

    def set_public(self, address):
        sh("ip", "-n", self.id, "addr", "replace", address + "/32", "dev", "eth0")
        self.birth["public_ip"] = address

    def socket_inside(self):
        """A socket that listens on the metadata address, made by a thread in the namespace."""
        made = []

        def visit():
            with open("/run/netns/" + self.id, "rb") as there:
                if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                    made.append(OSError(ctypes.get_errno(), "setns"))
                    return
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((IMDS_ADDRESS, 80))
            sock.listen(64)
            made.append(sock)

        thread = threading.Thread(target=visit)
        thread.start()
        thread.join()
        if not isinstance(made[0], socket.socket):
            raise made[0]
        return made[0]

    def make_root(self):
        upper = self.path("disk/upper")
        os.makedirs(self.path("disk"))
        if "degraded" in self.presets:
            sh("mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "dtctl-disk", self.path("disk"))
        for name in ("disk/upper", "disk/work", "root"):
            os.makedirs(self.path(name))
        os.chmod(upper, 0o755)
        write(upper + "/etc/cloud/cloud.cfg.d/90_lab.cfg", CLOUD_CFG)
        write(upper + "/etc/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=volatile\n")
        write(upper + "/etc/hostname", "localhost\n")
        write(upper + "/etc/hosts", "127.0.0.1 localhost\n")
        write(upper + "/etc/resolv.conf", "nameserver 127.0.0.1\n") # no server there: fails at once
        write(upper + "/etc/default/locale", "LANG=C.UTF-8\n")
        if os.environ.get("CLOUD_INIT") != "own":
            write(upper + "/usr/bin/cloud-init", STAGES, 0o755)
        for unit in MASKED:
            self.mask(unit)
        for preset in self.presets:
            PRESETS[preset](self)
        sh("mount", "-t", "overlay", "-o",
           f"lowerdir={self.lab.image},upperdir={upper},workdir={self.path('disk/work')}",
           "dtctl-" + self.id, self.path("root"))

    def mask(self, unit):
        folder = self.path("disk/upper/etc/systemd/system")
        os.makedirs(folder, exist_ok=True)
        os.symlink("/dev/null", f"{folder}/{unit}")

    def boot(self):
        # Each boot has a group of its own: systemd does not start in what another one has left.
        self.boots += 1
        groups = [f"{folder}/boot{self.boots}" for folder in self.cgroups]
        for folder in groups:
            os.makedirs(folder)
        join = "".join(f"echo $$ >'{folder}/cgroup.procs'; " for folder in groups)
        command = ["systemd-nspawn", "--quiet", "--keep-unit", "--register=no", "--settings=no",
                   "--network-namespace-path=/run/netns/" + self.id, "--machine=" + self.id,
                   "--directory=" + self.path("root"), "--resolv-conf=off", "--timezone=off",
                   "--link-journal=no", "--console=read-only", "--capability=CAP_NET_ADMIN",
                   "--boot"]
        if "mute" in self.presets:
            command = ["sleep", "infinity"]
        with open(self.path("console"), "ab") as console:
            self.process = subprocess.Popen(
                ["sh", "-c", join + 'exec "$@"', "node"] + command, stdin=subprocess.DEVNULL,
                stdout=console, stderr=subprocess.STDOUT, start_new_session=True)
        self.state = "running"

    # ---- going down ----------------------------------------------------------------------------
    def watch(self):
        """Waits for the end of the container, whoever ends it, and takes everything apart."""
        while True:
            status = self.process.wait()
            with self.lock:
                if status == REBOOTED and not self.ending:
                    self.kill()
                    for folder in self.cgroups:
                        remove_cgroup(f"{folder}/boot{self.boots}")
                    self.boot()
                    continue
                by_itself = not self.ending
                self.ending = self.ending or "guest"
                break
        if by_itself and self.birth["on_shutdown"] == "terminate":
            self.lab.tell_shim(self.id, "guest")
        self.take_apart()
        self.gone.set()

    def kill(self):
        """Ends every process of the node at once, as the loss of the machine would."""
        for folder in self.cgroups:
            if os.path.exists(folder + "/cgroup.kill"):
                with open(folder + "/cgroup.kill", "w", encoding="ascii") as file:
                    file.write("1")
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the watch may just have seen its end
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self, why):
        """Ends the node and returns when nothing of it is left."""
        with self.lock:
            if not self.ending:
                self.ending = why
                self.kill()
        if not self.gone.wait(END_SECONDS_MAX):
            raise RuntimeError(f"{self.name} ({self.id}) does not end")

    def take_apart(self):
        """Also what came up half; cloud.sh looks whether anything is left."""
        self.kill()
        if self.imds is not None:
            self.imds.stop()
        self.keep_logs()
        for words in (["umount", self.path("root")], ["umount", self.path("disk")],
                      ["ip", "link", "delete", self.link], ["ip", "netns", "delete", self.id]):
            subprocess.run(words, check=False, stderr=subprocess.DEVNULL)
        for folder in self.cgroups:
            remove_cgroup(folder)
        for name in ("disk", "root"):
            shutil.rmtree(self.path(name), ignore_errors=True)
        self.state = "ended"

    def keep_logs(self):
        for name in ("var/log/cloud-init.log", "var/log/cloud-init-output.log",
                     "var/lib/dtctl/ready"):
            source = self.path("disk/upper/" + name)
            if os.path.isfile(source):
                shutil.copy(source, self.path(os.path.basename(name)))

    # ---- what tests do to it -------------------------------------------------------------------
    def leader(self):
        """The process id of the container's init, or 0."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                      encoding="ascii") as file:
                return int(file.read().split()[0])
        except (OSError, IndexError, ValueError):
            return 0

    def inside(self, *words):
        sh("nsenter", "-t", str(self.leader()), "-m", "-u", "-i", "-n", "-p", "--", *words)

    def freeze(self, on):
        for folder in self.cgroups:
            if os.path.exists(folder + "/cgroup.freeze"):
                write(folder + "/cgroup.freeze", "1" if on else "0")
                return
        raise RuntimeError("no unified control group hierarchy here to freeze a node with")

    def set_link(self, on):
        sh("ip", "link", "set", self.link, "up" if on else "down")

    def spot_notice(self, seconds, action):
        self.metadata.notice = (action, time.time() + seconds)
        timer = threading.Timer(seconds, self.reclaim)
        timer.daemon = True
        timer.start()

    def reclaim(self):
        if self.state == "running" and not self.ending:
            self.lab.tell_shim(self.id, "spot")
            self.end("spot")

    def path(self, name):
        return os.path.join(self.folder, name)

    def describe(self):
        b = self.birth
        return {"id": self.id, "name": self.name, "state": self.state, "ending": self.ending,
                "private_ip": b["private_ip"], "public_ip": b["public_ip"], "zone": b["zone"],
                "region": b["region"], "leader": self.leader() if self.state == "running" else 0,
                "life_cycle": b["life_cycle"], "folder": self.folder,
                "imds_requests": self.metadata.requests}


def preset_cloud_init_fails(node):
    """A file where the node's scripts want a folder: cloud-init cannot write them."""
    write(node.path("disk/upper/usr/local/lib/dtctl"), "in the way\n")


def preset_check_fails(node):
    """A unit without which a node may not be used does not start."""
    write(node.path("disk/upper/etc/systemd/system/dtctl-metadata.service.d/lab.conf"),
          "[Service]\nExecStartPre=/bin/false\n")


PRESETS = {
    "mute": lambda node: None,  # the machine never starts
    "degraded": lambda node: None,  # hardly any room on its disk
    "no-ssh": lambda node: node.mask("ssh.service"),
    "cloud-init-fails": preset_cloud_init_fails,
    "check-fails": preset_check_fails,
}
