// SPDX-License-Identifier: Apache-2.0
// Products with tiles of 128 x 128, for GPUs of 8.0 and newer. Operands are packed first: in a type
// of 16 bits, with rows of whole chunks of eight. Stages of 32 terms come by cp.async, while the
// ones before are multiplied by mma.sync. A block has four warps, each with 64 x 64 of the tile.
//
// An operand is a class with by_terms and copy(to). With by_terms, memory is contiguous along the
// terms, and a stage is [row][term]; without, along the rows, and a stage is [term][row]. copy
// starts four copies of a chunk by each thread, and moves to the next stage. Chunks of a row lie
// where the row's number turns them, so that ldmatrix meets no bank twice.
#include "kernels/cuda/product.cuh"

enum {
    SIDE = CUDA_LARGE_TILE,
    DEPTH = CUDA_LARGE_K,
    CHUNK = CUDA_PACKED,
    THREADS = CUDA_LARGE_THREADS,
    COPIES = SIDE * DEPTH / CHUNK / THREADS,
    OPERAND = SIDE * DEPTH * 2, // bytes
    STAGE = 2 * OPERAND,
    STAGES = 3,
    WARP = SIDE / 2,
    ROW_BYTES = DEPTH * 2, // by terms
    TERM_BYTES = SIDE * 2, // by rows
};
static_assert(STAGES * STAGE == CUDA_LARGE_SHARED, "what the host asks for");
typedef unsigned short u16;

// ---- packing ------------------------------------------------------------------------------------

template <class Type> __device__ __forceinline__ void pack(const pack_params &p) {
    int quarters = p.pitch / 4;
    int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x, row = i / quarters;
    int column = (int)(i % quarters) * 4, cols = row < p.rows ? p.cols : 0;
    if (row >= p.all_rows)
        return;
    const float *x = p.x + row * p.ld + column;
    float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
    if (column + 4 <= cols && (size_t)x % 16 == 0) {
        v = *(const float4 *)x;
    } else {
        v.x = column < cols ? x[0] : 0.0f;
        v.y = column + 1 < cols ? x[1] : 0.0f;
        v.z = column + 2 < cols ? x[2] : 0.0f;
        v.w = column + 3 < cols ? x[3] : 0.0f;
    }
    *(ushort4 *)(p.y + row * p.pitch + column) =
        make_ushort4(Type::bits(v.x), Type::bits(v.y), Type::bits(v.z), Type::bits(v.w));
}

#if __CUDA_ARCH__ >= 800
// ---- copies to shared memory --------------------------------------------------------------------

// With bytes 0 nothing is read, and the chunk is zero.
__device__ __forceinline__ void copy_chunk(u32 to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
// A value that stays in a register: ptxas would work it out again in every step.
__device__ __forceinline__ int keep(int v) {
    return __shfl_sync(0xffffffff, v, threadIdx.x % 32);
}
__device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// By terms: chunk i of a thread is (threadIdx.x % 4) of row threadIdx.x / 4 + 32 i.
enum { ROWS_APART = THREADS * CHUNK / DEPTH };
__device__ __forceinline__ int chunk_row() {
    return threadIdx.x / (DEPTH / CHUNK);
}
__device__ __forceinline__ int chunk_term() {
    return threadIdx.x % (DEPTH / CHUNK) * CHUNK;
}
__device__ __forceinline__ u32 place_by_terms() {
    u32 row = chunk_row(), chunk = threadIdx.x % (DEPTH / CHUNK);
    return row * ROW_BYTES + (chunk ^ (row / 2 % 4)) * 16;
}
// By rows: chunk i of a thread is (threadIdx.x % 16) of term threadIdx.x / 16 + 8 i.
enum { TERMS_APART = THREADS * CHUNK / SIDE };
__device__ __forceinline__ u32 place_by_rows() {
    u32 term = threadIdx.x / (SIDE / CHUNK), chunk = threadIdx.x % (SIDE / CHUNK);
    return term * TERM_BYTES + (chunk ^ term % 8) * 16;
}

// Terms of a convolution are (tap, channel). All channels of a stage have one tap, which both
// operands count together.
struct no_taps {
    __device__ __forceinline__ void next() {}
};
struct tap_counter {
    int low, x, y, number, lows, across;
    __device__ __forceinline__ tap_counter(int at, int lows, int across)
        : lows(lows), across(max(across, 1)) {
        number = at / lows, low = at % lows, x = number % this->across, y = number / this->across;
    }
    __device__ __forceinline__ void next() {
        low += DEPTH;
        if (low < lows)
            return;
        low = 0, number++, x++;
        if (x == across)
            x = 0, y++;
    }
};

struct packed_by_terms { // p[row][term], zero behind the last term
    static const bool by_terms = true;
    const char *p;
    int64_t step; // bytes from chunk to chunk
    u32 place;
    int bytes[COPIES];
    __device__ __forceinline__ packed_by_terms(const void *m, int pitch, int row0, int rows,
                                               int k0) {
        p = (const char *)m + ((int64_t)(row0 + chunk_row()) * pitch + k0 + chunk_term()) * 2;
        step = (int64_t)ROWS_APART * pitch * 2, place = place_by_terms();
        for (int i = 0; i < COPIES; i++)
            bytes[i] = row0 + chunk_row() + ROWS_APART * i < rows ? 16 : 0;
    }
    template <class Taps> __device__ __forceinline__ void copy(u32 to, const Taps &) {
        for (int i = 0; i < COPIES; i++)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, p + i * step, bytes[i]);
        p += DEPTH * 2;
    }
};

