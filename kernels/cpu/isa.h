// SPDX-License-Identifier: Apache-2.0
// The inner loops of each instruction set. One table per set, all built from micro_body.h,
// span_body.h and token_body.h; drivers (gemm.c, conv_rows.c, …) hold the blocking and threads. The
// loops allocate and own no memory; sizes are in elements (float).
#ifndef DTCTL_KERNELS_CPU_ISA_H
#define DTCTL_KERNELS_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum {
    tile_rows_max = 32, // of any type
    tile_cols_max = 32,
    spaced_rows = 16, // see struct rows_tile
};

// The final operation on a finished tile: c = alpha * acc + beta * c + bias, then ReLU.
struct tile_out {
    float *const *c; // one pointer per row, at the tile's first column; NULL: not wanted (a
                     // tile with an a_step only)
    int rows, cols;  // part of the tile that exists: 1..tile_rows, 1..tile_cols
    float alpha, beta;
    const float *bias; // at the tile's first column, or NULL
    int relu;
};

// Operands are made of words of four bytes: a float, or two bfloat16 that follow each other in the
// sum (struct cpu_type). Lengths and offsets of operands count words.

// acc[i][j] = sum over segments and k of a[seg * tile_rows + i][k] * b[seg][k][j].
// Rows of A are read where they lie; B is a packed panel of tile_cols columns.
struct rows_tile {
    const float *const *a; // [segs][tile_rows]; only out.rows of each are read
    const float *b;        // first segment of the panel
    ptrdiff_t b_seg;       // from one segment of the panel to the next
    int segs, k;
    // Not 0: the rows of A are a_step apart in each set of spaced_rows, and those of a last set
    // that is not full can be read, too. A type that is `spaced` is fast then; others do not look.
    ptrdiff_t a_step;
    // Not 0: the rows of C are c_step apart, and none is NULL. A `spaced` type stores whole tiles
    // where they lie then.
    ptrdiff_t c_step;
    struct tile_out out;
};

// acc[i][j] = sum over p of a[a_at[p] + i] * b[p * b_step + j]: a row of each operand per term.
// Nothing beyond rows and cols is read.
struct cols_tile {
    const float *a, *b;
    const int32_t *a_at;
    ptrdiff_t b_step;
    int k;
    struct tile_out out;
};

// Winograd's convolution with 3x3 filters: tiles of four outputs (six points) or three (five) along
// each axis. The value of a tile at point i of y and j of x is in plane 6 i + j. A
// plane of the sixth point has no row for a tile of five: planes are of four classes, 0 to 3, one
// more where i is the last point and two more where j is.
enum { winograd_points = 6, winograd_planes = 36, winograd_classes = 4, winograd_outputs = 4 };

// Pixels or taps -> values at points, a vector of channels at a time; channels are filled up with
// zero to whole vectors.
enum winograd_in_kind { WINOGRAD_SOURCE, WINOGRAD_GRAD, WINOGRAD_FILTER };
struct winograd_in {
    enum winograd_in_kind kind;
    int ny, nx; // points
    int channels;
    // [y][6]: ny x nx pixels, ny - 2 x nx - 2 gradients, or 3 x 3 taps
    const float *at[winograd_planes];
    const float *soon[winograd_planes]; // `at` of the next tile, to be fetched; not of filters
    float *out[winograd_classes];       // the row of this tile in plane 0, as if that had the class
    ptrdiff_t plane;
    ptrdiff_t panel; // from tile_cols channels to the next tile_cols
};

// Products at points -> outputs, or the gradient of taps.
enum winograd_out_kind { WINOGRAD_RESULT, WINOGRAD_FILTER_GRAD };
struct winograd_out {
    enum winograd_out_kind kind;
    int ny, nx, channels;
    const float *from[winograd_classes];
    ptrdiff_t plane;
    float *at[winograd_outputs * winograd_outputs]; // [y][4]; NULL: not wanted
    const float *bias;                              // or NULL
    int relu, accumulate;
};

