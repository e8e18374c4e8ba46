// SPDX-License-Identifier: Apache-2.0
// A tile of a product of two operands, whatever gives their elements. A block of CUDA_THREADS
// threads makes CUDA_TILE rows and columns, CUDA_TILE_K terms at a time.
//
// An operand is a class with by_terms and load(v), of floats or, with `kept`, of either type. With
// by_terms, memory is contiguous along the terms: v[i] is the element of term threadIdx.x % 16 and
// row threadIdx.x / 16 + 16 i. Without, it is contiguous along the rows: v[i] is term threadIdx.x /
// 64 + 4 i of row threadIdx.x % 64. load gives zero beyond the ends, and moves to the next step.
// All divisions are made in constructors.
#ifndef DTCTL_KERNELS_CUDA_PRODUCT_CUH
#define DTCTL_KERNELS_CUDA_PRODUCT_CUH
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/stored.cuh"

typedef unsigned u32;
extern __shared__ __align__(16) char dynamic_shared[]; // two stages
enum { TILE = CUDA_TILE, STEP = CUDA_TILE_K, LOADS = TILE * STEP / CUDA_THREADS };

template <class Operand> __device__ __forceinline__ int place_row(int i) {
    return Operand::by_terms ? threadIdx.x / STEP + 16 * i : threadIdx.x % TILE;
}
template <class Operand> __device__ __forceinline__ int place_term(int i) {
    return Operand::by_terms ? threadIdx.x % STEP : threadIdx.x / TILE + 4 * i;
}

// One instruction of the tensor cores: 16 rows, 8 columns, and as many terms as the kind has.
#define MMA(kind, d, a, b0, b1)                                                                    \
    asm volatile("mma.sync.aligned." kind ".f32 {%0, %1, %2, %3}, "                                \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

// The types that tensor cores multiply. bits: a number to nearest; ties to even, of tf32 away from
// zero. multiply: 16 terms, of tf32 eight.
struct bfloat {
    typedef bf16_word word;
    static const bool tensor = __CUDA_ARCH__ >= 800; // cores for this type
    static const bool kept = true;                   // tensors may be in memory as this type
    static __device__ __forceinline__ word bits(float v) { return narrowed(v); }
    static __device__ __forceinline__ float round(float v) { return widened(narrowed(v)); }
    static __device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0,
                                                    u32 b1) {
#if __CUDA_ARCH__ >= 800
        MMA("m16n8k16.row.col.f32.bf16.bf16", d, a, b0, b1);
#endif
    }
};

struct half {
    typedef unsigned short word;
    static const bool kept = false;
    static __device__ __forceinline__ unsigned short bits(float v) {
        unsigned short h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
        return h;
    }
    static __device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0,
                                                    u32 b1) {
#if __CUDA_ARCH__ >= 800
        MMA("m16n8k16.row.col.f32.f16.f16", d, a, b0, b1);
#else
        eight(d, a[0], a[1], b0), eight(d, a[2], a[3], b1);
#endif
    }
    // Eight terms of the sixteen: all that sm_75 does at once.
    static __device__ __forceinline__ void eight(float (&d)[4], u32 a0, u32 a1, u32 b) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(b));
    }
};

// A float with ten bits of fraction. Only GPUs of 8.0 and newer have it.
struct tf32 {
    typedef u32 word;
    static const bool kept = false;
    static __device__ __forceinline__ u32 bits(float v) {
        u32 w = 0;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(w) : "f"(v));
#endif
        return w;
    }
    static __device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0,
                                                    u32 b1) {
#if __CUDA_ARCH__ >= 800
        MMA("m16n8k8.row.col.f32.tf32.tf32", d, a, b0, b1);
#endif
    }
};

// The pipeline of every product: while one stage is multiplied the next one is loaded.
template <class Product, class A, class B>
__device__ __forceinline__ void product_run(Product &t, A a, B b, int terms) {
    typename Product::stage *stage = (typename Product::stage *)dynamic_shared;
    float va[LOADS], vb[LOADS];
    for (int i = 0; i < 16; i++)
        t.sum[i / 4][i % 4] = 0.0f;
    a.load(va), b.load(vb);
    Product::template put<A>(stage[0].a, va), Product::template put<B>(stage[0].b, vb);
    __syncthreads(); // the first stage is full
    for (int at = 0, now = 0; at < terms; at += STEP, now ^= 1) {
        bool more = at + STEP < terms;
        if (more)
            a.load(va), b.load(vb);
        t.template step<A, B>(stage[now]);
        if (more) {
            Product::template put<A>(stage[now ^ 1].a, va);
            Product::template put<B>(stage[now ^ 1].b, vb);
        }
        __syncthreads(); // the next stage is full, and this one is free
    }
}

