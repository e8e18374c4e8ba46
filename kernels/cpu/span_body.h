// SPDX-License-Identifier: Apache-2.0
// The memory-bound loops, written so that the compiler vectorises them, for one instruction set;
// included by isa_*.c. Inner loops run over contiguous elements, sums go down columns, so nothing
// has to be reordered and every instruction set gives the same bits.
// Not a header to include anywhere else.

#ifdef MR

// Outputs may be inputs, element for element: no check for overlap is needed. (Clang makes one; its
// own pragma would warn in builds that do not optimise.)
#if defined(__clang__)
#define VECTOR
#else
#define VECTOR _Pragma("GCC ivdep")
#endif

static void span_widen(size_t n, const uint16_t *bits, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) {
        uint32_t v = (uint32_t)bits[i] << 16;
        __builtin_memcpy(y + i, &v, sizeof v);
    }
}

// As bf16_narrow of bf16.h, without branches.
static void span_narrow(size_t n, const float *x, uint16_t *bits) {
    VECTOR for (size_t i = 0; i < n; i++) {
        uint32_t v;
        __builtin_memcpy(&v, x + i, sizeof v);
        uint32_t near = (v + 0x7fffU + (v >> 16 & 1)) >> 16, nan = v >> 16 | 0x40U;
        bits[i] = (uint16_t)((v & 0x7fffffffU) > 0x7f800000U ? nan : near);
    }
}

static void span_narrow_tile(int rows, int cols, const float *x, ptrdiff_t apart, uint16_t *bits,
                             ptrdiff_t step) {
    for (int r = 0; r < rows; r++)
        span_narrow((size_t)cols, x + r * apart, bits + r * step);
}

static void span_column_sums(int64_t rows, int cols, const float *x, float *sum) {
    for (int c = 0; c < cols; c++)
        sum[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * cols, *b = a + cols, *d = b + cols, *e = d + cols;
        VECTOR for (int c = 0; c < cols; c++) sum[c] += (a[c] + b[c]) + (d[c] + e[c]);
    }
    for (; r < rows; r++)
        VECTOR for (int c = 0; c < cols; c++) sum[c] += x[r * cols + c];
}

// Two passes over a block that is still in the cache: no cancellation.
static void span_column_moments(int64_t rows, int cols, const float *x, float *mean, float *m2) {
    span_column_sums(rows, cols, x, mean);
    for (int c = 0; c < cols; c++) {
        mean[c] /= (float)rows;
        m2[c] = 0;
    }
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * cols, *b = a + cols, *d = b + cols, *e = d + cols;
        VECTOR for (int c = 0; c < cols; c++) {
            float m = mean[c], da = a[c] - m, db = b[c] - m, dd = d[c] - m, de = e[c] - m;
            m2[c] += (da * da + db * db) + (dd * dd + de * de);
        }
    }
    for (; r < rows; r++)
        VECTOR for (int c = 0; c < cols; c++) {
            float d = x[r * cols + c] - mean[c];
            m2[c] += d * d;
        }
}

// out = (x - mean) * scale + shift (+ residual) (then ReLU).
static void span_bn_apply(const struct bn_span *s) {
    const float *mean = s->mean, *scale = s->scale, *shift = s->shift;
    const float floor = s->relu ? 0 : -INFINITY;
    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = s->x + r * s->cols;
        float *out = s->out + r * s->cols;
        if (s->residual) {
            const float *res = s->residual + r * s->cols;
            VECTOR for (int c = 0; c < s->cols; c++) {
                float v = (x[c] - mean[c]) * scale[c] + shift[c] + res[c];
                out[c] = v < floor ? floor : v;
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float v = (x[c] - mean[c]) * scale[c] + shift[c];
                out[c] = v < floor ? floor : v;
            }
        }
    }
}

// out = sum of dz, out2 = sum of dz * (x - mean), down the columns of this block.
static void span_bn_grad_sums(const struct bn_span *s) {
    float *sum = s->out, *dot = s->out2;
    const float *mean = s->mean;
    for (int c = 0; c < s->cols; c++)
        sum[c] = dot[c] = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = s->x + r * s->cols, *dy = s->dy + r * s->cols;
        if (s->relu) {
            const float *y = s->y + r * s->cols;
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = y[c] > 0 ? dy[c] : 0;
                sum[c] += dz;
                dot[c] += dz * (x[c] - mean[c]);
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                sum[c] += dy[c];
                dot[c] += dy[c] * (x[c] - mean[c]);
            }
        }
    }
}