// A matrix operation of batch norm over a few rows; see batchnorm.c for the meaning of the vectors.
struct bn_span {
    int64_t rows;
    int cols;
    const void *x, *y, *dy, *residual;
    const float *mean, *scale, *shift, *slope; // per column
    void *out, *out2;
    int relu;
};

// Loops over rows of one type of storage.
struct norm_loops {
    // Column sums of a block, and moments: mean of the block and sum of squared differences.
    void (*column_sums)(int64_t rows, int cols, const void *x, float *sum);
    void (*column_moments)(int64_t rows, int cols, const void *x, float *mean, float *m2);
    void (*bn_apply)(const struct bn_span *s);
    void (*bn_grad_sums)(const struct bn_span *s); // to floats
    void (*bn_grad_apply)(const struct bn_span *s);
};

// A row of a layer norm's gradient.
struct ln_row {
    int n;
    const float *x, *dy, *gamma;
    float mean, invstd;
};

struct adam_step {
    float grad_scale, decay, shrink, lr; // decay: added to the gradient; shrink: p *= shrink
    // take = 1 - beta, formed in double: of two floats it would lose the digits that count.
    float beta1, take1, beta2, take2, inv_sqrt_correct2, eps;
};

struct sgd_step {
    float grad_scale, decay, lr, momentum;
    int nesterov;
};

// How products of one enum kernel_type are made.
struct cpu_type {
    int pair;      // numbers in a word: 1 or 2
    int tile_rows; // of both tiles
    void (*rows)(const struct rows_tile *t);
    void (*cols)(const struct cols_tile *t);
    // n numbers that follow each other in the sum -> words, the last one filled up with zero; and
    // the same for a panel [k][tile_cols]. NULL: floats, taken as they are.
    void (*convert)(size_t n, const float *x, float *words);
    void (*convert_panel)(int k, const float *panel, float *words);
    // A panel without a buffer of floats, or NULL: of k rows of src[k][stride], after `lead` rows
    // of zeros (lead < pair).
    void (*pack_copied)(int lead, int k, int cols, const float *src, ptrdiff_t stride,
                        float *words);
    // The same from columns, src[j][k], without zeros in front; or NULL.
    void (*pack_transposed)(int k, int cols, const float *src, ptrdiff_t stride, float *words);
    int spaced; // `rows` takes an a_step, and the type has no `cols`
    // Spaced types: src[k][stride] -> dst[column][words of k], `apart` words from one column to the
    // next; columns of zeros fill up tile_cols.
    void (*turn)(int k, int cols, const float *src, ptrdiff_t stride, float *dst, ptrdiff_t apart);
    // bfloat16 in memory. narrow rounds n numbers, narrow_tile those of rows that are `apart` and,
    // where they go, `step` numbers from one to the next. The others are as pack_copied,
    // pack_transposed and turn, of sources in bfloat16, where pair is 2; or NULL.
    void (*narrow)(size_t n, const float *x, uint16_t *bits);
    void (*narrow_tile)(int rows, int cols, const float *x, ptrdiff_t apart, uint16_t *bits,
                        ptrdiff_t step);
    void (*pack_copied16)(int lead, int k, int cols, const uint16_t *src, ptrdiff_t stride,
                          float *words);
    void (*pack_transposed16)(int k, int cols, const uint16_t *src, ptrdiff_t stride, float *words);
    void (*turn16)(int k, int cols, const uint16_t *src, ptrdiff_t stride, float *dst,
                   ptrdiff_t apart);
    // GELU of numbers in bfloat16, and no more exact than they are; or NULL.
    void (*gelu16)(size_t n, const uint16_t *x, uint16_t *y);
    void (*gelu_grad16)(size_t n, const uint16_t *x, const uint16_t *dy, uint16_t *dx);
    // Before the first tile of a thread's part of a product and after the last one, or NULL.
    void (*open)(void);
    void (*close)(void);
};

