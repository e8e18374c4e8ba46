// SPDX-License-Identifier: Apache-2.0
// Attention without the matrix of scores in memory, for heads up to CUDA_HEAD_MAX wide. A block
// owns some rows (queries, or keys for the gradient of keys), OWN for each warp, and walks over the
// others in tiles of 32: each lane has one of them. A row's sum over a tile has each lane at every
// 32nd channel.
#include "kernels/cuda/stored.cuh"

typedef unsigned u32;
enum { TILE = 32, OWN = 2, WARPS = CUDA_THREADS / 32, OWN_ROWS = OWN * WARPS };
#define ALL 0xffffffffu

extern __shared__ float dynamic_shared[];
typedef numbers<true> tensor;

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(ALL, v, o);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
    for (int o = 16; o; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(ALL, v, o));
    return v;
}

// Rows in shared memory lie an odd number of floats apart: lanes at different rows meet no bank
// twice.
struct rows_shared {
    float *at;
    int pitch;
    __device__ __forceinline__ rows_shared(float *&free, int rows, int d) : at(free), pitch(d | 1) {
        free += rows * pitch;
    }
    __device__ __forceinline__ const float *row(int r) const { return at + r * pitch; }
    // Fills rows from memory; those beyond `valid` with zeros. All loads of a channel are under way
    // before the first one is needed.
    template <int ROWS>
    __device__ __forceinline__ void fill(const tensor &from, int64_t step, int valid, int d) {
        int warp = threadIdx.x / 32;
        float v[ROWS / WARPS];
#pragma unroll 1
        for (int c = threadIdx.x % 32; c < d; c += 32) {
#pragma unroll
            for (int i = 0; i < ROWS / WARPS; i++) {
                int r = warp + i * WARPS;
                v[i] = r < valid ? from[r * step + c] : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < ROWS / WARPS; i++)
                at[(warp + i * WARPS) * pitch + c] = v[i];
        }
    }
};

__device__ __forceinline__ float dot(const float *a, const float *b, int d) {
    float sum = 0.0f;
    for (int c = 0; c < d; c++)
        sum = fmaf(a[c], b[c], sum);
    return sum;
}

// Channels lane, lane + 32, … of OWN rows of a warp.
template <int WIDE> struct channels {
    float v[OWN][WIDE];
    __device__ __forceinline__ channels() {
#pragma unroll
        for (int o = 0; o < OWN; o++)
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                v[o][i] = 0.0f;
    }
    // += weight of each lane times its row
    __device__ __forceinline__ void add(int o, float weight, const rows_shared &rows, int d) {
        for (int j = 0; j < TILE; j++) {
            float w = __shfl_sync(ALL, weight, j);
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                if (threadIdx.x % 32 + 32 * i < d)
                    v[o][i] = fmaf(w, rows.row(j)[threadIdx.x % 32 + 32 * i], v[o][i]);
        }
    }
    __device__ __forceinline__ void scale(int o, float by) {
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            v[o][i] *= by;
    }
    __device__ __forceinline__ void put(int o, const tensor &to, int d) const {
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            if (threadIdx.x % 32 + 32 * i < d)
                to.put(threadIdx.x % 32 + 32 * i, v[o][i]);
    }
};

// The head that a block works at: blockIdx is (tile of own rows, head, image).
struct head_place {
    int64_t query, key, out, row; // offsets of the first row of q, of k and v, of y and dy, of lse
    __device__ __forceinline__ head_place(const attention_params &p) {
        int head = blockIdx.y;
        int64_t image = blockIdx.z;
        query = image * p.t * p.q_pitch + head * p.d,
        key = image * p.keys * p.kv_pitch + head * p.d;
        out = (image * p.t * p.heads + head) * p.d, row = (image * p.heads + head) * p.t;
    }
};

