// SPDX-License-Identifier: Apache-2.0
// The two GEMM microkernels for one instruction set; included by isa_*.c after they define
// VL (floats per vector), MR (rows of a tile), NV (vectors per row), vec, vmask and the V_* macros.
// A tile of MR x NV vectors stays in registers; each step broadcasts one element per row.
// Blocking after Goto and van de Geijn (2008) and BLIS (Van Zee and van de Geijn 2015); reading A
// through row pointers instead of packing patches after Dukhan's indirect convolution (2019).
// Not a header to include anywhere else.

#ifdef MR

// A word of the operands (isa.h): how a vector of them is loaded, whole or masked, one is
// broadcast, and two are multiplied and added to a vector of floats.
#ifndef WORD
#define WORD           float
#define W_LOAD(p)      V_LOAD(p)
#define W_LOADM(p, m)  V_LOADM(p, m)
#define W_SET1(x)      V_SET1(x)
#define W_MAC(a, b, c) V_FMA(a, b, c)
typedef vec word_vec;
#endif

#define NR     (NV * VL)
#define INLINE static inline __attribute__((always_inline))
#include "kernels/cpu/store_body.h"

INLINE void store_tile(const struct tile_out *o, vec (*acc)[NV], const int mr, const int nv,
                       const int whole) {
    vmask tail = V_MASK(o->cols - (nv - 1) * VL);
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
        float *c = o->c[i];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            store_vec(o, c + j * VL, o->bias ? o->bias + j * VL : NULL, acc[i][j],
                      whole || j < nv - 1, tail);
    }
}

INLINE void zero_tile(vec (*acc)[NV], const int mr, const int nv) {
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            acc[i][j] = V_SET1(0.0F);
}

// whole: all columns exist, so nothing has to be masked.
INLINE void rows_tile_n(const struct rows_tile *t, const int mr, const int nv, const int whole) {
    vec acc[MR][NV];
    zero_tile(acc, mr, nv);
    for (int s = 0; s < t->segs; s++) {
        const WORD *a[MR], *b = (const WORD *)t->b + s * t->b_seg;
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++)
            a[i] = (const WORD *)t->a[s * MR + i] + t->k;
        // Counting up to zero saves the register that an end would take: all rows fit.
        for (ptrdiff_t p = -(ptrdiff_t)t->k; p != 0; p++, b += NR) {
            word_vec bv[NV];
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                bv[j] = W_LOAD(b + j * VL);
#pragma GCC unroll 16
            for (int i = 0; i < mr; i++) {
                word_vec x = W_SET1(a[i][p]);
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    acc[i][j] = W_MAC(x, bv[j], acc[i][j]);
            }
        }
    }
    store_tile(&t->out, acc, mr, nv, whole);
}

INLINE void cols_tile_n(const struct cols_tile *t, const int mr, const int nv, const int whole) {
    vec acc[MR][NV];
    vmask tail = V_MASK(t->out.cols - (nv - 1) * VL);
    zero_tile(acc, mr, nv);
    for (int p = 0; p < t->k; p++) {
        const WORD *a = (const WORD *)t->a + t->a_at[p];
        const WORD *b = (const WORD *)t->b + p * t->b_step;
        word_vec bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            bv[j] = whole || j < nv - 1 ? W_LOAD(b + j * VL) : W_LOADM(b + j * VL, tail);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
            word_vec x = W_SET1(a[i]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = W_MAC(x, bv[j], acc[i][j]);
        }
    }
    store_tile(&t->out, acc, mr, nv, whole);
}

// One function per number of rows, so that a tile at the edge costs only its own rows, and per
// width: one vector, all vectors with a masked tail, all vectors whole.
#define TILE_FN_KIND(kind, r)                                                                      \
    static void kind##_##r##x1(const struct kind##_tile *t) {                                      \
        kind##_tile_n(t, r, 1, 0);                                                                 \
    }                                                                                              \
    static void kind##_##r##x2(const struct kind##_tile *t) {                                      \
        kind##_tile_n(t, r, NV, 0);                                                                \
    }                                                                                              \
    static void kind##_##r##x3(const struct kind##_tile *t) {                                      \
        kind##_tile_n(t, r, NV, 1);                                                                \
    }