struct packed_by_rows { // p[term][row], and whole stages: zero behind the last term
    static const bool by_terms = false;
    const char *p;
    int64_t step; // bytes from chunk to chunk
    u32 place;
    int bytes;
    __device__ __forceinline__ packed_by_rows(const void *m, int pitch, int row0, int rows,
                                              int k0) {
        int row = row0 + threadIdx.x % (SIDE / CHUNK) * CHUNK;
        int k = k0 + threadIdx.x / (SIDE / CHUNK);
        p = (const char *)m + ((int64_t)k * pitch + row) * 2;
        step = (int64_t)TERMS_APART * pitch * 2, place = place_by_rows(), bytes = row < rows ? 16 : 0;
    }
    __device__ __forceinline__ void copy(u32 to, const no_taps &) {
        for (int i = 0; i < COPIES; i++, p += step)
            copy_chunk(to + place + i * TERMS_APART * TERM_BYTES, p, bytes);
    }
};

// large_patches and large_gradients read one pixel for each row of the product. A copy has the
// address of each pixel, and a bit for each tap of it that is inside the image.
struct pixels_by_terms {
    static const bool by_terms = true;
    const char *p[COPIES];
    u32 taps[COPIES], place;
    int along_x, along_y; // bytes from tap to tap
    // Row i is at y, x of an image of h x w; a step of a tap is `way` pixels.
    __device__ __forceinline__ void set(int i, const void *m, int64_t image, int y, int x, int h,
                                        int w, int channels, int down, int across, int way,
                                        bool there) {
        p[i] = (const char *)m + (((image * h + y) * w + x) * channels + chunk_term()) * 2;
        taps[i] = 0;
#pragma unroll 1
        for (int t = 0; there && t < down * across; t++)
            if ((u32)(y + t / across * way) < h && (u32)(x + t % across * way) < w)
                taps[i] |= 1u << t;
        along_x = way * channels * 2, along_y = way * w * channels * 2, place = place_by_terms();
    }
    __device__ __forceinline__ void copy(u32 to, const tap_counter &at) {
        int tap = at.y * along_y + at.x * along_x + at.low * 2;
        for (int i = 0; i < COPIES; i++)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, p[i] + tap,
                       taps[i] >> at.number & 1 ? 16 : 0);
    }
};

struct large_patches : pixels_by_terms { // row: an output position; term: (tap, channel) of x
    __device__ __forceinline__ large_patches(const conv_params &s, int row0) {
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + chunk_row() + ROWS_APART * i;
            set(i, s.a, row / (s.oh * s.ow), row / s.ow % s.oh * s.stride - s.pad,
                row % s.ow * s.stride - s.pad, s.h, s.w, s.c, s.kh, s.kw, 1, row < s.out.m);
        }
    }
};

struct large_gradients : pixels_by_terms { // row: an input position; term: (tap, filter) of dy
    __device__ __forceinline__ large_gradients(const conv_params &s, const phase &f, int row0) {
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + chunk_row() + ROWS_APART * i, image = row / (f.rows_y * f.rows_x);
            set(i, s.a, image, row / f.rows_x % f.rows_y + (f.y + s.pad - f.first_y) / s.stride,
                row % f.rows_x + (f.x + s.pad - f.first_x) / s.stride, s.oh, s.ow, s.o, f.taps_y,
                f.taps_x, -1, row < f.rows(s));
        }
    }
};