// The keys and values from `from` on, in place of those before.
__device__ __forceinline__ void next_keys(const attention_params &p, const head_place &at, int from,
                                          rows_shared &k, rows_shared &v) {
    int64_t first = at.key + (int64_t)from * p.kv_pitch;
    __syncthreads(); // the tile is free
    k.fill<TILE>(tensor(p.k, p.bf16) + first, p.kv_pitch, p.keys - from, p.d);
    v.fill<TILE>(tensor(p.v, p.bf16) + first, p.kv_pitch, p.keys - from, p.d);
    __syncthreads(); // the tile is full
}

template <int WIDE> __device__ __forceinline__ void forward(const attention_params &p) {
    float *free = dynamic_shared;
    rows_shared q(free, OWN_ROWS, p.d), k(free, TILE, p.d), v(free, TILE, p.d);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * OWN_ROWS;
    head_place at(p);
    float most[OWN], total[OWN];
    channels<WIDE> sum;
#pragma unroll
    for (int o = 0; o < OWN; o++)
        most[o] = -INFINITY, total[o] = 0.0f;
    q.fill<OWN_ROWS>(tensor(p.q, p.bf16) + (at.query + (int64_t)first * p.q_pitch), p.q_pitch,
                     p.t - first, p.d);
    for (int from = 0; from < p.keys; from += TILE) {
        next_keys(p, at, from, k, v);
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            float score = dot(q.row(warp * OWN + o), k.row(lane), p.d) * p.scale;
            score = from + lane < p.keys ? score : -INFINITY;
            float now = fmaxf(most[o], warp_max(score)), keep = expf(most[o] - now);
            float weight = expf(score - now);
            total[o] = total[o] * keep + warp_sum(weight), most[o] = now;
            sum.scale(o, keep);
            sum.add(o, weight, v, p.d);
        }
    }
#pragma unroll
    for (int o = 0; o < OWN; o++) {
        int row = first + warp * OWN + o;
        if (row >= p.t)
            continue;
        sum.scale(o, 1.0f / total[o]);
        sum.put(o, tensor(p.out, p.bf16) + (at.out + (int64_t)row * p.heads * p.d), p.d);
        if (lane == 0)
            p.out_lse[at.row + row] = most[o] + logf(total[o]);
    }
}

// dq = sum over keys of ds * k / sqrt(d), with ds = p * (dy . v - delta).
template <int WIDE> __device__ __forceinline__ void grad_queries(const attention_params &p) {
    float *free = dynamic_shared;
    rows_shared q(free, OWN_ROWS, p.d), dy(free, OWN_ROWS, p.d), k(free, TILE, p.d),
        v(free, TILE, p.d);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * OWN_ROWS;
    int64_t y_pitch = (int64_t)p.heads * p.d;
    head_place at(p);
    channels<WIDE> sum;
    q.fill<OWN_ROWS>(tensor(p.q, p.bf16) + (at.query + (int64_t)first * p.q_pitch), p.q_pitch,
                     p.t - first, p.d);
    dy.fill<OWN_ROWS>(tensor(p.dy, p.bf16) + (at.out + first * y_pitch), y_pitch, p.t - first, p.d);
    for (int from = 0; from < p.keys; from += TILE) {
        next_keys(p, at, from, k, v);
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            int own = warp * OWN + o, row = min(first + own, p.t - 1);
            float score = dot(q.row(own), k.row(lane), p.d) * p.scale;
            float weight = from + lane < p.keys ? expf(score - p.lse[at.row + row]) : 0.0f;
            float ds = weight * (dot(dy.row(own), v.row(lane), p.d) - p.delta[at.row + row]);
            sum.add(o, ds * p.scale, k, p.d);
        }
    }
#pragma unroll
    for (int o = 0; o < OWN; o++)
        if (first + warp * OWN + o < p.t)
            sum.put(o,
                    tensor(p.dq, p.bf16) +
                        (at.query + (int64_t)(first + warp * OWN + o) * p.q_pitch),
                    p.d);
}