// ---- float: 4 x 4 outputs of a thread; rows 2 y, 2 y + 1, 32 + 2 y, …, columns x, x + 16, …
// ---------- Terms lie FLOAT_PITCH apart: neither stores of either kind nor reads meet a bank
// twice.
enum { FLOAT_PITCH = TILE + 2 };
struct float_stage {
    float a[STEP][FLOAT_PITCH], b[STEP][FLOAT_PITCH];
};
static_assert(2 * sizeof(float_stage) == CUDA_PRODUCT_SHARED, "what the host asks for");

template <bool ROUND> struct float_product {
    static const bool kept = ROUND; // in place of products of bfloat16
    typedef float_stage stage;
    float sum[4][4];
    template <class Operand>
    static __device__ __forceinline__ void put(float (*to)[FLOAT_PITCH], const float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++)
            to[place_term<Operand>(i)][place_row<Operand>(i)] = ROUND ? bfloat::round(v[i]) : v[i];
    }
    __device__ __forceinline__ void end() {}
    // Element e of 16.
    __device__ __forceinline__ int row(int e) const {
        return threadIdx.x / 16 * 2 + e / 4 % 2 + e / 8 * 32;
    }
    __device__ __forceinline__ int column(int e) const { return threadIdx.x % 16 + e % 4 * 16; }

    template <class A, class B> __device__ __forceinline__ void step(const float_stage &s) {
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            float2 low = *(const float2 *)&s.a[k][row(0)], high = *(const float2 *)&s.a[k][row(8)];
            float a[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float b = s.b[k][column(j)];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[i][j] = fmaf(a[i], b, sum[i][j]);
            }
        }
    }
};

// ---- tensor cores: a warp makes 32 rows and 16 columns, with mma.sync ---------------------------

// Four matrices of 8 x 8 words of 16 bits. Of tf32 a matrix has 8 x 4.
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
__device__ __forceinline__ u32 load_word(u32 at) {
    u32 word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
    return word;
}

// v[i] becomes v[i ^ by].
__device__ __forceinline__ void exchange(float (&v)[4], int by) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & bit)) {
                float a = v[i], b = v[i ^ bit];
                v[i] = by & bit ? b : a, v[i ^ bit] = by & bit ? a : b;
            }
}

struct tensor_product {
    float sum[4][4]; // [row tile, column tile][element of an mma]
    __device__ __forceinline__ int first_row() const { return threadIdx.x / 128 * 32; }
    __device__ __forceinline__ int first_column() const { return threadIdx.x / 32 % 4 * 16; }
    // Of eight rows each lane has two neighbours in either column tile of one row. Then it has one
    // column of four rows, and sixteen lanes have a row: a store fills whole sectors, of bfloat16
    // too.
    __device__ __forceinline__ void end() {
        int lane = threadIdx.x % 32, mine = lane / 8 % 2 * 2 + lane % 2;
        int from = mine * 8 + lane / 16 * 4 + lane % 8 / 2;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float(&left)[4] = sum[r / 2 * 2], (&right)[4] = sum[r / 2 * 2 + 1];
            int at = r % 2 * 2;
            float v[4] = {left[at], left[at + 1], right[at], right[at + 1]};
            exchange(v, lane / 8);
#pragma unroll
            for (int i = 0; i < 4; i++)
                v[i] = __shfl_sync(0xffffffff, v[i], from ^ i * 8);
            exchange(v, mine);
            left[at] = v[0], left[at + 1] = v[1], right[at] = v[2], right[at + 1] = v[3];
        }
    }
    // Element e of 16.
    __device__ __forceinline__ int row(int e) const {
        return first_row() + e / 8 * 16 + e / 2 % 2 * 8 + e / 4 % 2 * 4 + e % 2 * 2 +
               threadIdx.x % 32 / 16;
    }
    __device__ __forceinline__ int column(int e) const {
        return first_column() + threadIdx.x % 16;
    }
};

// An operand is kept as it is loaded: by rows, 24 apart, or by terms, 72 apart; ldmatrix
// transposes.
enum { BY_TERMS_PITCH = STEP + 8, BY_ROWS_PITCH = TILE + 8 };
union narrow_tile {
    unsigned short by_terms[TILE][BY_TERMS_PITCH];
    unsigned short by_rows[STEP][BY_ROWS_PITCH];
};
struct narrow_stage {
    narrow_tile a, b;
};
static_assert(2 * sizeof(narrow_stage) <= CUDA_PRODUCT_SHARED, "what the host asks for");

