# SPDX-License-Identifier: Apache-2.0
"""What tests/gpu/triton.t runs: kernels with their types, shapes, expected results and bounds.

A result is computed by numpy in float64 from the same inputs. Bounds of errors follow from the
formats: U is the greatest relative error of one rounding, and a sum of n terms is off by at most
n U[float32] times the sum of their magnitudes.
"""

import dataclasses
import math

import kernels
import numpy
from driver import Descriptor, Out

U = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24}
LEAST_HALF = 2.0**-24  # the smallest positive number of fp16
F = U["fp32"]
TF32_BITS_LOST = 13


def bfloat(v):
    """float32 to the bits of bf16, rounded to nearest even."""
    bits = numpy.ascontiguousarray(v, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def wide(v, name):
    """What the device's bits of a type mean, in float64."""
    if name == "bf16":
        v = (v.astype(numpy.uint32) << 16).view(numpy.float32)
    return v.astype(numpy.float64)


def stored(v, name):
    """Numbers as the device holds them: of `fp32` those of tf32."""
    if name == "bf16":
        return bfloat(v)
    if name == "fp16":
        return v.astype(numpy.float16)
    bits = numpy.ascontiguousarray(v, numpy.float32).view(numpy.uint32)
    return (bits >> TF32_BITS_LOST << TF32_BITS_LOST).view(numpy.float32)


DEVICE = {"fp16": numpy.float16, "bf16": numpy.uint16, "fp32": numpy.float32}


@dataclasses.dataclass
class Case:
    """A kernel for some GPUs, and launches of it: (grid, arguments) made by `make(random)`."""

    name: str
    kernel: object
    signature: dict
    constants: dict
    make: object
    aligned: tuple = ()  # arguments that are multiples of 16
    options: dict = dataclasses.field(default_factory=dict)
    capabilities: tuple = (80, 90)


def blocks(n, size):
    return -(-n // size)


def normal(random, *shape):
    return random.standard_normal(shape).astype(numpy.float32)


# ---- flat and by rows ---------------------------------------------------------------------------
def add(random):
    for n in (1, 255, 1000, 4097):
        x, y = normal(random, n), normal(random, n)
        yield (blocks(n, 256),), [x, y, Out(x + y), n]


def softmax(random):
    for rows, columns, stride in ((3, 1, 1), (2, 33, 40), (4, 300, 300), (2, 1000, 1003)):
        x = normal(random, rows, stride) * numpy.float32(4)
        there = x[:, :columns].astype(numpy.float64)
        spread = numpy.max(numpy.abs(there - there.max(axis=1, keepdims=True)))
        e = numpy.exp(there - there.max(axis=1, keepdims=True))
        want = x.astype(numpy.float64)
        want[:, :columns] = e / e.sum(axis=1, keepdims=True)
        bound = numpy.zeros_like(want)
        bound[:, :columns] = want[:, :columns] * (columns + 4 * spread + 16) * F + 2.0**-126
        yield (rows,), [x, Out(want, bound, numpy.float32, x), stride, columns]


def norm_of(x, epsilon):
    mean = x.mean(axis=1, keepdims=True)
    scale = 1 / numpy.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + epsilon)
    return mean, scale


def layer_norm(random):
    epsilon = 1e-5
    for rows, columns in ((1, 1), (3, 77), (2, 256), (2, 1031)):
        x = bfloat(normal(random, rows, columns) + 3)
        gain, bias = normal(random, columns), normal(random, columns)
        v = wide(x, "bf16")
        mean, scale = norm_of(v, epsilon)
        want = (v - mean) * scale * gain + bias
        few = (columns + 32) * F
        size = numpy.abs(v).max() * scale
        off = few * size * numpy.abs(gain) * (2 + (v - mean) ** 2 * scale**2) + 4 * F * (
            numpy.abs(want) + numpy.abs(bias))
        yield (rows,), [x, gain, bias,
                        Out(want, off + U["bf16"] * (numpy.abs(want) + off), numpy.uint16),
                        Out(mean[:, 0], few * numpy.abs(v).max(), numpy.float32),
                        Out(scale[:, 0], 4 * few * scale[:, 0] * (1 + size[:, 0]), numpy.float32),
                        columns, epsilon]


def layer_norm_backward(random):
    groups = 3
    for rows, columns in ((7, 100), (1, 5), (11, 256)):
        x, dy, gain = normal(random, rows, columns), normal(random, rows, columns), normal(
            random, columns)
        mean, scale = (v.astype(numpy.float32) for v in norm_of(x.astype(numpy.float64), 1e-5))
        v = (x.astype(numpy.float64) - mean) * scale
        gd = dy.astype(numpy.float64) * gain
        c1, c2 = (v * gd).mean(axis=1, keepdims=True), gd.mean(axis=1, keepdims=True)
        size = scale * (numpy.abs(gd) + numpy.abs(v) * numpy.abs(v * gd).mean(
            axis=1, keepdims=True) + numpy.abs(gd).mean(axis=1, keepdims=True))
        used = min(groups, rows)
        per, more = numpy.zeros((2, groups, columns)), numpy.zeros((2, groups, columns))
        for row in range(rows):
            per[0, row % groups] += dy[row] * v[row]
            per[1, row % groups] += dy[row]
            more[0, row % groups] += numpy.abs(dy[row] * v[row])
            more[1, row % groups] += numpy.abs(dy[row])
        few = (columns + 32) * F
        partial = [Out(per[n, :used], (rows + 32) * F * more[n, :used] + F, numpy.float32)
                   for n in range(2)]
        counts = numpy.array([0] * groups + [int(n < used) for n in range(groups)], numpy.int32)
        yield (rows,), [Out((gd - (v * c1 + c2)) * scale, few * size, numpy.float32), dy,
                        *partial, x, gain, mean, scale,
                        Out(counts, initial=numpy.zeros(2 * groups, numpy.int32)), columns]


# ---- products -----------------------------------------------------------------------------------
def product_of(random, name, out, m, n, k, transposed):
    a, b = stored(normal(random, m, k), name), stored(normal(random, k, n), name)
    x, y = wide(a, name), wide(b, name)
    want, size = x @ y, numpy.abs(x) @ numpy.abs(y)
    bound = k * F * size + U[out] * (numpy.abs(want) + k * F * size) + LEAST_HALF
    return a, numpy.ascontiguousarray(b.T) if transposed else b, Out(want, bound, DEVICE[out])


def matmul(name, out, transposed, shapes):
    def make(random):
        for m, n, k in shapes:
            yield (blocks(m, 64), blocks(n, 64)), [
                *product_of(random, name, out, m, n, k, transposed), m, n, k]
    return make


def matmul_described(random):
    for m, n, k in ((64, 64, 64), (72, 200, 136), (128, 64, 320)):
        a, b, out = product_of(random, "fp16", "fp16", m, n, k, False)
        yield (blocks(m, 64), blocks(n, 64)), [Descriptor(a), Descriptor(b), Descriptor(out), k]


def attention(name, causal, shapes):
    head = 64

    def make(random):
        for heads, length in shapes:
            q, k, v = (stored(normal(random, heads, length, head), name) for _ in range(3))
            x, y, z = (wide(t, name) for t in (q, k, v))
            score = x @ y.transpose(0, 2, 1) / math.sqrt(head)
            size = numpy.abs(x) @ numpy.abs(y).transpose(0, 2, 1) / math.sqrt(head)
            if causal:
                score = numpy.where(numpy.tril(numpy.ones((length, length))), score, -numpy.inf)
            p = numpy.exp(score - score.max(axis=2, keepdims=True))
            p /= p.sum(axis=2, keepdims=True)
            want = p @ z
            # Off: p in its format, its exponent, and sums of `length` terms.
            off = U[name] + 2 * (head + 4) * F * size.max() + (2 * length + 32) * F
            bound = off * (p @ numpy.abs(z)) + length * LEAST_HALF * numpy.abs(z).max()
            bound = bound + U[name] * (numpy.abs(want) + bound)
            yield (blocks(length, 64), heads), [
                q, k, v, Out(want, bound, DEVICE[name]), length,
                math.log2(math.e) / math.sqrt(head)]
    return make


# ---- between lanes, warps and blocks ------------------------------------------------------------
def reductions(random):
    for rows, columns in ((1, 1), (5, 33), (16, 128)):
        x = normal(random, rows, columns)
        v, size = x.astype(numpy.float64), numpy.abs(x.astype(numpy.float64))
        sums, most = numpy.zeros(columns), x.max(axis=1)
        sums[:] = v.sum(axis=0)
        yield (1,), [x, Out(sums, rows * F * size.sum(axis=0), numpy.float32), Out(most),
                     Out(x.argmax(axis=1).astype(numpy.int32)),
                     Out(v.cumsum(axis=1), columns * F * size.cumsum(axis=1), numpy.float32),
                     rows, columns]


def sort_rows(random):
    x = normal(random, 2, 128)
    yield (2,), [x, Out(numpy.sort(x, axis=1))]


def histogram(random):
    for n in (1, 700):
        v = random.integers(0, 32, n).astype(numpy.int32)
        total = [v[at::4].sum() for at in range(4)]
        yield (blocks(n, 256),), [
            v, Out(numpy.bincount(v, minlength=32).astype(numpy.int32),
                   initial=numpy.zeros(32, numpy.int32)),
            Out(numpy.array(total, numpy.float32), initial=numpy.zeros(4, numpy.float32)),
            Out(v.max(keepdims=True), initial=numpy.full(1, -1, numpy.int32)), n]


def philox(seed, at):
    """Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011."""
    low = numpy.uint64(0xFFFFFFFF)
    c = [at.astype(numpy.uint64)] + [numpy.zeros(at.shape, numpy.uint64)] * 3
    key = [numpy.uint64(seed), numpy.uint64(0)]
    for _ in range(10):
        a, b = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
        c = [b >> numpy.uint64(32) ^ c[1] ^ key[0], b & low,
             a >> numpy.uint64(32) ^ c[3] ^ key[1], a & low]
        key = [key[0] + numpy.uint64(0x9E3779B9) & low, key[1] + numpy.uint64(0xBB67AE85) & low]
    return c[0].astype(numpy.uint32)


def dropout(random):
    for n in (1, 777):
        x, seed, keep = normal(random, n), int(random.integers(1 << 31)), 0.75
        bits = philox(seed, numpy.arange(n)).view(numpy.int32).astype(numpy.int64)
        uniform = numpy.where(bits < 0, -bits - 1, bits) * 4.6566127342e-10
        want = numpy.where(uniform < keep, x.astype(numpy.float64) / keep, 0)
        yield (blocks(n, 256),), [x, Out(want, 2 * F * numpy.abs(want), numpy.float32), n, seed,
                                  keep]


def transpose(random):
    for m, n in ((64, 64), (80, 144)):
        x = normal(random, m, n).astype(numpy.float16)
        yield (blocks(m, 64), blocks(n, 64)), [x, Out(numpy.ascontiguousarray(x.T)), m, n]


# ---- all ----------------------------------------------------------------------------------------
def pointers(**types):
    return {name: "*" + kind for name, kind in types.items()}


def product_case(name, out, transposed, stages, odd=False):
    shapes = [(65, 70, 33), (17, 129, 75)] if odd else [(64, 64, 16), (80, 112, 96)]
    return Case(
        f"matmul in {name}{' by columns' if transposed else ''}"
        f"{', shapes that are odd' if odd else ''}, {stages} stages",
        kernels.matmul, {**pointers(a=name, b=name, out=out), "M": "i32", "N": "i32", "K": "i32"},
        {"BM": 64, "BN": 64, "BK": 32, "TRANSPOSED": transposed},
        matmul(name, out, transposed, shapes),
        ("a", "b", "out") if odd else ("a", "b", "out", "N", "K"), {"num_stages": stages})


def attention_case(name, causal, shapes):
    return Case(f"attention in {name}{', causal' if causal else ''}", kernels.attention,
                {**pointers(q=name, k=name, v=name, out=name), "length": "i32", "factor": "fp32"},
                {"HEAD": 64, "BM": 64, "BN": 32, "CAUSAL": causal},
                attention(name, causal, shapes), ("q", "k", "v", "out"), {"num_stages": 2})


def described_case(apart):
    kind = "tensordesc<fp16[64,64]>"
    return Case(f"matmul by tensor descriptors{', warps apart' if apart else ''}",
                kernels.matmul_described, {"a": kind, "b": kind, "out": kind, "K": "i32"},
                {"BM": 64, "BN": 64, "BK": 64, "APART": apart}, matmul_described,
                options={"num_stages": 3}, capabilities=(90,))


CASES = [
    Case("vector addition", kernels.vector_add, {**pointers(x="fp32", y="fp32", out="fp32"),
                                                 "n": "i32"}, {"BLOCK": 256}, add,
         ("x", "y", "out")),
    Case("softmax", kernels.softmax,
         {**pointers(x="fp32", out="fp32"), "stride": "i32", "columns": "i32"}, {"BLOCK": 1024},
         softmax, ("x", "out")),
    Case("layer normalisation", kernels.layer_norm,
         {**pointers(x="bf16", gain="fp32", bias="fp32", out="bf16", mean_of="fp32",
                     scale_of="fp32"), "columns": "i32", "epsilon": "fp32"}, {"BLOCK": 256},
         layer_norm),
    Case("layer normalisation, backward", kernels.layer_norm_backward,
         {**pointers(dx="fp32", dy="fp32", dgain="fp32", dbias="fp32", x="fp32", gain="fp32",
                     mean_of="fp32", scale_of="fp32", lock="i32"), "columns": "i32"},
         {"GROUPS": 3, "BLOCK": 256}, layer_norm_backward),
    product_case("fp16", "fp16", False, 2),
    product_case("fp16", "fp32", True, 3),
    product_case("bf16", "bf16", False, 3),
    product_case("fp32", "fp32", False, 3),
    product_case("fp32", "fp32", True, 2),
    product_case("fp16", "fp16", False, 2, odd=True),
    described_case(False),
    described_case(True),
    attention_case("fp16", False, ((1, 64), (2, 77))),
    attention_case("bf16", True, ((1, 100),)),
    Case("reductions and scans", kernels.reductions,
         {**pointers(x="fp32", sums="fp32", most="fp32", where="i32", running="fp32"),
          "rows": "i32", "columns": "i32"}, {"ROWS": 16, "COLUMNS": 128}, reductions),
    Case("sort", kernels.sort_rows, pointers(x="fp32", out="fp32"), {"COLUMNS": 128}, sort_rows),
    Case("histogram and atomics", kernels.histogram,
         {**pointers(x="i32", out="i32", total="fp32", greatest="i32"), "n": "i32"},
         {"BLOCK": 256, "BINS": 32}, histogram),
    Case("dropout by Philox", kernels.dropout,
         {**pointers(x="fp32", out="fp32"), "n": "i32", "seed": "i32", "keep": "fp32"},
         {"BLOCK": 256}, dropout, ("x", "out")),
    Case("transposition", kernels.transpose,
         {**pointers(x="fp16", out="fp16"), "M": "i32", "N": "i32"}, {"BM": 64, "BN": 64},
         transpose, ("x", "out", "M", "N")),
]