// out = scale * (dz - shift - (x - mean) * slope); out2 = dz if there is an out2.
static void span_bn_grad_apply(const struct bn_span *s) {
    const float *mean = s->mean, *scale = s->scale, *shift = s->shift, *slope = s->slope;
    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = s->x + r * s->cols, *dy = s->dy + r * s->cols;
        const float *y = s->relu ? s->y + r * s->cols : NULL;
        float *out = s->out + r * s->cols, *out2 = s->out2 ? s->out2 + r * s->cols : NULL;
        if (y && out2) {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = y[c] > 0 ? dy[c] : 0;
                out[c] = scale[c] * (dz - shift[c] - (x[c] - mean[c]) * slope[c]);
                out2[c] = dz;
            }
        } else if (y) {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = y[c] > 0 ? dy[c] : 0;
                out[c] = scale[c] * (dz - shift[c] - (x[c] - mean[c]) * slope[c]);
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = dy[c];
                out[c] = scale[c] * (dz - shift[c] - (x[c] - mean[c]) * slope[c]);
                if (out2)
                    out2[c] = dz;
            }
        }
    }
}

static void span_relu(size_t n, const float *x, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

static void span_relu_grad(size_t n, const float *y, const float *dy, float *dx) {
    VECTOR for (size_t i = 0; i < n; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
}

static void span_add(size_t n, const float *a, const float *b, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void span_axpy(size_t n, float alpha, const float *x, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) y[i] += alpha * x[i];
}

static void span_scale(size_t n, float alpha, float *x) {
    VECTOR for (size_t i = 0; i < n; i++) x[i] *= alpha;
}

static double span_sum_squares(size_t n, const float *x) {
    enum { lanes = 16 };
    double acc[lanes] = {0}, sum = 0;
    size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (int j = 0; j < lanes; j++)
            acc[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        acc[i % lanes] += (double)x[i] * (double)x[i];
    for (int j = 0; j < lanes; j++)
        sum += acc[j];
    return sum;
}

static void span_max_into(int c, const float *x, uint8_t tap, float *best, uint8_t *which) {
    VECTOR for (int i = 0; i < c; i++) {
        int more = x[i] > best[i] || x[i] != x[i]; // a NaN wins, as in PyTorch, and stays
        which[i] = more ? tap : which[i];
        best[i] = more ? x[i] : best[i];
    }
}

static void span_add_where(int c, const float *dy, const uint8_t *which, uint8_t tap, float *dx) {
    VECTOR for (int i = 0; i < c; i++) {
        float v = which[i] == tap ? dy[i] : 0;
        dx[i] += v;
    }
}

static void span_sgd(size_t n, const struct sgd_step *s, float *p, const float *g, float *buf) {
    float scale = s->grad_scale, decay = s->decay, lr = s->lr, momentum = s->momentum;
    if (!buf) {
        VECTOR for (size_t i = 0; i < n; i++) p[i] -= lr * (scale * g[i] + decay * p[i]);
        return;
    }
    // The step is gain * gradient + reach * buffer.
    float gain = s->nesterov ? 1 : 0, reach = s->nesterov ? momentum : 1;
    VECTOR for (size_t i = 0; i < n; i++) {
        float d = scale * g[i] + decay * p[i], b = momentum * buf[i] + d;
        buf[i] = b;
        p[i] -= lr * (gain * d + reach * b);
    }
}

static void span_adam(size_t n, const struct adam_step *s, float *p, const float *g, float *m,
                      float *v) {
    float scale = s->grad_scale, decay = s->decay, shrink = s->shrink, lr = s->lr;
    float keep1 = s->beta1, take1 = s->take1, keep2 = s->beta2, take2 = s->take2;
    float root = s->inv_sqrt_correct2, eps = s->eps;
    for (size_t i = 0; i < n; i += VL) {
        int whole = n - i >= VL;
        vmask lanes = V_MASK(whole ? VL : (int)(n - i));
        vec x = load_part(p + i, whole, lanes), d = scale * load_part(g + i, whole, lanes);
        d += decay * x;
        vec first = keep1 * load_part(m + i, whole, lanes) + take1 * d;
        vec second = keep2 * load_part(v + i, whole, lanes) + take2 * (d * d);
        vec moved = x * shrink - lr * (first / (V_SQRT(second) * root + eps));
        if (whole) {
            V_STORE(m + i, first);
            V_STORE(v + i, second);
            V_STORE(p + i, moved);
        } else {
            V_STOREM(m + i, lanes, first);
            V_STOREM(v + i, lanes, second);
            V_STOREM(p + i, lanes, moved);
        }
    }
}

#endif
