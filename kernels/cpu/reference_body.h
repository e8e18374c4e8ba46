// SPDX-License-Identifier: Apache-2.0
// The plain-C backend, written once for any real type. Included by reference_f32.c and
// reference_f64.c after they define REAL (the element type) and REF_TABLE (the table's name).
// Plain loops, sums in double, no threads, no workspace: slow and easy to believe. Products are
// made in tiles, so that an operand is rounded once for many sums; each sum has its terms in their
// order. Not a header to include anywhere else.

#ifdef REF_TABLE

// Rounded to so many significant bits, ties to even or away from zero: a double has 52 behind its
// leading one.
static double ref_significant(double v, int n, int away) {
    int dropped = 53 - n;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits += (UINT64_C(1) << (dropped - 1)) - (away ? 0 : 1 - (bits >> dropped & 1));
    bits &= ~((UINT64_C(1) << dropped) - 1);
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Rounded to IEEE half precision: eleven significant bits, or multiples of 2^-24, ties to even.
static double ref_half(double v) {
    if (fabs(v) < 0x1p-14) // a double of 2^28 or more has no smaller parts than these multiples
        return copysign(fabs(v) + 0x1p28 - 0x1p28, v);
    double rounded = ref_significant(v, 11, 0);
    return fabs(rounded) > 65504 ? copysign((double)INFINITY, v) : rounded;
}

// An operand of a product: of KERNEL_BF16 it has eight significant bits, of KERNEL_TF32 eleven.
static double ref_operand(enum kernel_type type, REAL x) {
    if (type == KERNEL_FLOAT || !isfinite(x))
        return (double)x;
    switch (type) {
    case KERNEL_HALF: return ref_half((double)x);
    case KERNEL_TF32: return ref_significant((double)x, 11, 1);
    default: return ref_significant((double)x, 8, 0);
    }
}

// Sums of products, by rows and columns, that have some terms in common: of an element of a and one
// of b each.
enum { REF_SIDE = 32, REF_TERMS = 32 };
struct ref_tile {
    double a[REF_SIDE][REF_TERMS], b[REF_TERMS][REF_SIDE], sum[REF_SIDE][REF_SIDE];
    int columns; // that are used
};

static int ref_least(int a, int b) {
    return a < b ? a : b;
}

static void ref_tile_begin(struct ref_tile *t, int columns) {
    memset(t->sum, 0, sizeof t->sum);
    t->columns = columns;
}

// n elements, `step` apart, as operands that are `to_step` apart: a loop for each type.
static inline void ref_operands(enum kernel_type type, int n, const REAL *x, size_t step,
                                double *to, size_t to_step) {
#define EACH(type)                                                                                 \
    case type:                                                                                     \
        for (int i = 0; i < n; i++)                                                                \
            to[i * to_step] = ref_operand(type, x[i * step]);                                      \
        break
    switch (type) {
        EACH(KERNEL_BF16);
        EACH(KERNEL_HALF);
        EACH(KERNEL_TF32);
    default: EACH(KERNEL_FLOAT);
    }
#undef EACH
}

// a[row][i] is element i of x, `step` apart; b[i][column] that of y.
static void ref_tile_a(struct ref_tile *t, int row, enum kernel_type type, int terms, const REAL *x,
                       size_t step) {
    ref_operands(type, terms, x, step, t->a[row], 1);
}
static void ref_tile_b(struct ref_tile *t, int column, enum kernel_type type, int terms,
                       const REAL *y, size_t step) {
    ref_operands(type, terms, y, step, &t->b[0][column], REF_SIDE);
}

static void ref_tile_add(struct ref_tile *t, int row, int terms) {
    for (int i = 0; i < terms; i++)
        for (int column = 0; column < t->columns; column++)
            t->sum[row][column] += t->a[row][i] * t->b[i][column];
}

// The tile of c from row i and column j on.
static void ref_gemm_tile(const struct gemm_args *g, int i, int j, int rows, int columns,
                          struct ref_tile *t) {
    size_t a_row = g->trans_a ? 1 : (size_t)g->lda, a_term = g->trans_a ? (size_t)g->lda : 1;
    size_t b_column = g->trans_b ? (size_t)g->ldb : 1, b_term = g->trans_b ? 1 : (size_t)g->ldb;
    ref_tile_begin(t, columns);
    for (int p = 0; p < g->k; p += REF_TERMS) {
        const REAL *a = (const REAL *)g->a + i * a_row + p * a_term;
        const REAL *b = (const REAL *)g->b + j * b_column + p * b_term;
        int terms = ref_least(g->k - p, REF_TERMS);
        for (int n = 0; n < columns; n++)
            ref_tile_b(t, n, g->type, terms, b + n * b_column, b_term);
        for (int n = 0; n < rows; n++) {
            ref_tile_a(t, n, g->type, terms, a + n * a_row, a_term);
            ref_tile_add(t, n, terms);
        }
    }
}

static void ref_gemm(struct kernel_ctx *ctx, const struct gemm_args *g) {
    (void)ctx;
    const REAL *bias = g->bias;
    REAL *c = g->c;
    struct ref_tile t;
    for (int i = 0; i < g->m; i += REF_SIDE)
        for (int j = 0; j < g->n; j += REF_SIDE) {
            int rows = ref_least(g->m - i, REF_SIDE), columns = ref_least(g->n - j, REF_SIDE);
            ref_gemm_tile(g, i, j, rows, columns, &t);
            for (int at = 0; at < rows * columns; at++) {
                int row = at / columns, column = at % columns;
                REAL *out = &c[(size_t)(i + row) * g->ldc + j + column];
                double v = g->alpha * t.sum[row][column];
                if (g->beta != 0)
                    v += g->beta * (double)*out;
                if (bias)
                    v += (double)bias[j + column];
                *out = (REAL)(g->relu && v < 0 ? 0 : v);
            }
        }
}

// Output positions of one image from (oy, ox) on, by filters from `filter` on. A product with
// padding is skipped.
static void ref_conv_forward_tile(const struct conv2d_shape *s, const REAL *image,
                                  const REAL *filter, int oy, int ox, int positions, int filters,
                                  struct ref_tile *t) {
    size_t step = (size_t)s->kh * s->kw * s->c;
    ref_tile_begin(t, filters);
    for (int tap = 0; tap < s->kh * s->kw; tap++) {
        int y = oy * s->stride - s->pad + tap / s->kw;
        for (int c = 0; c < s->c && y >= 0 && y < s->h; c += REF_TERMS) {
            int terms = ref_least(s->c - c, REF_TERMS);
            for (int n = 0; n < filters; n++)
                ref_tile_b(t, n, s->type, terms, filter + n * step + (size_t)tap * s->c + c, 1);
            for (int n = 0; n < positions; n++) {
                int x = (ox + n) * s->stride - s->pad + tap % s->kw;
                if (x < 0 || x >= s->w)
                    continue;
                ref_tile_a(t, n, s->type, terms, image + ((size_t)y * s->w + x) * s->c + c, 1);
                ref_tile_add(t, n, terms);
            }
        }
    }
}

static void ref_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *vx,
                               const void *vw, const void *vbias, int relu, void *vy) {
    (void)ctx;
    const REAL *x = vx, *w = vw, *bias = vbias;
    REAL *y = vy;
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t image = (size_t)s->h * s->w * s->c, filter = (size_t)s->kh * s->kw * s->c;
    struct ref_tile t;
    for (int row = 0; row < s->n * oh; row++)
        for (int ox = 0; ox < ow; ox += REF_SIDE)
            for (int o = 0; o < s->o; o += REF_SIDE) {
                int positions = ref_least(ow - ox, REF_SIDE),
                    filters = ref_least(s->o - o, REF_SIDE);
                ref_conv_forward_tile(s, x + row / oh * image, w + o * filter, row % oh, ox,
                                      positions, filters, &t);
                for (int at = 0; at < positions * filters; at++) {
                    int n = at / filters, k = at % filters;
                    double v = t.sum[n][k] + (bias ? (double)bias[o + k] : 0);
                    y[((size_t)row * ow + ox + n) * s->o + o + k] = (REAL)(relu && v < 0 ? 0 : v);
                }
            }
}

