// SPDX-License-Identifier: Apache-2.0
// Activations in bfloat16: products, layer norm, attention and the ops without a field for the type
// (stored_cases.h), over odd shapes.
#include "tests/unit/kernels/stored_cases.h"

// ---- products: type, m, n, k, trans_a, trans_b, a, b, c, how ----

enum { PLAIN, ADDED, FROM, BIAS }; // what C begins with, and whether a bias and ReLU follow
enum { GAP = 3 };                  // numbers between rows

static void make_gemm(const int *g, struct tensors *t) {
    int a_rows = g[4] ? g[3] : g[1], a_cols = g[4] ? g[1] : g[3];
    int b_rows = g[5] ? g[2] : g[3], b_cols = g[5] ? g[3] : g[2];
    add_tensor(t, (enum kernel_type)g[6], (size_t)a_rows * (size_t)(a_cols + GAP));
    add_tensor(t, (enum kernel_type)g[7], (size_t)b_rows * (size_t)(b_cols + GAP));
    add_tensor(t, (enum kernel_type)g[8], (size_t)g[1] * (size_t)(g[2] + GAP));
    add_tensor(t, (enum kernel_type)g[8], (size_t)g[1] * (size_t)(g[2] + GAP));
    add_tensor(t, F, (size_t)g[2]);
}

static void run_gemm(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                     const struct tensors *t) {
    struct gemm_args a = {.type = (enum kernel_type)g[0], .m = g[1], .n = g[2], .k = g[3]};
    a.trans_a = g[4], a.trans_b = g[5];
    a.a_store = (enum kernel_type)g[6], a.b_store = (enum kernel_type)g[7];
    a.c_store = (enum kernel_type)g[8];
    a.lda = (g[4] ? g[1] : g[3]) + GAP, a.ldb = (g[5] ? g[3] : g[2]) + GAP, a.ldc = g[2] + GAP;
    a.a = t->of[0].at, a.b = t->of[1].at, a.c = t->of[2].at;
    a.alpha = g[9] == BIAS ? 0.5 : 1, a.beta = g[9] == ADDED ? 0.25 : g[9] == FROM ? 1 : 0;
    a.from = g[9] == FROM ? t->of[3].at : NULL;
    a.bias = g[9] == PLAIN ? NULL : t->of[4].at, a.relu = g[9] == BIAS;
    reserve(k, ctx, k->gemm_workspace(ctx, a.type, g[1], g[2], g[3]));
    k->gemm(ctx, &a);
}

// ---- layer norm: rows, cols, with a residual or dsum; dx in place ----

static void make_norm(const int *g, struct tensors *t) {
    size_t n = (size_t)g[0] * (size_t)g[1];
    for (int i = 0; i < 4; i++)
        add_tensor(t, H, n);
    for (int i = 0; i < 4; i++)
        add_tensor(t, F, (size_t)(i < 2 ? g[1] : g[0]));
}

static void run_norm(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                     const struct tensors *t) {
    struct layernorm_args a = {.rows = g[0], .cols = g[1], .eps = 1e-5, .store = H};
    a.x = t->of[0].at, a.residual = g[2] ? t->of[1].at : NULL, a.sum = t->of[2].at;
    a.gamma = t->of[4].at, a.beta = t->of[5].at, a.y = t->of[3].at;
    a.save_mean = t->of[6].at, a.save_invstd = t->of[7].at;
    reserve(k, ctx, k->layernorm_workspace(ctx, g[0], g[1]));
    k->layernorm_forward(ctx, &a);
}

static void make_norm_grad(const int *g, struct tensors *t) {
    make_norm(g, t);
    add_tensor(t, F, (size_t)g[1]);
    for (size_t i = 0; i < t->of[7].n; i++) // one divided by a deviation
        ((float *)(void *)t->of[7].at)[i] = 1.5F;
}