struct large_filters { // row: a channel; term: (tap, filter) of w
    static const bool by_terms = false;
    const char *p;
    int64_t step;                     // bytes of eight filters
    int filter, along_x, along_y; // bytes of a filter, and from tap to tap
    u32 place;
    int bytes;
    __device__ __forceinline__ large_filters(const conv_params &s, const phase &f, int row0) {
        int row = row0 + threadIdx.x % (SIDE / CHUNK) * CHUNK;
        filter = s.kh * s.kw * s.c * 2, step = (int64_t)TERMS_APART * filter;
        p = (const char *)s.b + (int64_t)(threadIdx.x / (SIDE / CHUNK)) * filter +
            ((int64_t)(f.first_y * s.kw + f.first_x) * s.c + row) * 2;
        along_x = s.stride * s.c * 2, along_y = s.stride * s.kw * s.c * 2;
        bytes = row < s.c ? 16 : 0, place = place_by_rows();
    }
    __device__ __forceinline__ void copy(u32 to, const tap_counter &at) {
        const char *from = p + (u32)(at.y * along_y + at.x * along_x + at.low * filter);
        for (int i = 0; i < COPIES; i++, from += step)
            copy_chunk(to + place + i * TERMS_APART * TERM_BYTES, from, bytes);
    }
};

// Row: (tap, channel) of x; term: an output position. All chunks of a thread have the same term:
// eight lanes have eight terms, so that their chunks meet no bank twice.
struct large_patches_by_rows {
    static const bool by_terms = false;
    enum { CHUNKS_APART = SIDE / CHUNK / COPIES };
    const char *p; // the first corner of the position
    int offset[COPIES], high[COPIES], far[COPIES]; // of a chunk's tap
    int x, y, left, by_x, by_y, end_x, end_y, wide, tall, h, w, stride;
    int on, on_row, on_image; // bytes to the next term; and where a row, an image ends
    u32 place;
    __device__ __forceinline__ large_patches_by_rows(const conv_params &s, int row0, int k0,
                                                     int end)
        : wide(keep(s.ow * s.stride)), tall(keep(s.oh * s.stride)), h(s.h), w(s.w), stride(s.stride) {
        int term = threadIdx.x % 8 + threadIdx.x / 32 * 8, chunk = threadIdx.x / 8 % CHUNKS_APART;
        int k = k0 + term, row_bytes = s.w * s.c * 2, jump = s.stride * s.c * 2;
        left = end - k, place = term * TERM_BYTES + (chunk ^ term % 8) * 16;
        x = k % s.ow * s.stride - s.pad, y = k / s.ow % s.oh * s.stride - s.pad;
        p = (const char *)s.b + ((int64_t)(k / s.ow / s.oh) * s.h + y) * row_bytes + x * s.c * 2;
        int across = DEPTH % s.ow, down = DEPTH / s.ow % s.oh, images = DEPTH / s.ow / s.oh;
        by_x = across * s.stride, by_y = down * s.stride;
        end_x = wide - s.pad, end_y = tall - s.pad;
        on = (images * s.h + by_y) * row_bytes + across * jump;
        on_row = keep(s.stride * row_bytes - s.ow * jump);
        on_image = keep((s.h - s.oh * s.stride) * row_bytes);
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + (chunk + CHUNKS_APART * i) * CHUNK, tap = row / s.c;
            high[i] = row < s.out.n ? tap / s.kw : INT32_MIN / 2, far[i] = tap % s.kw;
            offset[i] = tap / s.kw * row_bytes + (tap % s.kw * s.c + row % s.c) * 2;
        }
    }
    __device__ __forceinline__ void copy(u32 to, const no_taps &) {
        int there = left > 0 ? y : INT32_MIN / 2;
        for (int i = 0; i < COPIES; i++) {
            bool in = (u32)(there + high[i]) < h && (u32)(x + far[i]) < w;
            copy_chunk(to + (place ^ i * CHUNKS_APART * 16), p + offset[i], in ? 16 : 0);
        }
        left -= DEPTH, x += by_x, y += by_y, p += on;
        if (x >= end_x)
            x -= wide, y += stride, p += on_row;
        if (y >= end_y)
            y -= tall, p += on_image;
    }
};

// ---- fragments ----------------------------------------------------------------------------------

template <bool turned> __device__ __forceinline__ void load_parts(u32 (&r)[4], u32 at) {
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
}

