#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py LIBRARY SEED…: kernels in Triton's language on the stand-in of CUDA's driver.

Each line of the output begins with `held` or `failed`, and the name of what was tested follows; a
line that begins with `#` says why it failed.
"""

import dataclasses
import os
import re
import signal
import sys
import zlib

os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
os.environ["EMU_SAME_VALUES"] = "1"  # Triton's code writes one value with several lanes

import cases
import numpy
import planted
import triton
from driver import Descriptor, Driver, Fault, Out
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

SECONDS_MAX = 120  # of one kernel


@dataclasses.dataclass
class Kernel:
    name: str
    ptx: str
    shared: int  # bytes
    warps: int
    descriptors: list


def no_machine_code(*stage):
    """A hook of Triton's: without arguments it asks for a key of its cache."""
    if not stage:
        return "", ""
    stage[1]["cubin"] = lambda source, metadata: b""
    return None


def placed(ptx):
    """Triton counts on dynamic shared memory at a multiple of 1024 bytes, and its PTX says 16."""
    return ptx.replace(".shared .align 16 .b8 global_smem", ".shared .align 1024 .b8 global_smem")


def fenced(ptx):
    """The manual asks for a fence between mbarrier.init and bulk copies, which Triton leaves out."""
    return re.sub(r"(@%p\d+ mbarrier\.init\.[^;]*;)",
                  r"\1 fence.mbarrier_init.release.cluster;", ptx)


def parities(ptx):
    """The manual knows the parities 0 and 1. Triton has -1, too, of which the GPU takes a bit."""
    return re.sub(r"(mbarrier\.try_wait\.parity\.\S+ \w+, \[%r\d+\]), (%r\d+);",
                  r"{ .reg .b32 parity; and.b32 parity, \2, 1; \1, parity; }", ptx)


def compiled(case, capability):
    names = case.kernel.arg_names
    source = ASTSource(
        fn=case.kernel,
        signature={n: "constexpr" if n in case.constants else case.signature[n] for n in names},
        constexprs={(names.index(n),): v for n, v in case.constants.items()},
        attrs={(names.index(n),): [["tt.divisibility", 16]] for n in case.aligned})
    triton.knobs.runtime.add_stages_inspection_hook = no_machine_code
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=case.options)
    meta = made.metadata
    return Kernel(meta.name, parities(fenced(placed(made.asm["ptx"]))), meta.shared, meta.num_warps,
                  meta.tensordesc_meta or [])


def meaning(out, got):
    return cases.wide(got, "bf16" if got.dtype == numpy.uint16 else "")


def wrong(out, got):
    """Why it is not what it should be, or None."""
    error = numpy.abs(meaning(out, got) - out.want.astype(numpy.float64))
    bad = ~(error <= out.bound)
    if not bad.any():
        return None
    at = numpy.unravel_index(numpy.argmax(bad), bad.shape)
    return (f"{bad.sum()} of {bad.size} are wrong; at {tuple(map(int, at))} {meaning(out, got)[at]}"
            f" instead of {out.want[at]}")


def attempt(driver, case, kernel, seed):
    """Why it fails, or None."""
    random = numpy.random.default_rng(zlib.crc32(case.name.encode()) + seed)
    for grid, arguments in case.make(random):
        wanted = [a.array if isinstance(a, Descriptor) else a for a in arguments]
        wanted = [a for a in wanted if isinstance(a, Out)]
        try:
            got = driver.run(kernel, kernel.ptx, grid, arguments)
        except Fault as fault:
            return f"grid {grid}: {fault}"
        for n, out in enumerate(wanted):
            why = wrong(out, got[n])
            if why:
                return f"grid {grid}, result {n}: {why}"
    return None


def apart(does, seed, capability, library):
    """Calls `does` with a driver in a process of its own."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    signal.alarm(SECONDS_MAX)
    os.environ.update(EMU_SEED=str(seed), EMU_CC=str(capability))
    sys.stdout.flush()
    good = False
    try:
        does(Driver(library))
        sys.stdout.flush()
        good = True
    finally:
        os._exit(0 if good else 1)


def report(name, why=None):
    print(f"failed {name}\n# {why}" if why else f"held {name}", flush=True)


def found(bug, kernel, seeds, library):
    """One of the seeds shows it."""
    pattern, replacement = bug.change
    ptx, changes = re.subn(pattern, replacement, kernel.ptx, count=bug.places,
                           flags=re.DOTALL)
    case = next(c for c in cases.CASES if c.name == bug.case)
    changed = dataclasses.replace(kernel, ptx=ptx)
    name, seen = f"found: {bug.name}", []
    if not changes:
        report(name, "there is nothing to change")
        return
    for seed in seeds:
        read, write = os.pipe()

        def does(driver):
            os.write(write, (attempt(driver, case, changed, seed) or "nothing").encode())

        apart(does, seed, bug.capability, library)
        os.close(write)
        with open(read, encoding="utf-8") as pipe:
            seen.append(pipe.read())
        if re.search(bug.shows, seen[-1]):
            report(name)
            return
    report(name, "; ".join(seen))


def main():
    library, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]]
    kernels = {}
    for capability in (80, 90):
        all_of = [(case, compiled(case, capability)) for case in cases.CASES
                  if capability in case.capabilities]
        kernels.update({(case.name, capability): kernel for case, kernel in all_of})
        for seed in seeds:
            for case, kernel in all_of:
                name = f"sm_{capability}, seed {seed}: {case.name}"
                def does(driver):
                    report(name, attempt(driver, case, kernel, seed))
                if not apart(does, seed, capability, library):
                    report(name, "the process ended")
    for bug in planted.BUGS:
        found(bug, kernels[bug.case, bug.capability], seeds, library)


if __name__ == "__main__":
    main()