// Four matrices of 8 x 8 out of 16 rows and 16 terms. terms_first: the second has the other terms,
// not the other rows.
template <bool by_terms, bool terms_first>
__device__ __forceinline__ void narrow_get(u32 (&r)[4], const narrow_tile &from, int row) {
    int lane = threadIdx.x % 32, half = lane / 8 % 2 * 8, quarter = lane / 16 * 8;
    int of_row = terms_first ? quarter : half, of_term = terms_first ? half : quarter;
    const void *at = by_terms ? (const void *)&from.by_terms[row + of_row + lane % 8][of_term]
                              : &from.by_rows[of_term + lane % 8][row + of_row];
    load_parts<!by_terms>(r, (u32)__cvta_generic_to_shared(at));
}

template <class Type> struct narrow_product : tensor_product {
    static const bool kept = Type::kept;
    typedef narrow_stage stage;
    template <class Operand>
    static __device__ __forceinline__ void put(narrow_tile &to, const float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++) {
            int term = place_term<Operand>(i), row = place_row<Operand>(i);
            *(Operand::by_terms ? &to.by_terms[row][term] : &to.by_rows[term][row]) =
                Type::bits(v[i]);
        }
    }

    template <class A, class B> __device__ __forceinline__ void step(const narrow_stage &s) {
        u32 a[2][4], b[4];
        narrow_get<A::by_terms, false>(a[0], s.a, first_row());
        narrow_get<A::by_terms, false>(a[1], s.a, first_row() + 16);
        narrow_get<B::by_terms, true>(b, s.b, first_column());
#pragma unroll
        for (int i = 0; i < 4; i++)
            Type::multiply(sum[i], a[i / 2], b[i % 2 * 2], b[i % 2 * 2 + 1]);
    }
};

// Words of tf32 lie where the row's or the term's number turns them: neither stores nor reads of
// either kind meet a bank twice. ldmatrix cannot transpose them: by rows they are read one by one.
struct tf32_stage {
    u32 a[TILE * STEP], b[TILE * STEP];
};
static_assert(2 * sizeof(tf32_stage) <= CUDA_PRODUCT_SHARED, "what the host asks for");

template <bool by_terms> __device__ __forceinline__ int tf32_place(int row, int term) {
    return by_terms ? row * STEP + (term ^ row / 2 % 4 * 4) : term * TILE + (row ^ term % 4 * 8);
}

// As narrow_get, 16 rows and eight terms.
template <bool by_terms, bool terms_first>
__device__ __forceinline__ void tf32_get(u32 (&r)[4], const u32 *from, int row, int term) {
    int lane = threadIdx.x % 32, half = lane / 8 % 2, quarter = lane / 16;
    u32 at = (u32)__cvta_generic_to_shared(from);
    if (by_terms) {
        row += (terms_first ? quarter : half) * 8 + lane % 8;
        term += (terms_first ? half : quarter) * 4;
        load_parts<false>(r, at + tf32_place<true>(row, term) * 4);
    } else {
        row += lane / 4, term += lane % 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            r[i] = load_word(at + tf32_place<false>(row + (terms_first ? i / 2 : i % 2) * 8,
                                                    term + (terms_first ? i % 2 : i / 2) * 4) *
                                      4);
    }
}

struct tf32_product : tensor_product {
    static const bool kept = false;
    typedef tf32_stage stage;
    template <class Operand>
    static __device__ __forceinline__ void put(u32 *to, const float (&v)[LOADS]) {
        for (int i = 0; i < LOADS; i++)
            to[tf32_place<Operand::by_terms>(place_row<Operand>(i), place_term<Operand>(i))] =
                tf32::bits(v[i]);
    }

    template <class A, class B> __device__ __forceinline__ void step(const tf32_stage &s) {
#pragma unroll
        for (int k = 0; k < STEP; k += 8) {
            u32 a[2][4], b[4];
            tf32_get<A::by_terms, false>(a[0], s.a, first_row(), k);
            tf32_get<A::by_terms, false>(a[1], s.a, first_row() + 16, k);
            tf32_get<B::by_terms, true>(b, s.b, first_column(), k);
#pragma unroll
            for (int i = 0; i < 4; i++)
                tf32::multiply(sum[i], a[i / 2], b[i % 2 * 2], b[i % 2 * 2 + 1]);
        }
    }
};

template <bool tensor> struct bfloat_choice { typedef narrow_product<bfloat> type; };
template <> struct bfloat_choice<false> { typedef float_product<true> type; };
typedef bfloat_choice<bfloat::tensor>::type bfloat_product;
typedef narrow_product<half> half_product;

