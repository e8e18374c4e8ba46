# SPDX-License-Identifier: Apache-2.0
"""Programs and tests, unchanged and with a changed object in them."""
import collections
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading

from mutation.machine import BUILD, JOBS, SCRATCH, SOURCE, UNCHANGED, run

# These compute for long; all others run under sanitizers, which find what a script cannot see.
UNSANITIZED = re.compile("tests/unit/(kernels|nn|comm|data)/|bin/dttrain")
UNCHANGED_EMBED = os.path.join(SCRATCH, "unchanged.o")
EMBEDDED = ("dtrun", "dttrain", "dtdata")  # the programs in dtctl
PROGRAM = re.compile(r"(?:tests/(?:unit|sim)/(?:\w+/)?(?:test|sim)_\w+)$")
# Tests of what runs on GPUs: gcc makes them, with the stand-ins and the kernels' PTX beside them.
GPU_PROGRAMS = [os.path.relpath(f, SOURCE)[:-2] for f in sorted(
    glob.glob(os.path.join(SOURCE, "tests/gpu/test_*.c")))
    if re.search("/test_(cuda_.*|collectives|nccl_library)\\.c$", f)]
GPU_PTX = os.path.join(BUILD, "gpu/lines")
HOPPER = "hopper hopper_edges hopper_counts"  # products that only GPUs since 9.0 have


def recipes(mode):
    """How make compiles each source, and links each test: words of the commands."""
    text = subprocess.check_output(
        ["make", "-Bn", "--no-print-directory", "MODE=" + ("release" if mode == "gpu" else mode),
         "BUILD=" + os.path.relpath(BUILD, SOURCE)] + (
             gpu_made() if mode == "gpu" else ["all", "test-programs"]), cwd=SOURCE, text=True,
        env={**os.environ, "HOME": os.environ["MUTANTS_HOME"]}, stderr=subprocess.DEVNULL)
    compiles, links, embed = {}, {}, None
    for line in text.replace("\\\n", " ").split("\n"):
        m = re.match(r"printf '[^']*' '(?:CC|LINK)' '[^']*';(?:mkdir -p \S+ && )?"
                     r"((?:musl-)?(?:gcc|clang) [^&;]*)", line)
        words = shlex.split(m.group(1)) if m else []
        if "lib/fleet/embedded_files.sh" in line:
            embed = shlex.split(line[line.index("lib/fleet/embedded_files.sh"):].split("&")[0])
        if "-c" in words:
            compiles[words[-1]] = words[:words.index("-MMD")] + [
                w for w in words[words.index("-MMD") + 2:words.index("-c")] if w != "-g"]
        elif words:
            path = words[words.index("-o") + 1]
            name = os.path.relpath(path, os.path.join(os.path.relpath(BUILD, SOURCE), mode))
            if mode == "gpu":
                links["tests/gpu/" + name] = words
            elif PROGRAM.match(name) or os.path.dirname(path).endswith("bin"):
                links[name[name.find("bin/") if "bin/" in name else 0:].replace(".new", "")] = words
    return compiles, links, embed


def content(path):
    with open(path, "rb") as f:
        return f.read()


def mode_of(name):
    return "gpu" if name in GPU_PROGRAMS else "release" if name == "bin/dtdata" else \
        "debug" if UNSANITIZED.match(name) else "san"


def program_of(name):
    """Where make puts it."""
    if name in GPU_PROGRAMS:
        return os.path.join(BUILD, "gpu", os.path.basename(name))
    return os.path.join(BUILD, mode_of(name), name)


def gpu_made():
    return [os.path.relpath(program_of(name), SOURCE) for name in GPU_PROGRAMS]


def command_of(name, program):
    """Runs a test in the given program."""
    if name not in GPU_PROGRAMS:
        return [program]
    if "_cuda_" not in name:
        # The stand-in for NCCL is in the folder of the program that make links.
        return ["bash", "-c", 'cp "$1" /tmp/gpu.$$; LD_LIBRARY_PATH=$0 /tmp/gpu.$$; s=$?; '
                'rm /tmp/gpu.$$; exit $s', os.path.join(BUILD, "gpu"), program]
    again = ' && CASE_CAPABILITY=90 "$0" "$1" ' + HOPPER if name.endswith("_product") else ""
    return ["bash", "-c", 'export EMU_SEED=7; "$0" "$1"' + again, program, GPU_PTX]


def environment_of(name):
    """Programs that end may leave memory to the system; unit tests free theirs."""
    return {"ASAN_OPTIONS": "detect_leaks=0"} if name.endswith(".t") else {}


class Failed(Exception):
    pass


