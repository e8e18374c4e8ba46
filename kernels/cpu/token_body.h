// SPDX-License-Identifier: Apache-2.0
// The inner loops of layer norm, GELU and attention for one instruction set; included by isa_*.c
// after span_body.h. Sums run in 16 lanes whatever the width of a register, so that instruction
// sets with fused multiply-adds give the same bits, as do those without.
// Ends with ISA_TABLE, the table of all loops. Not a header to include anywhere else.

#ifdef MR

enum { LANES = 16 };
// Any address, any type behind it.
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define AT(p) (*(const lanes *)(const void *)(p))

// By halves: four additions one after the other, where sixteen would wait for each other.
INLINE float lanes_sum(const lanes *v) {
    typedef float lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
    typedef float lanes4 __attribute__((vector_size(16), aligned(4), may_alias));
    const float *at = (const float *)v;
    lanes8 half = *(const lanes8 *)(const void *)at + *(const lanes8 *)(const void *)(at + 8);
    at = (const float *)&half;
    lanes4 quarter = *(const lanes4 *)(const void *)at + *(const lanes4 *)(const void *)(at + 4);
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

static float row_sum(int n, const float *x) {
    lanes sum = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += AT(x + i);
    float total = lanes_sum(&sum);
    for (; i < n; i++)
        total += x[i];
    return total;
}

static float token_dot(int n, const float *a, const float *b) {
    lanes sum = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        sum += AT(a + i) * AT(b + i);
    float total = lanes_sum(&sum);
    for (; i < n; i++)
        total += a[i] * b[i];
    return total;
}

// Two passes over a row that is in the cache: no cancellation.
static void token_ln_moments(int n, const float *x, float *mean, float *m2) {
    float m = row_sum(n, x) / (float)n;
    lanes sum = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes d = AT(x + i) - m;
        sum += d * d;
    }
    float square = lanes_sum(&sum);
    for (; i < n; i++)
        square += (x[i] - m) * (x[i] - m);
    *mean = m;
    *m2 = square;
}

static void token_ln_apply(int n, const float *x, float mean, float invstd, const float *gamma,
                           const float *beta, float *y) {
    VECTOR for (int c = 0; c < n; c++) y[c] = (x[c] - mean) * invstd * gamma[c] + beta[c];
}

// Adds a row's part to dgamma and dbeta, and gives sum(g) and sum(g * xhat) for g = dy * gamma.
static void token_ln_grad_sums(const struct ln_row *r, float *dgamma, float *dbeta, float *sum,
                               float *dot) {
    const float *x = r->x, *dy = r->dy, *gamma = r->gamma;
    float mean = r->mean, invstd = r->invstd;
    VECTOR for (int c = 0; c < r->n; c++) {
        dbeta[c] += dy[c];
        dgamma[c] += dy[c] * ((x[c] - mean) * invstd);
    }
    lanes s = {0}, d = {0};
    int i = 0;
    for (; i + LANES <= r->n; i += LANES) {
        lanes g = AT(dy + i) * AT(gamma + i);
        s += g;
        d += g * ((AT(x + i) - mean) * invstd);
    }
    *sum = lanes_sum(&s);
    *dot = lanes_sum(&d);
    for (; i < r->n; i++) {
        *sum += dy[i] * gamma[i];
        *dot += dy[i] * gamma[i] * ((x[i] - mean) * invstd);
    }
}

// dx = invstd * (g - sum - xhat * dot) (+ more), sum and dot already divided by n.
static void token_ln_grad_apply(const struct ln_row *r, float sum, float dot, const float *more,
                                float *dx) {
    const float *x = r->x, *dy = r->dy, *gamma = r->gamma;
    float mean = r->mean, invstd = r->invstd;
    if (more) {
        VECTOR for (int c = 0; c < r->n; c++) dx[c] =
            invstd * (dy[c] * gamma[c] - sum - (x[c] - mean) * invstd * dot) + more[c];
        return;
    }
    VECTOR for (int c = 0; c < r->n; c++) dx[c] =
        invstd * (dy[c] * gamma[c] - sum - (x[c] - mean) * invstd * dot);
}