// Reads 16 rows and 16 terms: of 8 x 8 each, first the other rows, or with terms_first the other
// terms.
template <bool by_terms, bool terms_first> struct reader {
    u32 at[4];
    __device__ __forceinline__ reader(u32 row0) {
        u32 lane = threadIdx.x % 32, half = lane / 8 % 2, quarter = lane / 16;
        u32 of_row = terms_first ? quarter : half, of_term = terms_first ? half : quarter;
        u32 row = row0 + of_row * 8 + lane % 8, term = of_term * 8 + lane % 8;
        for (u32 i = 0; i < 4; i++)
            at[i] = by_terms ? row * ROW_BYTES + ((of_term + i % 2 * 2) ^ (row / 2 % 4)) * 16
                             : term * TERM_BYTES + ((row0 / 8 + i * 2 + of_row) ^ term % 8) * 16;
    }
    // Rows 16 i and terms 16 j.
    __device__ __forceinline__ void get(u32 (&r)[4], u32 tile, int i, int j) const {
        load_parts<!by_terms>(r, tile + (by_terms ? at[j] + i * 16 * ROW_BYTES
                                                  : at[i] + j * 16 * TERM_BYTES));
    }
};

struct large_sum {
    float v[4][8][4]; // [16 rows][8 columns][element of an mma]
};

template <class Type, class A, class B, class Taps>
__device__ __forceinline__ void large_run(large_sum &sum, A a, B b, Taps taps, int terms) {
    u32 first = (u32)__cvta_generic_to_shared(dynamic_shared), now = first;
    u32 then = first + STAGE, next = first + 2 * STAGE;
    reader<A::by_terms, false> of_a(threadIdx.x / 64 * WARP);
    reader<B::by_terms, true> of_b(threadIdx.x / 32 % 2 * WARP);
    int steps = (terms + DEPTH - 1) / DEPTH;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            a.copy(first + s * STAGE, taps), b.copy(first + s * STAGE + OPERAND, taps), taps.next();
        commit();
    }
#pragma unroll 1
    for (int left = steps; left > 0; left--) {
        wait<STAGES - 2>(); // the oldest stage has come
        __syncthreads();    // for all threads, and the one before is free
        if (left >= STAGES)
            a.copy(next, taps), b.copy(next + OPERAND, taps), taps.next();
        commit();
#pragma unroll
        for (int j = 0; j < DEPTH / 16; j++) {
            u32 ra[4][4], rb[4][4];
            for (int i = 0; i < 4; i++)
                of_a.get(ra[i], now, i, j), of_b.get(rb[i], now + OPERAND, i, j);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int n = 0; n < 8; n++)
                    Type::multiply(sum.v[i][n], ra[i], rb[n / 2][n % 2 * 2], rb[n / 2][n % 2 * 2 + 1]);
        }
        u32 free = now;
        now = then, then = next, next = free;
    }
}

// ---- results ------------------------------------------------------------------------------------

struct large_place {
    int row, column, split, k, k_end;
    __device__ __forceinline__ large_place(const product_out &o, int terms) {
        row = blockIdx.x * SIDE, column = blockIdx.y * SIDE, split = blockIdx.z % o.splits;
        k = split * o.k_split, k_end = min(k + o.k_split, terms);
    }
};

// Through shared memory, half of the rows at a time, so that stores fill whole sectors. f gives the
// row of the result for a row of the product; below 0: there is none.
enum { SUM_PITCH = SIDE + 8 };
static_assert(WARP * SUM_PITCH * sizeof(float) <= CUDA_LARGE_SHARED, "what the host asks for");
template <class F>
__device__ __forceinline__ void put_large(const large_sum &sum, const product_out &o,
                                          const large_place &at, F f) {
    float(*half)[SUM_PITCH] = (float(*)[SUM_PITCH])dynamic_shared;
    int row = threadIdx.x % 32 / 4, column = threadIdx.x / 32 % 2 * WARP + threadIdx.x % 4 * 2;
    for (int h = 0; h < 2; h++) {
        __syncthreads(); // nothing in shared memory is needed any more
        if (threadIdx.x / 64 == h) {
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int n = 0; n < 8; n++)
                    *(float2 *)&half[row + 8 * i][column + 8 * n] =
                        make_float2(sum.v[i / 2][n][i % 2 * 2], sum.v[i / 2][n][i % 2 * 2 + 1]);
        }
        __syncthreads(); // the half is there
        if (at.column + threadIdx.x >= o.n)
            continue;
#pragma unroll 2
        for (int r = 0; r < WARP; r++) {
            int64_t to = f(at.row + h * WARP + r);
            if (to >= 0)
                put(o, at.split, to, at.column + threadIdx.x, half[r][threadIdx.x]);
        }
    }
}

