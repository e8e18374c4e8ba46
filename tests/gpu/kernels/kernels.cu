// SPDX-License-Identifier: Apache-2.0
// kernels.cu: small kernels of the usual kinds, for the interpreter to run: correct here, and with one
// bug planted in each variant that tests/gpu/planted names.
#include <cuda_bf16.h>

typedef unsigned u32;
extern __shared__ char dynamic_shared[];

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

// The sum over a block of at most 1024 threads, for every thread.
__device__ __forceinline__ float block_sum(float v, float *of_warp) {
    v = warp_sum(v);
    __syncthreads(); // of_warp may still be read
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
    return warp_sum(v);
}

extern "C" __global__ void vector_add(float *sum, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

// One float for each block, and their sum by the last block: a fixed order.
extern "C" __global__ void reduce(float *partial, float *total, u32 *ticket, const float *x, int n) {
    float *of_warp = (float *)dynamic_shared;
    __shared__ bool last;
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        v += x[i];
    v = block_sum(v, of_warp);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        last = atomicAdd(ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    v = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        v += partial[i];
    v = block_sum(v, of_warp);
    if (threadIdx.x == 0)
        *total = v;
}

// C[m][n] = A[m][k] B[k][n], tiles of 16 x 16 in shared memory.
extern "C" __global__ void gemm_tiled(float *c, const float *a, const float *b, int m, int n, int k) {
    enum { T = 16 };
    float(*sa)[T] = (float(*)[T])dynamic_shared;
    float(*sb)[T] = sa + T;
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int at = 0; at < k; at += T) {
        int ka = at + threadIdx.x, kb = at + threadIdx.y;
        sa[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        sb[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
        __syncthreads(); // the tiles are full
        for (int i = 0; i < T; i++)
            sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads(); // the tiles are free
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}

// ---- the same in bf16 with cp.async, ldmatrix and mma.sync: B is stored as [n][k] -------------------
__device__ __forceinline__ u32 shared_address(const void *p) {
    return (u32)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void copy16(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void load4(u32 (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}
__device__ __forceinline__ void load2(u32 (&r)[2], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(p))
                 : "memory");
}
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A tile of 32 rows and 16 columns for a block of four warps, each of which has 16 rows and 8 columns.
// k is a multiple of 8. Rows of a tile lie 24 apart, so that ldmatrix meets no bank twice.
enum { TILE_M = 32, TILE_N = 16, TILE_K = 16, STRIDE = 24, STAGES = 2 };
struct stage {
    __nv_bfloat16 a[TILE_M][STRIDE], b[TILE_N][STRIDE];
};

__device__ __forceinline__ void fetch(stage *s, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int m0,
                                      int n0, int k0, int m, int n, int k) {
    int row = threadIdx.x / 2 % TILE_M, col = threadIdx.x % 2 * 8;
    bool of_a = threadIdx.x < 2 * TILE_M;
    if (of_a) {
        bool in = m0 + row < m && k0 + col < k;
        copy16(&s->a[row][col], in ? a + (m0 + row) * k + k0 + col : a, in ? 16 : 0);
    } else if (row < TILE_N) {
        bool in = n0 + row < n && k0 + col < k;
        copy16(&s->b[row][col], in ? b + (n0 + row) * k + k0 + col : b, in ? 16 : 0);
    }
    commit();
}

extern "C" __global__ void __launch_bounds__(128)
    gemm_mma(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int m, int n, int k) {
    stage *stages = (stage *)dynamic_shared;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int m0 = blockIdx.y * TILE_M, n0 = blockIdx.x * TILE_N;
    int wm = warp / 2 * 16, wn = warp % 2 * 8, steps = (k + TILE_K - 1) / TILE_K;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    fetch(&stages[0], a, b, m0, n0, 0, m, n, k);
    for (int s = 0; s < steps; s++) {
        fetch(&stages[(s + 1) % STAGES], a, b, m0, n0, (s + 1) * TILE_K, m, n, k);
        wait<1>();
        __syncthreads(); // the stage is full
        stage *now = &stages[s % STAGES];
        u32 fa[4], fb[2];
        load4(fa, &now->a[wm + lane % 16][lane / 16 * 8]);
        load2(fb, &now->b[wn + lane % 8][lane / 8 % 2 * 8]);
        multiply(d, fa, fb);
        __syncthreads(); // the stage is free
    }
    wait<0>();
    for (int i = 0; i < 4; i++) {
        int row = m0 + wm + lane / 4 + i / 2 * 8, col = n0 + wn + lane % 4 * 2 + i % 2;
        if (row < m && col < n)
            c[row * n + col] = d[i];
    }
}

extern "C" __global__ void layer_norm(float *y, float *mean, const float *x, const float *gamma,
                                      const float *beta, int width, float epsilon) {
    float *of_warp = (float *)dynamic_shared;
    const float *row = x + (size_t)blockIdx.x * width;
    float sum = 0.0f, square = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        sum += row[i];
    float mu = block_sum(sum, of_warp) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        square += (row[i] - mu) * (row[i] - mu);
    float scale = rsqrtf(block_sum(square, of_warp) / width + epsilon);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[(size_t)blockIdx.x * width + i] = (row[i] - mu) * scale * gamma[i] + beta[i];
    if (threadIdx.x == 0)
        mean[blockIdx.x] = mu;
}

// A row for each warp.
extern "C" __global__ void softmax(float *y, const float *x, int rows, int width) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < width; i += 32)
        most = fmaxf(most, x[row * width + i]);
    for (int o = 16; o; o >>= 1)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, o));
    for (int i = lane; i < width; i += 32)
        sum += expf(x[row * width + i] - most);
    sum = warp_sum(sum);
    for (int i = lane; i < width; i += 32)
        y[row * width + i] = expf(x[row * width + i] - most) / sum;
}

// AdamW over a flat buffer: master weights in float, and a copy in bf16 for the next forward.
extern "C" __global__ void adamw(float *p, __nv_bfloat16 *copy, float *m, float *v, const float *g, int n,
                                 float lr, float decay, float correct1, float correct2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= lr * (m[i] / correct1 / (sqrtf(v[i] / correct2) + 1e-8f) + decay * p[i]);
    copy[i] = __float2bfloat16(p[i]);
}