// The gradient at input positions of one image from (y, x) on, by channels from c on: of every
// output position that read them.
static void ref_conv_data_tile(const struct conv2d_shape *s, const REAL *dy, const REAL *w, int y,
                               int x, int c, int positions, int channels, struct ref_tile *t) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t filter = (size_t)s->kh * s->kw * s->c;
    ref_tile_begin(t, channels);
    for (int tap = 0; tap < s->kh * s->kw; tap++) {
        int ty = y + s->pad - tap / s->kw;
        if (ty < 0 || ty % s->stride || ty / s->stride >= oh)
            continue;
        for (int o = 0; o < s->o; o += REF_TERMS) {
            int terms = ref_least(s->o - o, REF_TERMS);
            const REAL *f = w + o * filter + (size_t)tap * s->c + c;
            for (int n = 0; n < channels; n++)
                ref_tile_b(t, n, s->type, terms, f + n, filter);
            for (int n = 0; n < positions; n++) {
                int tx = x + n + s->pad - tap % s->kw;
                if (tx < 0 || tx % s->stride || tx / s->stride >= ow)
                    continue;
                const REAL *g = dy + ((size_t)(ty / s->stride) * ow + tx / s->stride) * s->o + o;
                ref_tile_a(t, n, s->type, terms, g, 1);
                ref_tile_add(t, n, terms);
            }
        }
    }
}