static void run_norm_grad(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                          const struct tensors *t) {
    struct layernorm_grad_args a = {.rows = g[0], .cols = g[1], .store = H, .accumulate = g[2]};
    a.x = t->of[0].at, a.dy = t->of[1].at, a.dsum = g[2] ? t->of[2].at : NULL;
    a.dx = g[3] ? t->of[1].at : t->of[3].at, a.gamma = t->of[4].at, a.dbeta = t->of[5].at;
    a.save_mean = t->of[6].at, a.save_invstd = t->of[7].at, a.dgamma = t->of[8].at;
    reserve(k, ctx, k->layernorm_workspace(ctx, g[0], g[1]));
    k->layernorm_backward(ctx, &a);
}

// ---- attention: n, t, heads, d, keys, type ----

static struct attention_shape attention_of(const int *g) {
    return (struct attention_shape){.n = g[0],
                                    .t = g[1],
                                    .heads = g[2],
                                    .d = g[3],
                                    .keys = g[4],
                                    .type = (enum kernel_type)g[5],
                                    .store = H};
}

static void make_attention(const int *g, struct tensors *t) {
    size_t y = (size_t)g[0] * (size_t)g[1] * (size_t)g[2] * (size_t)g[3];
    size_t kv = 2 * (size_t)g[0] * (size_t)g[4] * (size_t)g[2] * (size_t)g[3];
    add_tensor(t, H, g[4] ? y + kv : 3 * y);
    add_tensor(t, H, y);
    add_tensor(t, F, (size_t)g[0] * (size_t)g[1] * (size_t)g[2]);
    add_tensor(t, H, y);
    add_tensor(t, H, g[4] ? y + kv : 3 * y);
}

static void run_attention(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                          const struct tensors *t) {
    struct attention_shape s = attention_of(g);
    reserve(k, ctx, k->attention_workspace(ctx, &s));
    k->attention_forward(ctx, &s, t->of[0].at, t->of[1].at, t->of[2].at);
    k->attention_backward(ctx, &s, t->of[0].at, t->of[1].at, t->of[2].at, t->of[3].at, t->of[4].at);
}

// ---- tokens: n, p, d, with a class token and positions ----

static void make_tokens(const int *g, struct tensors *t) {
    size_t rows = (size_t)g[1] + (g[3] ? 1 : 0), d = (size_t)g[2];
    add_tensor(t, H, (size_t)g[0] * (size_t)g[1] * d);
    add_tensor(t, F, d);
    add_tensor(t, F, rows * d);
    add_tensor(t, H, (size_t)g[0] * rows * d);
    add_tensor(t, H, (size_t)g[0] * rows * d);
    add_tensor(t, H, (size_t)g[0] * (size_t)g[1] * d);
    add_tensor(t, F, d);
    add_tensor(t, F, rows * d);
}

static void run_tokens(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                       const struct tensors *t) {
    struct tokens_shape s = {.n = g[0], .p = g[1], .d = g[2], .store = H};
    bool all = g[3];
    k->tokens_forward(ctx, &s, t->of[0].at, all ? t->of[1].at : NULL, all ? t->of[2].at : NULL,
                      t->of[3].at);
    k->tokens_backward(ctx, &s, t->of[4].at, t->of[5].at, all ? t->of[6].at : NULL,
                       all ? t->of[7].at : NULL, 1);
}

// ---- ops without a field for the type: n, rows, cols ----

static void make_flat(const int *g, struct tensors *t) {
    size_t n = (size_t)g[0] * (size_t)g[1] * (size_t)g[2], few = (size_t)g[0] * (size_t)g[2];
    for (int i = 0; i < 7; i++)
        add_tensor(t, H, n);
    for (int i = 0; i < 2; i++)
        add_tensor(t, H, few);
    add_tensor(t, F, (size_t)g[2]);
}