// The data gradient falls into stride x stride phases of input positions. Those of one phase are
// reached by the same filter taps: every stride-th from (first_y, first_x).
struct phase {
    int y, x, first_y, first_x, taps_y, taps_x, rows_y, rows_x;
    __device__ __forceinline__ phase(const conv_params &s, int n) {
        y = n / s.stride, x = n % s.stride;
        first_y = (y + s.pad) % s.stride, first_x = (x + s.pad) % s.stride;
        taps_y = first_y < s.kh ? (s.kh - first_y - 1) / s.stride + 1 : 0;
        taps_x = first_x < s.kw ? (s.kw - first_x - 1) / s.stride + 1 : 0;
        rows_y = y < s.h ? (s.h - y - 1) / s.stride + 1 : 0;
        rows_x = x < s.w ? (s.w - x - 1) / s.stride + 1 : 0;
    }
    __device__ __forceinline__ int rows(const conv_params &s) const {
        return s.images * rows_y * rows_x;
    }
    __device__ __forceinline__ int terms(const conv_params &s) const {
        return taps_y * taps_x * s.o;
    }
};

// Where a block's tile and terms are. blockIdx is (tile of rows, tile of columns, split and phase).
template <int ROWS> struct tile_place {
    int row, column, split, k, k_end;
    __device__ __forceinline__ tile_place(const product_out &o, int terms) {
        row = blockIdx.x * ROWS, column = blockIdx.y * ROWS, split = blockIdx.z % o.splits;
        k = split * o.k_split, k_end = min(k + o.k_split, terms);
    }
};

// ---- the end of a product -----------------------------------------------------------------------

// The part of enum cuda_act that a kernel has: none, the gradient of ReLU, all.
enum { NO_ACT, RELU_ACT, ALL_ACTS };

template <int ACTS> __device__ __forceinline__ bool is_grad(const product_out &o) {
    return (ACTS >= RELU_ACT && o.act == CUDA_ACT_RELU_GRAD) ||
           (ACTS == ALL_ACTS && o.act == CUDA_ACT_GELU_GRAD);
}

// v: the sum, `from` and the bias; x: the number beside where the act is a derivative.
// The number as it is in memory then.
template <bool kept, int ACTS>
__device__ __forceinline__ float finish(const product_out &o, int64_t at, float v, float x) {
    numbers<kept> c(o.c, o.bf16), beside(o.beside, o.bf16);
    if (ACTS >= RELU_ACT && o.act == CUDA_ACT_RELU_GRAD)
        v = x > 0.0f ? v : 0.0f;
    if (ACTS == ALL_ACTS && (o.act == CUDA_ACT_GELU || o.act == CUDA_ACT_GELU_GRAD)) {
        bool grad = o.act == CUDA_ACT_GELU_GRAD;
        x = grad ? x : c.rounded(v);
        gelu_parts gelu(x);
        if (grad)
            v *= gelu.slope(x);
        else
            beside.put(at, x * gelu.share);
    }
    v = o.relu && v < 0.0f ? 0.0f : v;
    c.put(at, v);
    return c.rounded(v);
}

template <bool kept, int ACTS>
__device__ __forceinline__ float finish_sum(const product_out &o, int64_t at, int column,
                                            float sum) {
    float v = o.alpha * sum, x = 0.0f;
    if (o.beta != 0.0f)
        v += o.beta * numbers<kept>(o.from, o.bf16)[at];
    if (is_grad<ACTS>(o))
        x = numbers<kept>(o.beside, o.bf16)[at];
    if (o.bias)
        v += o.bias[column];
    return finish<kept, ACTS>(o, at, v, x);
}

// row is that of the result: rows of a tile may lie elsewhere. kept: that may be in bfloat16. The
// number as it is in memory, unless it is a split's.
template <bool kept, int ACTS>
__device__ __forceinline__ float put(const product_out &o, int split, int64_t row, int column,
                                     float sum) {
    if (!o.partial)
        return finish_sum<kept, ACTS>(o, row * o.ldc + column, column, sum);
    return o.partial[split * o.size + row * o.n + column] = sum;
}

// Of a column of a tile, what product_out.sums has. Rows come in their order.
struct tile_sums {
    float first, sum, square;
    __device__ __forceinline__ void add(int row, float v) {
        if (row == 0)
            first = v, sum = square = 0.0f;
        float d = v - first;
        sum += d, square = fmaf(d, d, square);
    }
    __device__ __forceinline__ void leave(const product_out &o, int column) const {
        float *to = o.sums + (int64_t)blockIdx.x * 2 * o.n + column;
        to[0] = sum, to[o.n] = square;
    }
};
#endif