// One rounding where the instruction set has that.
INLINE float times_plus(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// e^x for x <= 88, within 2 units of the last place; below -87 the value of -87. Cody and Waite's
// reduction to [-ln 2 / 2, ln 2 / 2], the polynomial of Moshier's Cephes.
INLINE float fast_exp(float x) {
    const float shift = 12582912.0F; // 1.5 * 2^23: adding it rounds to whole numbers
    float v = x < -87.0F ? -87.0F : x;
    float k = times_plus(v, 1.44269504F, shift), whole = k - shift;
    float r = times_plus(whole, 2.12194440e-4F, times_plus(whole, -0.693359375F, v));
    float p = 1.9875691500e-4F;
    p = times_plus(p, r, 1.3981999507e-3F);
    p = times_plus(p, r, 8.3334519073e-3F);
    p = times_plus(p, r, 4.1665795894e-2F);
    p = times_plus(p, r, 1.6666665459e-1F);
    p = times_plus(p, r, 5.0000001201e-1F);
    uint32_t power = (float_bits(k) - float_bits(shift) + 127) << 23;
    return (times_plus(p, r * r, r) + 1) * bits_float(power);
}

// Phi(x), within 1e-7: formula 7.1.26 of Abramowitz and Stegun. *density gets exp(-x * x / 2).
INLINE float normal_phi(float x, float *density) {
    float z = __builtin_fabsf(x) * 0.707106781F, t = 1 / times_plus(0.3275911F, z, 1);
    float e = fast_exp(-z * z), p = 1.061405429F;
    p = times_plus(p, t, -1.453152027F);
    p = times_plus(p, t, 1.421413741F);
    p = times_plus(p, t, -0.284496736F);
    p = times_plus(p, t, 0.254829592F);
    float tail = 0.5F * (p * t) * e;
    *density = e;
    return x < 0 ? tail : 1 - tail;
}

static void token_gelu(size_t n, const float *x, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) {
        float e, v = x[i];
        y[i] = v * normal_phi(v, &e);
    }
}

static void token_gelu_grad(size_t n, const float *x, const float *dy, float *dx) {
    VECTOR for (size_t i = 0; i < n; i++) {
        float e, v = x[i], phi = normal_phi(v, &e);
        dx[i] = dy[i] * (phi + v * (0.398942280F * e));
    }
}

// x = exp(scale * x - top) with top = scale * max(x), to which the logarithm of its sum is added.
static float token_softmax(int n, float scale, float *x, float *top) {
    float best[LANES], max;
    int i = 0;
    for (int j = 0; j < LANES; j++)
        best[j] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
    for (; i < n; i++)
        best[0] = x[i] > best[0] ? x[i] : best[0];
    max = best[0];
    for (int j = 1; j < LANES; j++)
        max = best[j] > max ? best[j] : max;
    *top = scale * max;
    float shift = *top;
    VECTOR for (int c = 0; c < n; c++) x[c] = fast_exp(scale * x[c] - shift);
    return row_sum(n, x);
}

// p = exp(scale * p - lse), ds = p * (ds - dot) * scale.
static void token_softmax_grad(int n, float scale, float lse, float dot, float *p, float *ds) {
    VECTOR for (int c = 0; c < n; c++) {
        float e = fast_exp(scale * p[c] - lse);
        p[c] = e;
        ds[c] = e * (ds[c] - dot) * scale;
    }
}

#define NORM_LOOPS(suffix)                                                                         \
    {                                                                                              \
        .column_sums = span_column_sums##suffix, .column_moments = span_column_moments##suffix,    \
        .bn_apply = span_bn_apply##suffix, .bn_grad_sums = span_bn_grad_sums##suffix,              \
        .bn_grad_apply = span_bn_grad_apply##suffix                                                \
    }
#define ISA_TABLE(table, label, probe)                                                             \
    const struct cpu_isa table = {                                                                 \
        .name = label,                                                                             \
        .tile_cols = NR,                                                                           \
        .usable = probe,                                                                           \
        .type[KERNEL_FLOAT] = {.pair = 1,                                                          \
                               .tile_rows = MR,                                                    \
                               .rows = micro_rows,                                                 \
                               .cols = micro_cols,                                                 \
                               .narrow = span_narrow,                                              \
                               .narrow_tile = span_narrow_tile},                                   \
        .type[KERNEL_BF16] = {.pair = 1,                                                           \
                              .tile_rows = MR,                                                     \
                              .rows = micro_rows,                                                  \
                              .cols = micro_cols,                                                  \
                              .convert = micro_round,                                              \
                              .convert_panel = micro_round_panel,                                  \
                              .narrow = span_narrow,                                               \
                              .narrow_tile = span_narrow_tile},                                    \
        .widen = span_widen,                                                                       \
        .widen_tile = span_widen_tile,                                                             \
        .pack_transposed = micro_pack_transposed,                                                  \
        .pack_copied = micro_pack_copied,                                                          \
        .winograd_in = winograd_to_points,                                                         \
        .winograd_out = winograd_from_points,                                                      \
        .norm = {NORM_LOOPS(), NORM_LOOPS(16)},                                                    \
        .ln_moments = token_ln_moments,                                                            \
        .ln_apply = token_ln_apply,                                                                \
        .ln_grad_sums = token_ln_grad_sums,                                                        \
        .ln_grad_apply = token_ln_grad_apply,                                                      \
        .dot = token_dot,                                                                          \
        .softmax = token_softmax,                                                                  \
        .softmax_grad = token_softmax_grad,                                                        \
        .gelu = token_gelu,                                                                        \
        .gelu_grad = token_gelu_grad,                                                              \
        .relu = span_relu,                                                                         \
        .relu_grad = span_relu_grad,                                                               \
        .add = span_add,                                                                           \
        .axpy = span_axpy,                                                                         \
        .scale = span_scale,                                                                       \
        .sum_squares = span_sum_squares,                                                           \
        .max_into = span_max_into,                                                                 \
        .add_where = span_add_where,                                                               \
        .sgd = span_sgd,                                                                           \
        .adam = span_adam,                                                                         \
    }

#endif