// dk = sum over queries of ds * q / sqrt(d), dv = sum of p * dy.
template <int WIDE> __device__ __forceinline__ void grad_keys(const attention_params &p) {
    float *free = dynamic_shared;
    rows_shared k(free, OWN_ROWS, p.d), v(free, OWN_ROWS, p.d), q(free, TILE, p.d),
        dy(free, TILE, p.d);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * OWN_ROWS;
    int64_t y_pitch = (int64_t)p.heads * p.d;
    head_place at(p);
    channels<WIDE> of_k, of_v;
    int64_t own_key = at.key + (int64_t)first * p.kv_pitch;
    k.fill<OWN_ROWS>(tensor(p.k, p.bf16) + own_key, p.kv_pitch, p.keys - first, p.d);
    v.fill<OWN_ROWS>(tensor(p.v, p.bf16) + own_key, p.kv_pitch, p.keys - first, p.d);
    for (int from = 0; from < p.t; from += TILE) {
        __syncthreads(); // the tile is free
        q.fill<TILE>(tensor(p.q, p.bf16) + (at.query + (int64_t)from * p.q_pitch), p.q_pitch,
                     p.t - from, p.d);
        dy.fill<TILE>(tensor(p.dy, p.bf16) + (at.out + from * y_pitch), y_pitch, p.t - from, p.d);
        __syncthreads(); // the tile is full
        int row = min(from + lane, p.t - 1);
        float lse = p.lse[at.row + row], delta = p.delta[at.row + row];
#pragma unroll
        for (int o = 0; o < OWN; o++) {
            int own = warp * OWN + o;
            float score = dot(k.row(own), q.row(lane), p.d) * p.scale;
            float weight = from + lane < p.t ? expf(score - lse) : 0.0f;
            float ds = weight * (dot(v.row(own), dy.row(lane), p.d) - delta);
            of_v.add(o, weight, dy, p.d);
            of_k.add(o, ds * p.scale, q, p.d);
        }
    }
#pragma unroll
    for (int o = 0; o < OWN; o++) {
        int64_t to = at.key + (int64_t)(first + warp * OWN + o) * p.kv_pitch;
        if (first + warp * OWN + o >= p.keys)
            continue;
        of_k.put(o, tensor(p.dk, p.bf16) + to, p.d);
        of_v.put(o, tensor(p.dv, p.bf16) + to, p.d);
    }
}

// ---- kernels: three blocks fit a multiprocessor, or two -----------------------------------------

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS, 3)
KERNEL attention_forward_64(const attention_params p) {
    forward<2>(p);
}
KERNEL attention_forward_256(const attention_params p) {
    forward<8>(p);
}
KERNEL attention_grad_queries_256(const attention_params p) {
    grad_queries<8>(p);
}
// delta[image][head][t] = dy . y: a row for each warp.
KERNEL attention_delta(const attention_params p) {
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; // of y[image][t][head]
    if (row >= (int64_t)p.n * p.t * p.heads)
        return;
    float sum = 0.0f;
    tensor y = tensor(p.y, p.bf16) + row * p.d, dy = tensor(p.dy, p.bf16) + row * p.d;
#pragma unroll 1
    for (int c = threadIdx.x % 32; c < p.d; c += 32)
        sum = fmaf(dy[c], y[c], sum);
    sum = warp_sum(sum);
    int64_t head = row % p.heads, token = row / p.heads % p.t, image = row / p.heads / p.t;
    if (threadIdx.x % 32 == 0)
        p.delta[(image * p.heads + head) * p.t + token] = sum;
}

#undef KERNEL
#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS, 2)
KERNEL attention_grad_queries_64(const attention_params p) {
    grad_queries<2>(p);
}
KERNEL attention_grad_keys_64(const attention_params p) {
    grad_keys<2>(p);
}
KERNEL attention_grad_keys_256(const attention_params p) {
    grad_keys<8>(p);
}