class Builder:
    """Compiles and links with the commands of make; each thread has a folder of its own."""

    def __init__(self):
        self.compiles, self.links = {}, {}
        for mode in ("gpu", "san", "release", "debug"):
            self.compiles[mode], links, self.embed = recipes(mode)
            self.links.update((name, w) for name, w in links.items() if mode_of(name) == mode)
        self.originals = {}
        self.where = threading.local()

    def folder(self):
        if not hasattr(self.where, "folder"):
            self.where.folder = os.path.join(SCRATCH, "worker%x" % threading.get_ident())
            os.makedirs(self.where.folder, exist_ok=True)
        return self.where.folder

    def compile(self, path, text, mode="debug"):
        """The object's name."""
        source = os.path.join(self.folder(), "changed.c")
        to = os.path.join(self.folder(), "changed.%s.o" % mode)
        with open(source, "w") as f:
            f.write('#line 1 "%s"\n%s' % (path, text))
        words = self.compiles[mode][path]
        if mode == "debug" and "-O3" not in words:
            words = words + ["-O2"]  # finds more that is the same
        if run(words + ["-w", "-iquote", os.path.dirname(path), "-c", "-o", to, source], 300) != 0:
            raise Failed
        return to

    def original(self, path):
        if path not in self.originals:
            with open(os.path.join(SOURCE, path)) as f:
                text = f.read()
            try:
                self.originals[path] = (text, content(self.compile(path, text)))
            except Failed:
                sys.exit("mutants: '%s' does not compile unchanged" % path)
        return self.originals[path]

    def link(self, name, path, changed, to, embed=None):
        """The changed object stands in for its own, or goes before the archive that has it."""
        words, own, mode = [], not path, mode_of(name)
        for w in self.links[name]:
            if path and w.endswith("/" + path[:-2] + ".o"):
                w, own = changed[mode], True
            words.append(embed if embed and w.endswith("/embed/embed.o") else w)
        at = words.index("-o") + 1
        words[at] = to
        if not own:
            words.insert(at + 1, changed[mode])
        if run(words, 300) != 0:
            raise Failed

    def programs(self, path, text, changed):
        """A folder with the programs; those that have the layer also have the changed object."""
        to = os.path.join(self.folder(), "bin")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(UNCHANGED, to)
        parts = path.split("/")
        has = "/" + path[:-2] + ".o" if parts[0] == "cmd" else "libdt_%s.a" % (
            "kernels" if parts[0] == "kernels" else parts[1])
        users = [p for p in (*EMBEDDED, "dtctl")
                 if any(w.endswith(has) for w in self.links["bin/" + p])]
        embed = UNCHANGED_EMBED
        for p in users:
            if mode_of("bin/" + p) not in changed:
                changed[mode_of("bin/" + p)] = self.compile(path, text, mode_of("bin/" + p))
            if p != "dtctl":
                self.link("bin/" + p, path, changed, os.path.join(to, p))
                embed = os.path.join(self.folder(), "embed.o")
        if embed != UNCHANGED_EMBED:
            self.bundle(to, embed)
        if users:
            own = (path, changed) if "dtctl" in users else ("", {})
            self.link("bin/dtctl", *own, os.path.join(to, "dtctl"), embed)
        return to

    def unchanged(self):
        """The programs as a script meets them, but for the change. dtdata is the shipped one, since
        others have no libcurl; dtctl gets it here."""
        shutil.rmtree(UNCHANGED, ignore_errors=True)
        shutil.copytree(os.path.join(SOURCE, "bin"), UNCHANGED)
        for name in EMBEDDED:
            if mode_of("bin/" + name) != "release":
                shutil.copy2(program_of("bin/" + name), UNCHANGED)
        made = max(os.stat(f).st_mtime for f in glob.glob(UNCHANGED + "/dt*"))
        self.bundle(UNCHANGED, UNCHANGED_EMBED)
        self.link("bin/dtctl", "", {}, os.path.join(UNCHANGED, "dtctl"), UNCHANGED_EMBED)
        for name in glob.glob(UNCHANGED + "/dt*"):
            os.utime(name, (made, made))

    def bundle(self, programs, to):
        """The object with the programs and files that dtctl has in it."""
        pairs = [w for w in self.embed[2:] if "/bin/" not in w]
        pairs += ["%s=%s" % (p, os.path.join(programs, p)) for p in EMBEDDED]
        folder = os.path.join(self.folder(), "embed")
        os.makedirs(folder, exist_ok=True)
        if run(["bash", "-ec", 'strip -s "$1"/dt{run,train,data}; to=$2 folder=$3; shift 3; '
                'LEVEL=1 lib/fleet/embedded_files.sh "$folder" "$@"; lib=$PWD/lib; cd "$folder"; '
                'gcc -c -o data.o embed.S; gcc -I"$lib" -std=gnu11 -c -o table.o embed.c; '
                'ld -r -o "$to" data.o table.o', "bundle", programs, to, folder] + pairs, 300) != 0:
            raise Failed


def build_all():
    """The programs, and each test in the mode in which it runs."""
    build, names = os.path.relpath(BUILD, SOURCE), collections.defaultdict(list)
    for folder in ("tests/unit/*/test_*.c", "tests/sim/sim_*.c", "tests/tools/*.c"):
        for f in sorted(glob.glob(os.path.join(SOURCE, folder))):
            name = os.path.relpath(f, SOURCE)[:-2]
            mode = "release" if name.startswith("tests/tools/") else mode_of(name)
            names[mode].append(os.path.join(build, mode, name))
    stand_ins = [os.path.join(build, "gpu", name) for name in ("libcuda.so.1", "libnccl.so.2")]
    names["release"] += gpu_made() + stand_ins
    # Without the compiler of CUDA the tests of kernels are left out.
    ptx = [os.path.relpath(os.path.join(GPU_PTX, os.path.basename(f)[:-3] + ".ptx"), SOURCE)
           for f in sorted(glob.glob(os.path.join(SOURCE, "kernels/cuda/*.cu")))]
    subprocess.call(["make", "-s", "-k", "BUILD=" + build, *ptx], cwd=SOURCE,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for mode in ("san", "debug", "release"):
        programs = [build + "/debug/bin/dttrain"] if mode == "debug" else ["programs"]
        subprocess.check_call(["make", "-s", "-j%d" % JOBS, "BUILD=" + build, "MODE=" + mode] +
                              programs + names[mode], cwd=SOURCE, stdout=subprocess.DEVNULL)
