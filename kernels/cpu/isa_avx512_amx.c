// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 for AMX: one instruction multiplies 16 rows of 16 words by 16 words of 16
// columns. A tile is 32 x 32, four registers of sums; words and panels are those of
// isa_avx512_bf16.c. An operand that does not lie as a register needs it is copied first. Built
// with those flags; run only where type_amx_usable() says so.
#if defined(__AVX512BF16__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/amx_config.h"
#include "kernels/cpu/avx512_body.h"
#include "kernels/cpu/isa.h"

#define INLINE   static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")
#include "kernels/cpu/store_body.h"

enum {
    SIDE = VL,
    ROWS = 2 * SIDE,
    COLS = NV * SIDE,
    WORD = sizeof(float),
    RUN = 8 * SIDE, // words of each row that are copied at a time: a third of a first-level cache
    APART = RUN + SIDE, // of copied rows, so that they do not fall on the same cache sets
};
_Static_assert(ROWS <= (int)tile_rows_max && COLS <= (int)tile_cols_max, "arrays of the drivers");

// Registers 0 to 3 hold the sums [rows][columns], 4 and 5 rows of A, 6 and 7 columns of B.
struct amx {
    _Alignas(64) float a[ROWS][APART]; // copies: [row][word]
    _Alignas(64) float b[SIDE][COLS];  // [word][column]
    _Alignas(64) float sum[ROWS][COLS];
};

// The compiler does not see that an instruction for tiles reads memory.
INLINE void written(void) {
    __asm__ volatile("" ::: "memory");
}

