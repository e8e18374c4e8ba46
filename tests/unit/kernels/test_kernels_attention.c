// SPDX-License-Identifier: Apache-2.0
// Attention against a plain loop in double precision, forward and backward: shapes on both sides of
// the blocks of queries and tiles, every instruction set that this machine has, one worker and more
// workers than heads, tensors of floats and of bfloat16.
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 16, TENSORS = 6 };
enum tensor { QKV, DY, Y, LSE, DQKV, BACK };

struct shape {
    int n, t, heads, d, keys; // keys 0: the queries' own tokens
    double spread;            // of the numbers
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 0, 1},    {1, 1, 2, 3, 1, 1},    {2, 5, 3, 7, 0, 1},     {1, 16, 1, 32, 17, 1},
    {1, 17, 1, 64, 16, 1}, {3, 33, 2, 65, 20, 1}, {1, 96, 1, 16, 0, 1},   {1, 97, 2, 8, 0, 1},
    {1, 193, 1, 5, 0, 1},  {2, 3, 2, 17, 700, 1}, {1, 70, 1, 4, 1500, 1}, {1, 40, 1, 3, 5000, 1},
    {1, 40, 2, 24, 0, 8},  {2, 2, 5, 15, 3, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// ---- the plain loop -----------------------------------------------------------------------------

struct tensors {
    size_t len[TENSORS];
    double *of[TENSORS];
};

static int keys_of(const struct shape *s) {
    return s->keys ? s->keys : s->t;
}

// Element `i` of the row of a head, in qkv: of a query (part 0), a key (1) or a value (2).
static size_t place(const struct shape *s, int part, int image, int row, int head, int i) {
    size_t wide = (size_t)s->heads * (size_t)s->d, in = (size_t)head * (size_t)s->d + (size_t)i;
    if (!s->keys)
        return (((size_t)image * (size_t)s->t + (size_t)row) * 3 + (size_t)part) * wide + in;
    if (part == 0)
        return ((size_t)image * (size_t)s->t + (size_t)row) * wide + in;
    size_t queries = (size_t)s->n * (size_t)s->t * wide;
    size_t pair = (size_t)image * (size_t)s->keys + (size_t)row;
    return queries + (pair * 2 + (size_t)part - 1) * wide + in;
}

static size_t place_y(const struct shape *s, int image, int row, int head, int i) {
    return (((size_t)image * (size_t)s->t + (size_t)row) * (size_t)s->heads + (size_t)head) *
               (size_t)s->d +
           (size_t)i;
}

// The weights of the keys for one query, p; the logarithm of their sum.
static double weigh(const struct shape *s, const double *qkv, int image, int row, int head,
                    double *p) {
    double most = -(double)INFINITY, sum = 0, scale = 1 / sqrt(s->d);
    for (int k = 0; k < keys_of(s); k++) {
        p[k] = 0;
        for (int i = 0; i < s->d; i++)
            p[k] += qkv[place(s, 0, image, row, head, i)] * qkv[place(s, 1, image, k, head, i)];
        p[k] *= scale;
        most = fmax(most, p[k]);
    }
    for (int k = 0; k < keys_of(s); k++)
        sum += p[k] = exp(p[k] - most);
    for (int k = 0; k < keys_of(s); k++)
        p[k] /= sum;
    return most + log(sum);
}

static void plain_row(const struct shape *s, const struct tensors *t, int image, int row, int head,
                      double *p, double *dp) {
    double *qkv = t->of[QKV], *dy = t->of[DY], *y = t->of[Y], *dqkv = t->of[DQKV];
    double scale = 1 / sqrt(s->d), both = 0;
    size_t lse = ((size_t)image * (size_t)s->heads + (size_t)head) * (size_t)s->t + (size_t)row;
    t->of[LSE][lse] = weigh(s, qkv, image, row, head, p);
    for (int k = 0; k < keys_of(s); k++) {
        dp[k] = 0;
        for (int i = 0; i < s->d; i++) {
            size_t v = place(s, 2, image, k, head, i), at = place_y(s, image, row, head, i);
            y[at] += p[k] * qkv[v];
            dqkv[v] += p[k] * dy[at];
            dp[k] += dy[at] * qkv[v];
        }
        both += p[k] * dp[k];
    }
    for (int k = 0; k < keys_of(s); k++)
        for (int i = 0; i < s->d; i++) {
            size_t q = place(s, 0, image, row, head, i), key = place(s, 1, image, k, head, i);
            double ds = p[k] * (dp[k] - both) * scale;
            dqkv[q] += ds * qkv[key];
            dqkv[key] += ds * qkv[q];
        }
}

static void plain(const struct shape *s, const struct tensors *t) {
    double *p = calloc((size_t)keys_of(s), sizeof *p), *dp = calloc((size_t)keys_of(s), sizeof *p);
    for (int image = 0; image < s->n; image++)
        for (int head = 0; head < s->heads; head++)
            for (int row = 0; row < s->t; row++)
                plain_row(s, t, image, row, head, p, dp);
    free(p);
    free(dp);
}

// Numbers of bfloat16, so that tensors of both types hold the same ones.
static struct tensors make(const struct shape *s) {
    size_t wide = (size_t)s->heads * (size_t)s->d, y = (size_t)s->n * (size_t)s->t * wide;
    size_t qkv = s->keys ? y + (size_t)s->n * (size_t)s->keys * 2 * wide : 3 * y;
    struct tensors t = {.len = {qkv, y, y, (size_t)s->n * (size_t)s->heads * (size_t)s->t, qkv, 0}};
    for (int i = 0; i < BACK; i++)
        t.of[i] = calloc(t.len[i], sizeof *t.of[i]);
    for (int i = QKV; i <= DY; i++)
        for (size_t k = 0; k < t.len[i]; k++) {
            float v = random_float() * (float)(2 * s->spread);
            uint32_t bits;
            memcpy(&bits, &v, sizeof bits);
            bits &= 0xffff0000U;
            memcpy(&v, &bits, sizeof bits);
            t.of[i][k] = (double)v;
        }
    return t;
}

// ---- the kernels --------------------------------------------------------------------------------

static size_t width_of(enum kernel_type store, int tensor) {
    return store == KERNEL_BF16 && tensor != LSE ? 2 : 4;
}

static void store_at(enum kernel_type store, int tensor, void *at, size_t i, double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (width_of(store, tensor) == 2)
        ((uint16_t *)at)[i] = (uint16_t)(bits >> 16);
    else
        ((float *)at)[i] = f;
}

static double load_at(enum kernel_type store, int tensor, const void *at, size_t i) {
    if (width_of(store, tensor) == 4)
        return (double)((const float *)at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof bits);
    return (double)f;
}

// NULL, or the tensor that differs. Every element is written, and none behind the last.
static const char *wrong(const struct tensors *want, void *const *got, enum kernel_type store,
                         double tolerance) {
    static const char *const names[] = {[Y] = "y", [LSE] = "lse", [DQKV] = "dqkv"};
    for (int tensor = Y; tensor <= DQKV; tensor++) {
        double most = 1e-3;
        for (size_t i = 0; i < want->len[tensor]; i++)
            most = fmax(most, fabs(want->of[tensor][i]));
        for (size_t i = 0; i < want->len[tensor]; i++)
            if (!(fabs(load_at(store, tensor, got[tensor], i) - want->of[tensor][i]) <=
                  tolerance * most))
                return names[tensor];
        for (size_t i = 0; i < GUARD; i++)
            if (!isnan(load_at(store, tensor, got[tensor], want->len[tensor] + i)))
                return "what is behind a tensor";
    }
    return NULL;
}

static const char *run(struct kernel_ctx *ctx, const struct shape *s, const struct tensors *want,
                       enum kernel_type type, enum kernel_type store, double tolerance) {
    const struct kernel_backend *k = &kernels_cpu;
    struct attention_shape shape = {s->n, s->t, s->heads, s->d, s->keys, type, store};
    void *got[BACK];
    for (int i = 0; i < BACK; i++) {
        got[i] = malloc((want->len[i] + GUARD) * 4);
        for (size_t j = 0; j < want->len[i] + GUARD; j++)
            store_at(store, i, got[i], j,
                     i <= DY && j < want->len[i] ? want->of[i][j] : (double)NAN);
    }
    if (k->reserve(ctx, k->attention_workspace(ctx, &shape)) != 0)
        bail_out("no memory");
    k->attention_forward(ctx, &shape, got[QKV], got[Y], got[LSE]);
    k->attention_backward(ctx, &shape, got[QKV], got[Y], got[LSE], got[DY], got[DQKV]);
    const char *bad = wrong(want, got, store, tolerance);
    for (int i = 0; i < BACK; i++)
        free(got[i]);
    return bad;
}

static void test_isa(const char *isa, int threads, const struct tensors *want) {
    static const struct {
        const char *name;
        enum kernel_type type, store;
        double tolerance;
    } kinds[] = {{"floats", KERNEL_FLOAT, KERNEL_FLOAT, 2e-5},
                 {"floats in bfloat16", KERNEL_FLOAT, KERNEL_BF16, 0.02},
                 {"words of bfloat16", KERNEL_BF16, KERNEL_BF16, 0.03}};
    struct kernel_ctx *ctx;
    const struct kernel_config config = {.threads = threads, .isa = isa};
    if (kernels_cpu.open(&ctx, &config) != 0) {
        skip(1, "this machine has no %s", isa);
        return;
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const char *bad = NULL;
        int i = 0;
        for (; i < SHAPES && !bad; i++)
            bad = run(ctx, &shapes[i], &want[i], kinds[kind].type, kinds[kind].store,
                      kinds[kind].tolerance);
        ok(!bad, "%s, %d workers: attention of %s is right", isa, threads, kinds[kind].name);
        if (bad)
            diag("%s of shape %d differs", bad, i - 1);
    }
    kernels_cpu.close(ctx);
}

// A worker has three panels of keys or values and two blocks of scores, and of tensors in bfloat16
// all of a head as floats: hardly more, and nothing else.
static void test_memory(const char *isa) {
    enum { KEYS = 2000, D = 64, BLOCK = 32 * (KEYS + 16), THREADS = 3 }; // 32 queries, the fewest
    struct kernel_ctx *ctx;
    const struct kernel_config config = {.threads = THREADS, .isa = isa};
    if (kernels_cpu.open(&ctx, &config) != 0)
        return;
    for (int store = 0; store < 2; store++) {
        const struct attention_shape s = {
            .n = 2, .t = KEYS, .heads = 3, .d = D, .store = store ? KERNEL_BF16 : KERNEL_FLOAT};
        double least = 3.0 * KEYS * D + 2.0 * BLOCK + (store ? 8.0 * KEYS * D : 0);
        double each = (double)kernels_cpu.attention_workspace(ctx, &s) / THREADS / sizeof(float);
        ok(each >= least && each < 1.05 * least,
           "%s: the workspace of %s has no more than it needs", isa, store ? "bfloat16" : "floats");
    }
    kernels_cpu.close(ctx);
}

int main(void) {
    static const char *const isas[] = {"base", "avx2", "avx512", "avx512-bf16", "avx512-amx"};
    struct tensors want[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        want[i] = make(&shapes[i]);
        plain(&shapes[i], &want[i]);
    }
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        test_isa(isas[i], 1, want);
        test_isa(isas[i], 5, want);
        test_memory(isas[i]);
    }
    for (int i = 0; i < SHAPES; i++)
        for (int k = 0; k < BACK; k++)
            free(want[i].of[k]);
    return done_testing();
}
