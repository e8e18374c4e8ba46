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

INLINE float bits_float(uint32_t bits) {
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}

INLINE uint32_t float_bits(float f) {
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof bits);
    return bits;
}

INLINE float span_wide(uint16_t bits) {
    return bits_float((uint32_t)bits << 16);
}

// As bf16_narrow of bf16.h, without branches.
INLINE uint16_t span_round(float x) {
    uint32_t v = float_bits(x);
    uint32_t near = (v + 0x7fffU + (v >> 16 & 1)) >> 16, nan = v >> 16 | 0x40U;
    return (uint16_t)((v & 0x7fffffffU) > 0x7f800000U ? nan : near);
}

static void span_widen(size_t n, const uint16_t *bits, float *y) {
    VECTOR for (size_t i = 0; i < n; i++) y[i] = span_wide(bits[i]);
}

static void span_widen_tile(int rows, int cols, const uint16_t *bits, ptrdiff_t step, float *x,
                            ptrdiff_t apart) {
    for (int r = 0; r < rows; r++)
        span_widen((size_t)cols, bits + r * step, x + r * apart);
}

static void span_narrow(size_t n, const float *x, uint16_t *bits) {
    VECTOR for (size_t i = 0; i < n; i++) bits[i] = span_round(x[i]);
}

static void span_narrow_tile(int rows, int cols, const float *x, ptrdiff_t apart, uint16_t *bits,
                             ptrdiff_t step) {
    for (int r = 0; r < rows; r++)
        span_narrow((size_t)cols, x + r * apart, bits + r * step);
}

// Column sums and batch norm, of numbers that are floats and of those in bfloat16.
#define NUM         float
#define NORM(name)  span_##name
#define NUM_GET(at) (at)
#define NUM_PUT(v)  (v)
#include "kernels/cpu/norm_body.h"
#define NUM         uint16_t
#define NORM(name)  span_##name##16
#define NUM_GET(at) span_wide(at)
#define NUM_PUT(v)  span_round(v)
#include "kernels/cpu/norm_body.h"

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