static void open_tiles(void) {
    _tile_loadconfig(&amx_config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// n words of each row, filled up with zeros to whole registers.
INLINE void gather_rows(const float *const *a, int rows, int p, int n, float (*to)[APART]) {
    int whole = n / SIDE * SIDE;
    vmask tail = V_MASK(n - whole);
    for (int i = 0; i < rows; i++) {
        for (int q = 0; q < whole; q += SIDE)
            V_STORE(to[i] + q, V_LOAD(a[i] + p + q));
        if (tail)
            V_STORE(to[i] + whole, V_LOADM(a[i] + p + whole, tail));
    }
}

// Words and columns that are not there become zero.
INLINE void copy_columns(const float *b, ptrdiff_t step, int n, int cols, float (*to)[COLS]) {
    vmask low = V_MASK(cols < VL ? cols : VL), high = V_MASK(cols < VL ? 0 : cols - VL);
    for (int p = 0; p < SIDE; p++) {
        V_STORE(to[p], V_LOADM(b + p * step, p < n ? low : 0));
        V_STORE(to[p] + VL, V_LOADM(b + p * step + VL, p < n ? high : 0));
    }
}

// 16 x 16 words, of which n rows are read: to[i][p] = from[p][i]
INLINE void transpose(const float *const *from, int n, vmask there, float (*to)[APART]) {
    __m512 r[SIDE], t[SIDE];
    UNROLLED for (int p = 0; p < SIDE; p++) r[p] = V_LOADM(from[p], p < n ? there : 0);
    UNROLLED for (int p = 0; p < SIDE; p += 2) {
        t[p] = _mm512_unpacklo_ps(r[p], r[p + 1]);
        t[p + 1] = _mm512_unpackhi_ps(r[p], r[p + 1]);
    }
    UNROLLED for (int p = 0; p < SIDE; p += 4) for (int i = 0; i < 2; i++) {
        __m512d low = _mm512_castps_pd(t[p + i]), high = _mm512_castps_pd(t[p + 2 + i]);
        r[p + 2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        r[p + 2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
    // r[4q + i] has columns i, 4 + i, 8 + i and 12 + i of rows 4q to 4q + 3.
    UNROLLED for (int i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x44);
        __m512 b = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x44);
        __m512 c = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xee);
        __m512 d = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xee);
        V_STORE(to[i], _mm512_shuffle_f32x4(a, b, 0x88));
        V_STORE(to[4 + i], _mm512_shuffle_f32x4(a, b, 0xdd));
        V_STORE(to[8 + i], _mm512_shuffle_f32x4(c, d, 0x88));
        V_STORE(to[12 + i], _mm512_shuffle_f32x4(c, d, 0xdd));
    }
}

INLINE void multiply(const int na, const int nb) {
    _tile_dpbf16ps(0, 4, 6);
    if (nb == 2)
        _tile_dpbf16ps(1, 4, 7);
    if (na == 2)
        _tile_dpbf16ps(2, 5, 6);
    if (na == 2 && nb == 2)
        _tile_dpbf16ps(3, 5, 7);
}

INLINE void load_columns(const float *b, ptrdiff_t step, const int nb) {
    _tile_loadd(6, b, step * WORD);
    if (nb == 2)
        _tile_loadd(7, b + SIDE, step * WORD);
}

INLINE void load_rows(const struct amx *m, int q, const int na) {
    _tile_loadd(4, m->a[0] + q, sizeof m->a[0]);
    if (na == 2)
        _tile_loadd(5, m->a[SIDE] + q, sizeof m->a[0]);
}

INLINE void store_sums(struct amx *m, const struct tile_out *o, const int na, const int nb) {
    _tile_stored(0, m->sum[0], sizeof m->sum[0]);
    if (nb == 2)
        _tile_stored(1, m->sum[0] + SIDE, sizeof m->sum[0]);
    if (na == 2)
        _tile_stored(2, m->sum[SIDE], sizeof m->sum[0]);
    if (na == 2 && nb == 2)
        _tile_stored(3, m->sum[SIDE] + SIDE, sizeof m->sum[0]);
    _tile_release();
    written();
    int whole = o->cols == nb * VL;
    vmask tail = V_MASK(o->cols - (nb - 1) * VL);
    for (int i = 0; i < o->rows; i++)
        for (int j = 0; j < nb; j++)
            store_vec(o, o->c[i] + j * VL, o->bias ? o->bias + j * VL : NULL,
                      V_LOAD(m->sum[i] + j * VL), whole || j < nb - 1, tail);
}

INLINE void rows_n(const struct rows_tile *t, const int na, const int nb) {
    struct amx m;
    open_tiles();
    for (int s = 0; s < t->segs; s++) {
        const float *const *a = t->a + s * ROWS, *b = t->b + s * t->b_seg;
        for (int p = 0; p < t->k; p += RUN) {
            int n = t->k - p < RUN ? t->k - p : RUN;
            gather_rows(a, t->out.rows, p, n, m.a);
            for (int q = 0; q < n; q += SIDE, b += SIDE * COLS) {
                int tail = n - q < SIDE;
                if (tail)
                    copy_columns(b, COLS, n - q, COLS, m.b);
                written();
                load_columns(tail ? m.b[0] : b, COLS, nb);
                load_rows(&m, q, na);
                multiply(na, nb);
            }
        }
    }
    store_sums(&m, &t->out, na, nb);
}

INLINE void cols_n(const struct cols_tile *t, const int na, const int nb) {
    struct amx m;
    vmask rows[2] = {V_MASK(na == 2 ? SIDE : t->out.rows),
                     V_MASK(na == 2 ? t->out.rows - SIDE : 0)};
    open_tiles();
    for (int p = 0; p < t->k; p += SIDE) {
        int n = t->k - p < SIDE ? t->k - p : SIDE, copied = n < SIDE || t->out.cols < nb * VL;
        const float *b = t->b + p * t->b_step, *a[SIDE];
        for (int i = 0; i < na; i++) {
            for (int q = 0; q < SIDE; q++)
                a[q] = t->a + t->a_at[q < n ? p + q : p] + i * SIDE;
            transpose(a, n, rows[i], m.a + i * SIDE);
        }
        if (copied)
            copy_columns(b, t->b_step, n, t->out.cols, m.b);
        written();
        load_columns(copied ? m.b[0] : b, copied ? COLS : t->b_step, nb);
        load_rows(&m, 0, na);
        multiply(na, nb);
    }
    store_sums(&m, &t->out, na, nb);
}

// One function for each number of registers that the tile's rows and columns fill.
#define TILE_FN(kind, na, nb)                                                                      \
    static void kind##_##na##x##nb(const struct kind##_tile *t) {                                  \
        kind##_n(t, na, nb);                                                                       \
    }
#define TILE_FNS(kind)                                                                             \
    TILE_FN(kind, 1, 1)                                                                            \
    TILE_FN(kind, 1, 2)                                                                            \
    TILE_FN(kind, 2, 1)                                                                            \
    TILE_FN(kind, 2, 2)                                                                            \
    static void amx_##kind(const struct kind##_tile *t) {                                          \
        static void (*const table[2][2])(const struct kind##_tile *) = {{kind##_1x1, kind##_1x2},  \
                                                                        {kind##_2x1, kind##_2x2}}; \
        table[t->out.rows > SIDE][t->out.cols > SIDE](t);                                          \
    }
TILE_FNS(rows)
TILE_FNS(cols)

// The processor has AMX, and the system lets this process use it.
int type_amx_usable(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) &&
           type_avx512_bf16_usable() && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

const struct cpu_type type_amx = {
    2, ROWS, amx_rows, amx_cols, avx512_bf16_convert, avx512_bf16_convert_panel};
#endif