static void ref_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                     const void *vdy, const void *w, void *vdx, int accumulate) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct ref_tile t;
    for (int row = 0; row < s->n * s->h; row++)
        for (int x = 0; x < s->w; x += REF_SIDE)
            for (int c = 0; c < s->c; c += REF_SIDE) {
                int positions = ref_least(s->w - x, REF_SIDE);
                int channels = ref_least(s->c - c, REF_SIDE);
                ref_conv_data_tile(s, dy + (size_t)(row / s->h) * oh * ow * s->o, w, row % s->h, x,
                                   c, positions, channels, &t);
                for (int at = 0; at < positions * channels; at++) {
                    int n = at / channels, k = at % channels;
                    REAL *to = &dx[((size_t)row * s->w + x + n) * s->c + c + k];
                    *to = (REAL)(accumulate ? (double)*to + t.sum[n][k] : t.sum[n][k]);
                }
            }
}

// Adds the terms that have been collected: elements of x and dy by term.
static int ref_weight_terms(const struct conv2d_shape *s, struct ref_tile *t, int terms,
                            int channels, int filters, const REAL *const x[],
                            const REAL *const dy[]) {
    for (int i = 0; i < terms; i++) {
        ref_operands(s->type, channels, x[i], 1, &t->a[0][i], REF_TERMS);
        ref_operands(s->type, filters, dy[i], 1, t->b[i], 1);
    }
    for (int n = 0; n < channels; n++)
        ref_tile_add(t, n, terms);
    return 0;
}

// The gradient of weights of one tap, by channels from c on and filters from o on: of every output
// position that they were used for.
static void ref_conv_weight_tile(const struct conv2d_shape *s, const REAL *x, const REAL *dy,
                                 int tap, int c, int o, int channels, int filters,
                                 struct ref_tile *t) {
    const REAL *from[REF_TERMS], *to[REF_TERMS];
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad), terms = 0;
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    ref_tile_begin(t, filters);
    for (int row = 0; row < s->n * oh; row++) {
        int iy = row % oh * s->stride - s->pad + tap / s->kw;
        for (int ox = 0; ox < ow && iy >= 0 && iy < s->h; ox++) {
            int ix = ox * s->stride - s->pad + tap % s->kw;
            if (ix < 0 || ix >= s->w)
                continue;
            from[terms] = x + (((size_t)(row / oh) * s->h + iy) * s->w + ix) * s->c + c;
            to[terms++] = dy + ((size_t)row * ow + ox) * s->o + o;
            if (terms == REF_TERMS)
                terms = ref_weight_terms(s, t, terms, channels, filters, from, to);
        }
    }
    ref_weight_terms(s, t, terms, channels, filters, from, to);
}