struct cpu_isa {
    const char *name;
    int tile_cols;
    int (*usable)(void); // by this processor and system
    struct cpu_type type[KERNEL_TYPES];
    // A packed panel, dst[k][j] for j < tile_cols, zero where j >= cols, from
    // src[j * stride + k] (transposed) or src[k * stride + j] (copied).
    void (*pack_transposed)(int k, int cols, const float *src, ptrdiff_t stride, float *dst);
    void (*pack_copied)(int k, int cols, const float *src, ptrdiff_t stride, float *dst);

    void (*winograd_in)(const struct winograd_in *t);
    void (*winograd_out)(const struct winograd_out *t);

    struct norm_loops norm[2]; // by enum kernel_type

    // Layer norm and attention, a row at a time; token_body.h says what each does.
    void (*ln_moments)(int n, const float *x, float *mean, float *m2);
    void (*ln_apply)(int n, const float *x, float mean, float invstd, const float *gamma,
                     const float *beta, float *y);
    void (*ln_grad_sums)(const struct ln_row *r, float *dgamma, float *dbeta, float *sum,
                         float *dot);
    void (*ln_grad_apply)(const struct ln_row *r, float sum, float dot, const float *more,
                          float *dx);
    float (*dot)(int n, const float *a, const float *b);
    float (*softmax)(int n, float scale, float *x, float *top);
    void (*softmax_grad)(int n, float scale, float lse, float dot, float *p, float *ds);
    void (*gelu)(size_t n, const float *x, float *y);
    void (*gelu_grad)(size_t n, const float *x, const float *dy, float *dx);

    // bfloat16 to floats: n numbers, or rows that are `step` numbers from one to the next and,
    // where they go, `apart`.
    void (*widen)(size_t n, const uint16_t *bits, float *y);
    void (*widen_tile)(int rows, int cols, const uint16_t *bits, ptrdiff_t step, float *x,
                       ptrdiff_t apart);
    void (*relu)(size_t n, const float *x, float *y);
    void (*relu_grad)(size_t n, const float *y, const float *dy, float *dx);
    void (*add)(size_t n, const float *a, const float *b, float *y);
    void (*axpy)(size_t n, float alpha, const float *x, float *y);
    void (*scale)(size_t n, float alpha, float *x);
    double (*sum_squares)(size_t n, const float *x);
    // best = x, which = tap where x > best; for c channels.
    void (*max_into)(int c, const float *x, uint8_t tap, float *best, uint8_t *which);
    // dx += dy where which == tap.
    void (*add_where)(int c, const float *dy, const uint8_t *which, uint8_t tap, float *dx);
    void (*sgd)(size_t n, const struct sgd_step *s, float *p, const float *g, float *buf);
    void (*adam)(size_t n, const struct adam_step *s, float *p, const float *g, float *m, float *v);
};

extern const struct cpu_isa isa_base, isa_avx2, isa_avx512;
// Take the place of isa_avx512's where the processor multiplies pairs of bfloat16 itself, as
// vectors or as tiles. Both have the same panels.
extern const struct cpu_type type_avx512_bf16, type_amx;
int type_avx512_bf16_usable(void);
void avx512_bf16_convert(size_t n, const float *x, float *words);
void avx512_bf16_convert_panel(int k, const float *panel, float *words);
void avx512_bf16_pack_copied(int lead, int k, int cols, const float *src, ptrdiff_t stride,
                             float *words);
void avx512_bf16_narrow_tile(int rows, int cols, const float *x, ptrdiff_t apart, uint16_t *bits,
                             ptrdiff_t step);
void avx512_bf16_narrow(size_t n, const float *x, uint16_t *bits);
void avx512_bf16_pack_copied16(int lead, int k, int cols, const uint16_t *src, ptrdiff_t stride,
                               float *words);
void avx512_bf16_gelu(size_t n, const uint16_t *x, uint16_t *y);
void avx512_bf16_gelu_grad(size_t n, const uint16_t *x, const uint16_t *dy, uint16_t *dx);
int type_amx_usable(void);

#endif
