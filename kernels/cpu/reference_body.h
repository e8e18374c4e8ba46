// SPDX-License-Identifier: Apache-2.0
// The plain-C backend, written once for any real type. Included by reference_f32.c and
// reference_f64.c after they define REAL (the element type) and REF_TABLE (the table's name).
// One loop per definition, sums in double, no threads, no workspace: slow and easy to believe.
// Not a header to include anywhere else.

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

static void ref_gemm(struct kernel_ctx *ctx, const struct gemm_args *g) {
    (void)ctx;
    const REAL *a = g->a, *b = g->b, *bias = g->bias;
    REAL *c = g->c;
    for (int i = 0; i < g->m; i++) {
        for (int j = 0; j < g->n; j++) {
            double sum = 0;
            for (int p = 0; p < g->k; p++) {
                REAL x = g->trans_a ? a[(size_t)p * g->lda + i] : a[(size_t)i * g->lda + p];
                REAL y = g->trans_b ? b[(size_t)j * g->ldb + p] : b[(size_t)p * g->ldb + j];
                sum += ref_operand(g->type, x) * ref_operand(g->type, y);
            }
            REAL *out = &c[(size_t)i * g->ldc + j];
            double v = g->alpha * sum;
            if (g->beta != 0)
                v += g->beta * (double)*out;
            if (bias)
                v += (double)bias[j];
            *out = (REAL)(g->relu && v < 0 ? 0 : v);
        }
    }
}

// One filter at one output position.
static double ref_conv_at(const struct conv2d_shape *s, const REAL *image, const REAL *filter,
                          int oy, int ox) {
    double sum = 0;
    for (int ky = 0; ky < s->kh; ky++) {
        int y = oy * s->stride - s->pad + ky;
        for (int kx = 0; kx < s->kw && y >= 0 && y < s->h; kx++) {
            int x = ox * s->stride - s->pad + kx;
            if (x < 0 || x >= s->w)
                continue;
            const REAL *in = image + ((size_t)y * s->w + x) * s->c;
            const REAL *f = filter + ((size_t)ky * s->kw + kx) * s->c;
            for (int c = 0; c < s->c; c++)
                sum += ref_operand(s->type, in[c]) * ref_operand(s->type, f[c]);
        }
    }
    return sum;
}

static void ref_conv2d_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *vx,
                               const void *vw, const void *vbias, int relu, void *vy) {
    (void)ctx;
    const REAL *x = vx, *w = vw, *bias = vbias;
    REAL *y = vy;
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t image = (size_t)s->h * s->w * s->c, filter = (size_t)s->kh * s->kw * s->c;
    for (int n = 0; n < s->n; n++)
        for (int oy = 0; oy < oh; oy++)
            for (int ox = 0; ox < ow; ox++)
                for (int o = 0; o < s->o; o++) {
                    double v = ref_conv_at(s, x + n * image, w + o * filter, oy, ox);
                    v += bias ? (double)bias[o] : 0;
                    *y++ = (REAL)(relu && v < 0 ? 0 : v);
                }
}

// The gradient at one input element: every output position that read it.
static double ref_conv_data_at(const struct conv2d_shape *s, const REAL *dy, const REAL *w, int y,
                               int x, int c) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t filter = (size_t)s->kh * s->kw * s->c;
    double sum = 0;
    for (int ky = 0; ky < s->kh; ky++) {
        for (int kx = 0; kx < s->kw; kx++) {
            int ty = y + s->pad - ky, tx = x + s->pad - kx;
            if (ty < 0 || tx < 0 || ty % s->stride || tx % s->stride)
                continue;
            int oy = ty / s->stride, ox = tx / s->stride;
            if (oy >= oh || ox >= ow)
                continue;
            const REAL *g = dy + ((size_t)oy * ow + ox) * s->o;
            const REAL *f = w + ((size_t)ky * s->kw + kx) * s->c + c;
            for (int o = 0; o < s->o; o++)
                sum += ref_operand(s->type, g[o]) * ref_operand(s->type, f[o * filter]);
        }
    }
    return sum;
}

static void ref_conv2d_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                     const void *vdy, const void *w, void *vdx, int accumulate) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    for (int n = 0; n < s->n; n++)
        for (int y = 0; y < s->h; y++)
            for (int x = 0; x < s->w; x++)
                for (int c = 0; c < s->c; c++, dx++) {
                    double v = ref_conv_data_at(s, dy + (size_t)n * oh * ow * s->o, w, y, x, c);
                    *dx = (REAL)(accumulate ? (double)*dx + v : v);
                }
}

// The gradient of one weight: every output position it was used for.
static double ref_conv_weight_at(const struct conv2d_shape *s, const REAL *x, const REAL *dy, int o,
                                 int ky, int kx, int c) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    double sum = 0;
    for (int n = 0; n < s->n; n++) {
        for (int oy = 0; oy < oh; oy++) {
            int iy = oy * s->stride - s->pad + ky;
            for (int ox = 0; ox < ow && iy >= 0 && iy < s->h; ox++) {
                int ix = ox * s->stride - s->pad + kx;
                if (ix < 0 || ix >= s->w)
                    continue;
                size_t at = (((size_t)n * s->h + iy) * s->w + ix) * s->c + c;
                size_t to = (((size_t)n * oh + oy) * ow + ox) * s->o + o;
                sum += ref_operand(s->type, x[at]) * ref_operand(s->type, dy[to]);
            }
        }
    }
    return sum;
}

static void ref_conv2d_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                                       const void *x, const void *dy, void *vdw, int accumulate) {
    (void)ctx;
    REAL *dw = vdw;
    for (int o = 0; o < s->o; o++)
        for (int ky = 0; ky < s->kh; ky++)
            for (int kx = 0; kx < s->kw; kx++)
                for (int c = 0; c < s->c; c++, dw++) {
                    double v = ref_conv_weight_at(s, x, dy, o, ky, kx, c);
                    *dw = (REAL)(accumulate ? (double)*dw + v : v);
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
    .gemm_workspace = ref_gemm_workspace,
    .conv2d_workspace = ref_conv2d_workspace,
    .batchnorm_workspace = ref_rows_workspace,
    .bias_workspace = ref_rows_workspace,
    .layernorm_workspace = ref_rows_workspace,
    .attention_workspace = ref_attention_workspace,
    .gemm = ref_gemm,
    .conv2d_forward = ref_conv2d_forward,
    .conv2d_backward_data = ref_conv2d_backward_data,
    .conv2d_backward_weight = ref_conv2d_backward_weight,
    .bias_backward = ref_bias_backward,
    .batchnorm_forward_train = ref_batchnorm_forward_train,
    .batchnorm_forward_eval = ref_batchnorm_forward_eval,
    .batchnorm_backward = ref_batchnorm_backward,
    .layernorm_forward = ref_layernorm_forward,
    .layernorm_backward = ref_layernorm_backward,
    .gelu_forward = ref_gelu_forward,
    .gelu_backward = ref_gelu_backward,
    .attention_forward = ref_attention_forward,
    .attention_backward = ref_attention_backward,
    .tokens_forward = ref_tokens_forward,
    .tokens_backward = ref_tokens_backward,
    .first_token_forward = ref_first_token_forward,
    .first_token_backward = ref_first_token_backward,
    .maxpool_forward = ref_maxpool_forward,
    .maxpool_backward = ref_maxpool_backward,
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