static void ref_conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                       const void *x, const void *dy, void *vdw, int accumulate) {
    (void)ctx;
    REAL *dw = vdw;
    size_t filter = (size_t)s->kh * s->kw * s->c;
    struct ref_tile t;
    for (int tap = 0; tap < s->kh * s->kw; tap++)
        for (int c = 0; c < s->c; c += REF_SIDE)
            for (int o = 0; o < s->o; o += REF_SIDE) {
                int channels = ref_least(s->c - c, REF_SIDE),
                    filters = ref_least(s->o - o, REF_SIDE);
                ref_conv_weight_tile(s, x, dy, tap, c, o, channels, filters, &t);
                for (int at = 0; at < channels * filters; at++) {
                    int n = at / filters, k = at % filters;
                    REAL *to = &dw[(o + k) * filter + (size_t)tap * s->c + c + n];
                    *to = (REAL)(accumulate ? (double)*to + t.sum[n][k] : t.sum[n][k]);
                }
            }
}

static void ref_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *vdy,
                              void *vdb, int accumulate) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *db = vdb;
    for (int j = 0; j < cols; j++) {
        double sum = accumulate ? (double)db[j] : 0;
        for (int64_t i = 0; i < rows; i++)
            sum += (double)dy[i * cols + j];
        db[j] = (REAL)sum;
    }
}

// Mean and biased variance of n elements, `step` apart, in two passes.
static void ref_moments(int64_t n, int step, const REAL *x, double *mean, double *var) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * step];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i * step] - *mean;
        square += d * d;
    }
    *var = square / (double)n;
}

static void ref_normalize_column(const struct batchnorm_args *a, int c, double mean,
                                 double invstd) {
    const REAL *x = a->x, *residual = a->residual, *gamma = a->gamma, *beta = a->beta;
    REAL *y = a->y;
    for (int64_t i = 0; i < a->rows; i++) {
        int64_t at = i * a->channels + c;
        double v = ((double)x[at] - mean) * invstd * (double)gamma[c] + (double)beta[c];
        v += residual ? (double)residual[at] : 0;
        y[at] = (REAL)(a->relu && v < 0 ? 0 : v);
    }
}

static void ref_batchnorm_forward_train(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    (void)ctx;
    REAL *running_mean = a->running_mean, *running_var = a->running_var;
    REAL *save_mean = a->save_mean, *save_invstd = a->save_invstd;
    double keep = 1 - a->momentum, rows = (double)a->rows;
    for (int c = 0; c < a->channels; c++) {
        double mean, var;
        ref_moments(a->rows, a->channels, (const REAL *)a->x + c, &mean, &var);
        double invstd = 1 / sqrt(var + a->eps);
        double unbiased = rows > 1 ? var * rows / (rows - 1) : (double)running_var[c];
        save_mean[c] = (REAL)mean;
        save_invstd[c] = (REAL)invstd;
        running_mean[c] = (REAL)(keep * (double)running_mean[c] + a->momentum * mean);
        running_var[c] = (REAL)(keep * (double)running_var[c] + a->momentum * unbiased);
        ref_normalize_column(a, c, mean, invstd);
    }
}

static void ref_batchnorm_forward_eval(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    (void)ctx;
    const REAL *mean = a->running_mean, *var = a->running_var;
    for (int c = 0; c < a->channels; c++)
        ref_normalize_column(a, c, (double)mean[c], 1 / sqrt((double)var[c] + a->eps));
}