template <class Type> __device__ __forceinline__ void gemm_large(const gemm_params &p) {
    const product_out &o = p.out;
    large_place at(o, o.k);
    large_sum t = {};
    int terms = at.k_end - at.k;
    if (p.trans_a) // no product of the trainer has both transposed
        large_run<Type>(t, packed_by_rows(p.a, p.lda, at.row, o.m, at.k),
                        packed_by_rows(p.b, p.ldb, at.column, o.n, at.k), no_taps(), terms);
    else if (p.trans_b)
        large_run<Type>(t, packed_by_terms(p.a, p.lda, at.row, o.m, at.k),
                        packed_by_terms(p.b, p.ldb, at.column, o.n, at.k), no_taps(), terms);
    else
        large_run<Type>(t, packed_by_terms(p.a, p.lda, at.row, o.m, at.k),
                        packed_by_rows(p.b, p.ldb, at.column, o.n, at.k), no_taps(), terms);
    put_large(t, o, at, [&](int row) -> int64_t { return row < o.m ? row : -1; });
}

template <class Type> __device__ __forceinline__ void conv_forward_large(const conv_params &p) {
    large_place at(p.out, p.out.k);
    large_sum t = {};
    large_run<Type>(t, large_patches(p, at.row),
                    packed_by_terms(p.b, p.out.k, at.column, p.out.n, at.k),
                    tap_counter(at.k, p.c, p.kw), at.k_end - at.k);
    put_large(t, p.out, at, [&](int row) -> int64_t { return row < p.out.m ? row : -1; });
}

template <class Type> __device__ __forceinline__ void conv_data_large(const conv_params &p) {
    phase f(p, blockIdx.z / p.out.splits);
    large_place at(p.out, f.terms(p));
    if (at.row >= f.rows(p))
        return;
    large_sum t = {};
    large_run<Type>(t, large_gradients(p, f, at.row), large_filters(p, f, at.column),
                    tap_counter(at.k, p.o, f.taps_x), at.k_end - at.k);
    put_large(t, p.out, at, [&](int row) -> int64_t {
        if (row >= f.rows(p))
            return -1;
        int y = row / f.rows_x % f.rows_y * p.stride + f.y, x = row % f.rows_x * p.stride + f.x;
        return ((int64_t)(row / (f.rows_y * f.rows_x)) * p.h + y) * p.w + x;
    });
}

template <class Type> __device__ __forceinline__ void conv_weight_large(const conv_params &p) {
    large_place at(p.out, p.out.k);
    large_sum t = {};
    large_run<Type>(t, packed_by_rows(p.a, p.o, at.row, p.out.m, at.k),
                    large_patches_by_rows(p, at.column, at.k, at.k_end), no_taps(),
                    at.k_end - at.k);
    put_large(t, p.out, at, [&](int row) -> int64_t { return row < p.out.m ? row : -1; });
}
#define LARGE(call) call
#else
#define LARGE(call)
#endif

// ---- kernels: blockIdx is (tile of rows, tile of columns, split and phase) ----------------------

#define PACK extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
PACK pack_bf16(const pack_params p) {
    pack<bfloat>(p);
}
PACK pack_half(const pack_params p) {
    pack<half>(p);
}

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_LARGE_THREADS, 2)
KERNEL gemm_large_bf16(const gemm_params p) {
    LARGE(gemm_large<bfloat>(p));
}
KERNEL gemm_large_half(const gemm_params p) {
    LARGE(gemm_large<half>(p));
}
KERNEL conv_forward_large_bf16(const conv_params p) {
    LARGE(conv_forward_large<bfloat>(p));
}
KERNEL conv_forward_large_half(const conv_params p) {
    LARGE(conv_forward_large<half>(p));
}
KERNEL conv_data_large_bf16(const conv_params p) {
    LARGE(conv_data_large<bfloat>(p));
}
KERNEL conv_data_large_half(const conv_params p) {
    LARGE(conv_data_large<half>(p));
}
KERNEL conv_weight_large_bf16(const conv_params p) {
    LARGE(conv_weight_large<bfloat>(p));
}
KERNEL conv_weight_large_half(const conv_params p) {
    LARGE(conv_weight_large<half>(p));
}