#define TILE_FN(r) TILE_FN_KIND(rows, r) TILE_FN_KIND(cols, r)
#define TILE_FNS_4 TILE_FN(1) TILE_FN(2) TILE_FN(3) TILE_FN(4)
#define TILE_FNS_6 TILE_FNS_4 TILE_FN(5) TILE_FN(6)
#define TILE_FNS_12                                                                                \
    TILE_FNS_6                                                                                     \
    TILE_FN(7) TILE_FN(8) TILE_FN(9) TILE_FN(10) TILE_FN(11) TILE_FN(12)
#define TILE_ROW_4(kind, v) kind##_1x##v, kind##_2x##v, kind##_3x##v, kind##_4x##v
#define TILE_ROW_6(kind, v) TILE_ROW_4(kind, v), kind##_5x##v, kind##_6x##v
#define TILE_ROW_12(kind, v)                                                                       \
    TILE_ROW_6(kind, v), kind##_7x##v, kind##_8x##v, kind##_9x##v, kind##_10x##v, kind##_11x##v,   \
        kind##_12x##v

TILE_FNS

// The index of a tile in the tables of three widths.
INLINE int width_of(const struct tile_out *o) {
    return (o->cols > VL) + (o->cols == NR);
}

static void micro_rows(const struct rows_tile *t) {
    static void (*const table[][MR])(const struct rows_tile *) = {
        {TILE_ROW(rows, 1)}, {TILE_ROW(rows, 2)}, {TILE_ROW(rows, 3)}};
    table[width_of(&t->out)][t->out.rows - 1](t);
}

static void micro_cols(const struct cols_tile *t) {
    static void (*const table[][MR])(const struct cols_tile *) = {
        {TILE_ROW(cols, 1)}, {TILE_ROW(cols, 2)}, {TILE_ROW(cols, 3)}};
    table[width_of(&t->out)][t->out.rows - 1](t);
}

#ifndef MICRO_PRODUCTS_ONLY
typedef float quad __attribute__((vector_size(16)));

INLINE quad load_quad(const float *p) {
    quad v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store_quad(float *p, quad v) {
    __builtin_memcpy(p, &v, sizeof v);
}

// Four k of four rows of the source become four columns of four rows of the panel.
INLINE void transpose_quad(const float *src, ptrdiff_t stride, float *dst) {
    quad a = load_quad(src), b = load_quad(src + stride), c = load_quad(src + 2 * stride),
         d = load_quad(src + 3 * stride);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    store_quad(dst, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store_quad(dst + NR, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store_quad(dst + 2 * NR, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store_quad(dst + 3 * NR, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
}

// Sixteen k at a time, so that every line of the source is used up while it is near.
static void micro_pack_transposed(int k, int cols, const float *src, ptrdiff_t stride, float *dst) {
    enum { step = 16 };
    for (int p = 0; p < k; p += step) {
        int n = k - p < step ? k - p : step;
        for (int j = 0; j < NR; j += 4) {
            const float *s = src + j * stride + p;
            float *d = dst + (size_t)p * NR + j;
            int q = 0;
            for (; j + 4 <= cols && q + 4 <= n; q += 4)
                transpose_quad(s + q, stride, d + q * NR);
            for (; q < n; q++)
                for (int i = 0; i < 4; i++)
                    d[q * NR + i] = j + i < cols ? s[i * stride + q] : 0;
        }
    }
}

static void micro_pack_copied(int k, int cols, const float *src, ptrdiff_t stride, float *dst) {
    vmask mask[NV];
    for (int v = 0; v < NV; v++) {
        int left = cols - v * VL;
        mask[v] = V_MASK(left < 0 ? 0 : left > VL ? VL : left);
    }
    for (int p = 0; p < k; p++, src += stride, dst += NR)
        for (int v = 0; v < NV; v++)
            V_STORE(dst + v * VL, load_part(src + v * VL, cols == NR, mask[v]));
}

// To the nearest bfloat16, ties to even, held as a float; NaN stays NaN.
static void micro_round(size_t n, const float *x, float *out) {
    for (size_t i = 0; i < n; i++) {
        uint32_t v;
        __builtin_memcpy(&v, x + i, sizeof v);
        uint32_t near = (v + 0x7fffU + (v >> 16 & 1)) & 0xffff0000U;
        v = (v & 0x7fffffffU) > 0x7f800000U ? (v & 0xffff0000U) | 0x400000U : near;
        __builtin_memcpy(out + i, &v, sizeof v);
    }
}

static void micro_round_panel(int k, const float *panel, float *words) {
    micro_round((size_t)k * NR, panel, words);
}
#endif

#endif