static void run_flat(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                     const struct tensors *t) {
    size_t n = t->of[0].n;
    void *x = t->of[0].at, *y = t->of[1].at;
    k->bf16->relu_forward(ctx, n, x, t->of[2].at);
    k->bf16->relu_backward(ctx, n, x, y, t->of[3].at);
    k->bf16->gelu_forward(ctx, n, x, t->of[4].at);
    k->bf16->gelu_backward(ctx, n, x, y, t->of[5].at);
    k->bf16->add(ctx, n, x, t->of[6].at, t->of[6].at);
    reserve(k, ctx, k->bias_workspace(ctx, (int64_t)g[0] * g[1], g[2]));
    k->bf16->bias_backward(ctx, (int64_t)g[0] * g[1], g[2], y, t->of[9].at, 1);
    k->bf16->avgpool_forward(ctx, g[0], g[1], g[2], x, t->of[7].at);
    k->bf16->first_token_forward(ctx, g[0], g[1], g[2], x, t->of[8].at);
    k->bf16->zero(ctx, n / 2, y);
}

static void run_spread(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                       const struct tensors *t) {
    k->bf16->avgpool_backward(ctx, g[0], g[1], g[2], t->of[7].at, t->of[0].at);
    k->bf16->first_token_backward(ctx, g[0], g[1], g[2], t->of[8].at, t->of[1].at);
}

// ---- all of them ----

static const struct op_case cases[] = {
    {"product", make_gemm, run_gemm, 1e-4, {H, 70, 45, 37, 0, 1, H, F, H, PLAIN}},
    {"product, turned", make_gemm, run_gemm, 1e-4, {H, 45, 37, 201, 1, 0, H, H, F, PLAIN}},
    {"product, many terms", make_gemm, run_gemm, 1e-4, {H, 211, 70, 2150, 0, 0, H, F, H, PLAIN}},
    {"product, of floats", make_gemm, run_gemm, 1e-4, {H, 130, 33, 1101, 0, 1, F, F, H, BIAS}},
    {"product, added", make_gemm, run_gemm, 1e-4, {H, 333, 64, 1152, 0, 0, H, F, H, ADDED}},
    {"product, from", make_gemm, run_gemm, 1e-4, {H, 200, 96, 64, 0, 1, H, F, H, FROM}},
    {"product, few rows, from", make_gemm, run_gemm, 1e-4, {H, 9, 40, 1540, 0, 1, H, F, H, FROM}},
    {"product, few rows, bias", make_gemm, run_gemm, 1e-4, {H, 7, 10, 33, 0, 1, H, F, F, BIAS}},
    {"product, all bfloat16", make_gemm, run_gemm, 1e-4, {H, 97, 31, 64, 0, 1, H, H, H, PLAIN}},
    {"product, all turned", make_gemm, run_gemm, 1e-4, {H, 99, 65, 130, 1, 1, H, H, H, BIAS}},
    {"float product", make_gemm, run_gemm, 1e-4, {F, 101, 40, 77, 0, 1, H, F, H, FROM}},
    {"float product, turned", make_gemm, run_gemm, 1e-4, {F, 33, 40, 177, 1, 0, H, H, F, PLAIN}},
    {"layer norm", make_norm, run_norm, 1e-4, {37, 65, 0}},
    {"layer norm of a sum", make_norm, run_norm, 1e-4, {5, 1100, 1}},
    {"layer norm, gradient", make_norm_grad, run_norm_grad, 1e-4, {37, 65, 0, 0}},
    {"layer norm, gradient of a sum", make_norm_grad, run_norm_grad, 1e-4, {201, 33, 1, 1}},
    {"attention", make_attention, run_attention, 0.02, {2, 50, 3, 20, 0, H}},
    {"attention over keys", make_attention, run_attention, 0.02, {2, 110, 2, 16, 33, H}},
    {"attention, wide", make_attention, run_attention, 0.02, {1, 21, 1, 65, 0, H}},
    {"float attention", make_attention, run_attention, 1e-3, {2, 50, 3, 20, 0, F}},
    {"tokens", make_tokens, run_tokens, 1e-4, {5, 49, 70, 1}},
    {"tokens, wide", make_tokens, run_tokens, 1e-4, {2, 3, 1500, 1}},
    {"bare tokens", make_tokens, run_tokens, 1e-4, {3, 7, 9, 0}},
    {"flat", make_flat, run_flat, 1e-4, {3, 17, 65}},
    {"flat, wide", make_flat, run_flat, 1e-4, {2, 5, 2500}},
    {"flat, many rows", make_flat, run_flat, 1e-4, {7, 401, 12}},
    {"spread", make_flat, run_spread, 1e-4, {3, 17, 65}},
    {"spread, wide", make_flat, run_spread, 1e-4, {2, 3, 1100}},
};

