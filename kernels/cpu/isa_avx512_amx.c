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

// Takes as long as three steps of a product, so it is done for many tiles at once.
static void amx_open(void) {
    _tile_loadconfig(&amx_config);
}

static void amx_close(void) {
    _tile_release();
}

// The sums are the tile of C itself, or become it without another operation.
INLINE int sums_are_c(const struct rows_tile *t, const int na, const int nb) {
    const struct tile_out *o = &t->out;
    return t->c_step && o->rows == na * SIDE && o->cols == nb * SIDE && o->alpha == 1 && !o->relu &&
           (o->beta == 0 || (o->beta == 1 && !o->bias));
}

static void zero_sums(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// Sums from rows `step` apart; 0: the same one for all.
INLINE void load_sums(const float *low, const float *high, ptrdiff_t step, const int na,
                      const int nb) {
    _tile_loadd(0, low, step * WORD);
    if (nb == 2)
        _tile_loadd(1, low + SIDE, step * WORD);
    if (na == 2)
        _tile_loadd(2, high, step * WORD);
    if (na == 2 && nb == 2)
        _tile_loadd(3, high + SIDE, step * WORD);
}

INLINE void start_sums(const struct rows_tile *t, int plain, const int na, const int nb) {
    const struct tile_out *o = &t->out;
    float *const *c = o->c;
    if (plain && o->beta != 0) {
        load_sums(c[0], na == 2 ? c[SIDE] : NULL, t->c_step, na, nb);
        return;
    }
    for (int i = 0; plain && i < o->rows; i++)
        for (int j = 0; j < nb; j++)
            __builtin_prefetch(c[i] + j * SIDE, 1);
    if (plain && o->bias)
        load_sums(o->bias, o->bias, 0, na, nb);
    else
        zero_sums();
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

// 16 x 16 words, in place.
INLINE void transpose(__m512 *r) {
    __m512 t[SIDE];
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
        t[i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x44);
        t[4 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x44);
        t[8 + i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xee);
        t[12 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xee);
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[4 + i], 0x88);
        r[4 + i] = _mm512_shuffle_f32x4(t[i], t[4 + i], 0xdd);
        r[8 + i] = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0xdd);
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

INLINE void load_rows(const float *low, const float *high, ptrdiff_t step, const int na) {
    _tile_loadd(4, low, step * WORD);
    if (na == 2)
        _tile_loadd(5, high, step * WORD);
}

INLINE void store_sums(float *low, float *high, ptrdiff_t step, const int na, const int nb) {
    _tile_stored(0, low, step * WORD);
    if (nb == 2)
        _tile_stored(1, low + SIDE, step * WORD);
    if (na == 2)
        _tile_stored(2, high, step * WORD);
    if (na == 2 && nb == 2)
        _tile_stored(3, high + SIDE, step * WORD);
    written();
}

INLINE void finish_sums(struct amx *m, const struct tile_out *o, const int na, const int nb) {
    store_sums(m->sum[0], m->sum[SIDE], COLS, na, nb);
    int whole = o->cols == nb * VL;
    vmask tail = V_MASK(o->cols - (nb - 1) * VL);
    for (int i = 0; i < o->rows; i++)
        for (int j = 0; j < nb && o->c[i]; j++)
            store_vec(o, o->c[i] + j * VL, o->bias ? o->bias + j * VL : NULL,
                      V_LOAD(m->sum[i] + j * VL), whole || j < nb - 1, tail);
}

INLINE void rows_n(const struct rows_tile *t, const int na, const int nb) {
    struct amx m;
    int plain = sums_are_c(t, na, nb);
    start_sums(t, plain, na, nb);
    for (int s = 0; s < t->segs; s++) {
        const float *const *a = t->a + s * ROWS, *b = t->b + s * t->b_seg;
        int there = t->a_step ? t->k / SIDE * SIDE : 0; // words that are loaded where they lie
        const float *low = a[0], *high = na == 2 ? a[SIDE] : NULL;
        for (int p = 0; p < there; p += SIDE, b += SIDE * COLS) {
            load_columns(b, COLS, nb);
            load_rows(low + p, high + p, t->a_step, na);
            multiply(na, nb);
        }
        for (int p = there; p < t->k; p += RUN) {
            int n = t->k - p < RUN ? t->k - p : RUN;
            gather_rows(a, t->out.rows, p, n, m.a);
            for (int q = 0; q < n; q += SIDE, b += SIDE * COLS) {
                int tail = n - q < SIDE;
                if (tail)
                    copy_columns(b, COLS, n - q, COLS, m.b);
                written();
                load_columns(tail ? m.b[0] : b, COLS, nb);
                load_rows(m.a[0] + q, m.a[SIDE] + q, APART, na);
                multiply(na, nb);
            }
        }
    }
    if (plain)
        store_sums(t->out.c[0], na == 2 ? t->out.c[SIDE] : NULL, t->c_step, na, nb);
    else
        finish_sums(&m, &t->out, na, nb);
}

static void amx_turn(int k, int cols, const float *src, ptrdiff_t stride, float *dst,
                     ptrdiff_t apart) {
    for (int p = 0; p < k; p += 2 * SIDE)
        for (int j = 0; j < COLS; j += SIDE) {
            int n = (k - p + 1) / 2;
            vmask there = V_MASK(cols - j < 0 ? 0 : cols - j < SIDE ? cols - j : SIDE);
            __m512 r[SIDE];
            for (int w = 0; w < SIDE; w++) {
                int at = p + 2 * w;
                const float *low = src + (at < k ? at : 0) * stride + j;
                __m512 first = V_LOADM(low, at < k ? there : 0);
                const float *high = src + (at + 1 < k ? at + 1 : 0) * stride + j;
                r[w] = avx512_pairs(first, V_LOADM(high, at + 1 < k ? there : 0));
            }
            transpose(r);
            for (int i = 0; i < SIDE; i++)
                V_STOREM(dst + (j + i) * apart + p / 2, V_MASK(n < SIDE ? n : SIDE), r[i]);
        }
}

// Columns src[cols][k] -> a panel [words of k][COLS].
static void amx_pack_transposed(int k, int cols, const float *src, ptrdiff_t stride, float *words) {
    for (int p = 0; p < k; p += 2 * SIDE, words += SIDE * COLS) {
        int left = k - p, n = left < 2 * SIDE ? (left + 1) / 2 : SIDE;
        vmask low = V_MASK(left < VL ? left : VL), high = V_MASK(left < VL       ? 0
                                                                 : left < 2 * VL ? left - VL
                                                                                 : VL);
        for (int j = 0; j < COLS; j += SIDE) {
            __m512 r[SIDE];
            for (int i = 0; i < SIDE; i++) {
                const float *x = src + (j + i < cols ? j + i : 0) * stride + p;
                __m512 first = V_LOADM(x, j + i < cols ? low : 0);
                __m512 second = V_LOADM(x + VL, j + i < cols ? high : 0);
                r[i] = (__m512)_mm512_cvtne2ps_pbh(second, first);
            }
            transpose(r);
            for (int w = 0; w < n; w++)
                V_STORE(words + w * COLS + j, r[w]);
        }
    }
}

// The same from numbers that are bfloat16 already.
static void amx_turn16(int k, int cols, const uint16_t *src, ptrdiff_t stride, float *dst,
                       ptrdiff_t apart) {
    for (int p = 0; p < k; p += 2 * SIDE)
        for (int j = 0; j < COLS; j += SIDE) {
            int n = (k - p + 1) / 2;
            vmask there = V_MASK(cols - j < 0 ? 0 : cols - j < SIDE ? cols - j : SIDE);
            __m512 r[SIDE];
            for (int w = 0; w < SIDE; w++) {
                int at = p + 2 * w;
                const uint16_t *low = src + (at < k ? at : 0) * stride + j;
                const uint16_t *high = src + (at + 1 < k ? at + 1 : 0) * stride + j;
                __m256i first = _mm256_maskz_loadu_epi16(at < k ? there : 0, low);
                __m256i second = _mm256_maskz_loadu_epi16(at + 1 < k ? there : 0, high);
                r[w] =
                    (__m512)_mm512_or_si512(_mm512_cvtepu16_epi32(first),
                                            _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
            }
            transpose(r);
            for (int i = 0; i < SIDE; i++)
                V_STOREM(dst + (j + i) * apart + p / 2, V_MASK(n < SIDE ? n : SIDE), r[i]);
        }
}

static void amx_pack_transposed16(int k, int cols, const uint16_t *src, ptrdiff_t stride,
                                  float *words) {
    for (int p = 0; p < k; p += 2 * SIDE, words += SIDE * COLS) {
        int left = k - p, n = left < 2 * SIDE ? (left + 1) / 2 : SIDE;
        __mmask32 there = left < 2 * SIDE ? (1U << left) - 1 : ~0U;
        for (int j = 0; j < COLS; j += SIDE) {
            __m512 r[SIDE];
            for (int i = 0; i < SIDE; i++)
                r[i] = (__m512)_mm512_maskz_loadu_epi16(
                    j + i < cols ? there : 0, src + (j + i < cols ? j + i : 0) * stride + p);
            transpose(r);
            for (int w = 0; w < n; w++)
                V_STORE(words + w * COLS + j, r[w]);
        }
    }
}

// One function for each number of registers that the tile's rows and columns fill.
#define TILE_FN(na, nb)                                                                            \
    static void rows_##na##x##nb(const struct rows_tile *t) {                                      \
        rows_n(t, na, nb);                                                                         \
    }
TILE_FN(1, 1)
TILE_FN(1, 2)
TILE_FN(2, 1)
TILE_FN(2, 2)

static void amx_rows(const struct rows_tile *t) {
    static void (*const table[2][2])(const struct rows_tile *) = {{rows_1x1, rows_1x2},
                                                                  {rows_2x1, rows_2x2}};
    table[t->out.rows > SIDE][t->out.cols > SIDE](t);
}

// The processor has AMX, and the system lets this process use it.
int type_amx_usable(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) &&
           type_avx512_bf16_usable() && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

const struct cpu_type type_amx = {.pair = 2,
                                  .tile_rows = ROWS,
                                  .rows = amx_rows,
                                  .convert = avx512_bf16_convert,
                                  .convert_panel = avx512_bf16_convert_panel,
                                  .pack_copied = avx512_bf16_pack_copied,
                                  .pack_transposed = amx_pack_transposed,
                                  .gelu16 = avx512_bf16_gelu,
                                  .gelu_grad16 = avx512_bf16_gelu_grad,
                                  .narrow = avx512_bf16_narrow,
                                  .narrow_tile = avx512_bf16_narrow_tile,
                                  .pack_copied16 = avx512_bf16_pack_copied16,
                                  .pack_transposed16 = amx_pack_transposed16,
                                  .turn16 = amx_turn16,
                                  .spaced = 1,
                                  .turn = amx_turn,
                                  .open = amx_open,
                                  .close = amx_close};
#endif