// dx = gamma * invstd * (dz - mean(dz) - xhat * mean(dz * xhat)) [Ioffe and Szegedy 2015].
static void ref_batchnorm_backward_column(const struct batchnorm_grad_args *a, int c) {
    const REAL *x = a->x, *y = a->y, *dy = a->dy;
    REAL *dx = a->dx, *dresidual = a->dresidual, *dgamma = a->dgamma, *dbeta = a->dbeta;
    double mean = (double)((const REAL *)a->save_mean)[c], rows = (double)a->rows;
    double invstd = (double)((const REAL *)a->save_invstd)[c], sum = 0, dot = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        int64_t at = i * a->channels + c;
        double dz = a->relu && !(y[at] > 0) ? 0 : (double)dy[at];
        sum += dz;
        dot += dz * ((double)x[at] - mean) * invstd;
    }
    double scale = (double)((const REAL *)a->gamma)[c] * invstd;
    for (int64_t i = 0; i < a->rows; i++) {
        int64_t at = i * a->channels + c;
        double dz = a->relu && !(y[at] > 0) ? 0 : (double)dy[at];
        double xhat = ((double)x[at] - mean) * invstd;
        dx[at] = (REAL)(scale * (dz - sum / rows - xhat * dot / rows));
        if (dresidual)
            dresidual[at] = (REAL)dz;
    }
    dgamma[c] = (REAL)(a->accumulate ? (double)dgamma[c] + dot : dot);
    dbeta[c] = (REAL)(a->accumulate ? (double)dbeta[c] + sum : sum);
}

static void ref_batchnorm_backward(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a) {
    (void)ctx;
    for (int c = 0; c < a->channels; c++)
        ref_batchnorm_backward_column(a, c);
}

#include "kernels/cpu/reference_flat.h"
#include "kernels/cpu/reference_layers.h"
#include "kernels/cpu/reference_tokens.h"

#include "kernels/cpu/reference_stored.h"

const struct kernel_backend REF_TABLE = {
    .name = REF_NAME,
    .real_bytes = sizeof(REAL),
    .open = ref_open,
    .close = ctx_close,
    .reserve = ctx_reserve,
    .isa = ctx_isa,
    .mem_alloc = ctx_mem_alloc,
    .mem_free = ctx_mem_free,
    .mem_write = ctx_mem_write,
    .mem_read = ctx_mem_read,
    .bf16 = &ref_bf16,
    .keeps_bf16 = ref_keeps_bf16,
    .gemm_workspace = ref_gemm_workspace,
    .conv2d_workspace = ref_conv2d_workspace,
    .batchnorm_workspace = ref_rows_workspace,
    .bias_workspace = ref_rows_workspace,
    .layernorm_workspace = ref_rows_workspace,
    .attention_workspace = ref_attention_workspace,
    .gemm = ref_stored_gemm,
    .conv2d_forward = ref_stored_conv2d_forward,
    .conv2d_backward_data = ref_stored_conv2d_backward_data,
    .conv2d_backward_weight = ref_stored_conv2d_backward_weight,
    .bias_backward = ref_bias_backward,
    .batchnorm_forward_train = ref_stored_batchnorm_forward_train,
    .batchnorm_forward_eval = ref_stored_batchnorm_forward_eval,
    .batchnorm_backward = ref_stored_batchnorm_backward,
    .layernorm_forward = ref_stored_layernorm_forward,
    .layernorm_backward = ref_stored_layernorm_backward,
    .gelu_forward = ref_gelu_forward,
    .gelu_backward = ref_gelu_backward,
    .attention_forward = ref_stored_attention_forward,
    .attention_backward = ref_stored_attention_backward,
    .tokens_forward = ref_stored_tokens_forward,
    .tokens_backward = ref_stored_tokens_backward,
    .first_token_forward = ref_first_token_forward,
    .first_token_backward = ref_first_token_backward,
    .maxpool_forward = ref_stored_maxpool_forward,
    .maxpool_backward = ref_stored_maxpool_backward,
    .avgpool_forward = ref_avgpool_forward,
    .avgpool_backward = ref_avgpool_backward,
    .softmax_xent = ref_softmax_xent,
    .relu_forward = ref_relu_forward,
    .relu_backward = ref_relu_backward,
    .add = ref_add,
    .axpy = ref_axpy,
    .scale = ref_scale,
    .zero = ref_zero,
    .sum_squares = ref_sum_squares,
    .sgd = ref_sgd,
    .adam = ref_adam,
    .parallel = ctx_parallel,
    .image_normalize = ref_image_normalize,
};

#endif