static void check_rounding(const char *isa) {
    enum { ALL = 1 << 16 };
    static uint16_t x[ALL], more[ALL], got[2][ALL];
    static float sum[ALL];
    struct kernel_ctx *ctx = open_ctx(isa, 1);
    const float one = 1;
    size_t wrong = 0;
    if (!ctx)
        return;
    for (int quarters = 1; quarters < 4; quarters++) {
        for (int i = 0; i < ALL; i++) {
            float v = bf16_widen((uint16_t)i);
            bool usual = isfinite(v) && fabsf(v) > 0x1p-100F && fabsf(v) < 0x1p100F;
            x[i] = usual ? (uint16_t)i : 0x3f80;
            v = bf16_widen(x[i]);
            more[i] = bf16_narrow(ldexpf((float)quarters, ilogbf(v) - 9));
            sum[i] = v + bf16_widen(more[i]);
        }
        struct gemm_args g = {.m = ALL, .n = 1, .k = 1, .a = sum, .b = &one, .alpha = 1};
        g.c = got[1], g.lda = g.ldb = g.ldc = 1, g.c_store = KERNEL_BF16;
        reserve(&kernels_cpu, ctx, kernels_cpu.gemm_workspace(ctx, g.type, ALL, 1, 1));
        kernels_cpu.gemm(ctx, &g);
        kernels_cpu.bf16->add(ctx, ALL, x, more, got[0]);
        for (int i = 0; i < ALL; i++)
            wrong += (got[0][i] != bf16_narrow(sum[i])) + (got[1][i] != bf16_narrow(sum[i]));
    }
    is_uint(wrong, 0, "%s: results are rounded to nearest, ties to even", isa);
    kernels_cpu.close(ctx);
}

// Of every finite bfloat16. Where GELU is tiny beside its argument, what is lost of 1 - Phi counts.
static void check_gelu(const char *isa, struct kernel_ctx *plain) {
    enum { ALL = 1 << 16 };
    static uint16_t x[ALL], one[ALL], got[2][ALL], want[2][ALL];
    struct kernel_ctx *ctx = open_ctx(isa, 1);
    size_t wrong[2] = {0};
    if (!ctx)
        return;
    for (int i = 0; i < ALL; i++) {
        float v = bf16_widen((uint16_t)i);
        x[i] =
            isfinite(v) && (v == 0 || fabsf(v) > 0x1p-100F) && fabsf(v) < 0x1p60F ? (uint16_t)i : 0;
        one[i] = bf16_narrow(1);
    }
    kernels_cpu.bf16->gelu_forward(ctx, ALL, x, got[0]);
    kernels_cpu.bf16->gelu_backward(ctx, ALL, x, one, got[1]);
    kernels_reference.bf16->gelu_forward(plain, ALL, x, want[0]);
    kernels_reference.bf16->gelu_backward(plain, ALL, x, one, want[1]);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < ALL; i++) {
            double v = (double)bf16_widen(want[k][i]), lost = 1e-6 * (double)bf16_widen(x[i]);
            wrong[k] += !(fabs((double)bf16_widen(got[k][i]) - v) <=
                          0x1.02p-7 * fabs(v) + fmin(fabs(lost), 1e-5));
        }
    is_uint(wrong[0], 0, "%s: GELU of every number is within its last bit", isa);
    is_uint(wrong[1], 0, "%s: the gradient of GELU is within its last bit", isa);
    kernels_cpu.close(ctx);
}

int main(void) {
    struct kernel_ctx *plain;
    check_cases(cases, sizeof cases / sizeof cases[0]);
    if (kernels_reference.open(&plain, &(struct kernel_config){0}) != 0)
        bail_out("cannot open the reference");
    for (size_t i = 0; i < ISAS; i++) {
        check_rounding(isas[i]);
        check_gelu(isas[i], plain);
    }
    kernels_reference.close(plain);
    return done_testing();
}
