# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton's language, for tests/gpu/triton.t. Triton compiles each of them to PTX."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * stride + at, mask=mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def layer_norm(x, gain, bias, out, mean_of, scale_of, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        v = tl.where(at < columns, v - mean, 0.0)
        total += v * v
    scale = tl.rsqrt(tl.sum(total, axis=0) / columns + epsilon)
    tl.store(mean_of + row, mean)
    tl.store(scale_of + row, scale)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        mask = at < columns
        v = tl.load(x + row * columns + at, mask=mask, other=0.0).to(tl.float32)
        g, b = tl.load(gain + at, mask=mask), tl.load(bias + at, mask=mask)
        tl.store(out + row * columns + at, (v - mean) * scale * g + b, mask=mask)


@triton.jit
def layer_norm_backward(dx, dy, dgain, dbias, x, gain, mean_of, scale_of, lock, columns,
                        GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows add to GROUPS partial sums, each guarded by a lock; a count says which row is first."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    v = tl.load(x + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    d = tl.load(dy + row * columns + at, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(gain + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.load(scale_of + row)
    normal = tl.where(mask, (v - tl.load(mean_of + row)) * scale, 0.0)
    gd = tl.where(mask, g * d, 0.0)
    c1 = tl.sum(normal * gd, axis=0) / columns
    c2 = tl.sum(gd, axis=0) / columns
    tl.store(dx + row * columns + at, (gd - (normal * c1 + c2)) * scale, mask=mask)
    group = row % GROUPS
    mine, count = lock + group, lock + GROUPS + group
    partial_gain, partial_bias = d * normal, d
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        partial_gain += tl.load(dgain + group * columns + at, mask=mask)
        partial_bias += tl.load(dbias + group * columns + at, mask=mask)
    tl.store(dgain + group * columns + at, partial_gain, mask=mask)
    tl.store(dbias + group * columns + at, partial_bias, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(mine, 0)


@triton.jit
def matmul(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           TRANSPOSED: tl.constexpr):
    """out = a b; b is stored by columns where TRANSPOSED."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    terms = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        there = k + terms < K
        x = tl.load(a + rows[:, None] * K + (k + terms)[None, :],
                    mask=(rows[:, None] < M) & there[None, :], other=0.0)
        if TRANSPOSED:
            y = tl.load(b + columns[None, :] * K + (k + terms)[:, None],
                        mask=there[:, None] & (columns[None, :] < N), other=0.0)
        else:
            y = tl.load(b + (k + terms)[:, None] * N + columns[None, :],
                        mask=there[:, None] & (columns[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total.to(out.dtype.element_ty),
             mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def matmul_described(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                     APART: tl.constexpr):
    """The same by tensor descriptors; warps of their own load where APART."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=APART):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    out.store([row, column], total.to(out.dtype))


@triton.jit
def attention(q, k, v, out, length, factor, HEAD: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr, CAUSAL: tl.constexpr):
    """One head for each program of the second axis; factor: log2(e) / sqrt(HEAD)."""
    base = tl.program_id(1).to(tl.int64) * length * HEAD
    rows, inner = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, HEAD)
    place = base + rows[:, None] * HEAD + inner[None, :]
    x = tl.load(q + place, mask=rows[:, None] < length, other=0.0)
    most = tl.full([BM], -float("inf"), dtype=tl.float32)
    weight = tl.zeros([BM], dtype=tl.float32)
    total = tl.zeros([BM, HEAD], dtype=tl.float32)
    end = tl.minimum(length, (tl.program_id(0) + 1) * BM) if CAUSAL else length
    for begin in range(0, end, BN):
        columns = begin + tl.arange(0, BN)
        there = columns < length
        y = tl.load(k + base + columns[None, :] * HEAD + inner[:, None], mask=there[None, :],
                    other=0.0)
        score = tl.dot(x, y) * factor
        seen = there[None, :]
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        score = tl.where(seen, score, -1.0e30)
        more = tl.maximum(most, tl.max(score, axis=1))
        p = tl.exp2(score - more[:, None])
        shrink = tl.exp2(most - more)
        weight = weight * shrink + tl.sum(p, axis=1)
        z = tl.load(v + base + columns[:, None] * HEAD + inner[None, :], mask=there[:, None],
                    other=0.0)
        total = tl.dot(p.to(z.dtype), z, total * shrink[:, None])
        most = more
    tl.store(out + place, (total / weight[:, None]).to(out.dtype.element_ty),
             mask=rows[:, None] < length)


@triton.jit
def _combine(a, b):
    return a + b


@triton.jit
def reductions(x, sums, most, where, running, rows, columns, ROWS: tl.constexpr,
               COLUMNS: tl.constexpr):
    """Sums over rows, greatest values and their places over columns, running sums of rows."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    place = i[:, None] * columns + j[None, :]
    v = tl.load(x + place, mask=mask, other=0.0)
    tl.store(sums + j, tl.sum(v, axis=0), mask=j < columns)
    low = tl.where(mask, v, -float("inf"))
    greatest, at = tl.max(low, axis=1, return_indices=True)
    tl.store(most + i, greatest, mask=i < rows)
    tl.store(where + i, at, mask=i < rows)
    tl.store(running + place, tl.associative_scan(v, 1, _combine), mask=mask)


@triton.jit
def sort_rows(x, out, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram(x, out, total, greatest, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    counts = tl.histogram(v, BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)
    tl.atomic_add(total + at % 4, v.to(tl.float32), mask=at < n)
    tl.atomic_max(greatest, tl.max(v, axis=0))


@triton.jit
def dropout(x, out, n, seed, keep, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    kept = tl.rand(seed, at) < keep
    tl.store(out + at, tl.where(kept, v / keep, 0.0), mask=at < n)


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + rows[:, None] * N + columns[None, :],
                mask=(rows[:, None] < M) & (columns[None, :] < N))
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(v),
             mask=(columns[:, None] < N) & (rows[None, :] < M))
