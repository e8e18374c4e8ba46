// SPDX-License-Identifier: Apache-2.0
// The fast CPU backend, with every instruction set this machine has, against the plain reference:
// products and convolutions over many shapes, odd ones included. The reference computes each case
// once. Outputs lie between guards.
#include "base/cpu_list.h"
#include "kernels/cpu/ctx.h"
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

#include <sched.h>

enum { guard = 32 };
static const float guard_value = -12345.0F;

// An output of n elements between guards, all set to the start values.
static float *new_output(size_t n, const float *start) {
    float *p = malloc((n + 2 * guard) * sizeof *p);
    if (!p)
        bail_out("out of memory");
    for (size_t i = 0; i < n + 2 * guard; i++)
        p[i] = guard_value;
    memcpy(p + guard, start, n * sizeof *p);
    return p + guard;
}

static bool guards_whole(const float *out, size_t n) {
    for (int i = 1; i <= guard; i++)
        if (out[-i] != guard_value || out[n + i - 1] != guard_value)
            return false;
    return true;
}

static double worst_difference(size_t n, const float *got, const float *want) {
    double worst = 0, scale = 1;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]), size = fabs((double)want[i]);
        worst = d <= worst ? worst : d; // a NaN counts
        scale = size > scale ? size : scale;
    }
    return worst / scale;
}

static bool same_bits(const void *a, const void *b, size_t floats) {
    return memcmp(a, b, floats * sizeof(float)) == 0;
}

// Compares and frees the output of one instruction set.
static void check(float *got, const float *want, size_t n, const char *isa, const char *what) {
    double d = worst_difference(n, got, want);
    if (!ok(d < 2e-5 && guards_whole(got, n), "%s: %s", isa, what))
        diag("worst difference %.3g, guards %s", d, guards_whole(got, n) ? "whole" : "broken");
    free(got - guard);
}

static struct kernel_ctx *open_ctx(const struct kernel_backend *b, const char *isa, int threads) {
    struct kernel_ctx *ctx;
    struct kernel_config cfg = {.threads = threads, .isa = isa};
    int rc = b->open(&ctx, &cfg);
    if (rc == -95) // ENOTSUP
        return NULL;
    if (rc != 0)
        bail_out("cannot open %s: %d", b->name, rc);
    return ctx;
}

// No kernel may believe the workspace to be clear: it is full of NaNs.
static void reserve(struct kernel_ctx *ctx, size_t bytes) {
    if (kernels_cpu.reserve(ctx, bytes) != 0)
        bail_out("out of memory");
    if (ctx->work_bytes)
        memset(ctx->work, 0xff, ctx->work_bytes);
}

static struct kernel_ctx *plain;

enum { ISAS = 5 };
static const char *const isa_names[ISAS] = {"avx512-amx", "avx512-bf16", "avx512", "avx2", "base"};
static struct fast {
    const char *isa;
    struct kernel_ctx *ctx;
} fast[ISAS]; // those that this machine has
static int fasts;

static const char *const type_names[KERNEL_TYPES] = {"", ", bf16"};

enum { BIAS_ALONE = 16 | 32, ADDED = 64 }; // of the variants of a product

static void one_gemm(const int size[3], int variant, enum kernel_type type) {
    struct gemm_args g = {.type = type, .m = size[0], .n = size[1], .k = size[2]};
    g.trans_a = variant & 1;
    g.trans_b = variant >> 1 & 1;
    g.alpha = variant & 4 ? 0.5 : 1;
    g.beta = variant & 8 ? -1.5 : variant & (4 | ADDED) ? 1 : 0;
    g.relu = (variant & BIAS_ALONE) == 16;
    g.lda = (g.trans_a ? g.m : g.k) + (variant & 4 ? 3 : 0);
    g.ldb = (g.trans_b ? g.k : g.n) + (variant & 8 ? 5 : 0);
    g.ldc = g.n + (variant & 1 ? 2 : 0);
    size_t rows_a = g.trans_a ? g.k : g.m, rows_b = g.trans_b ? g.n : g.k;
    float *a = new_random((rows_a - 1) * g.lda + (g.trans_a ? g.m : g.k));
    float *b = new_random((rows_b - 1) * g.ldb + (g.trans_b ? g.k : g.n));
    float *bias = new_random(g.n), *start = new_random((size_t)g.m * g.ldc);
    size_t size_c = (size_t)(g.m - 1) * g.ldc + g.n;
    float *want = new_output(size_c, start);
    g.a = a, g.b = b, g.bias = variant & 16 ? bias : NULL;
    g.c = want;
    kernels_reference.gemm(plain, &g);
    char what[96];
    snprintf(what, sizeof what, "gemm %dx%dx%d variant %d%s", g.m, g.n, g.k, variant,
             type_names[type]);
    for (const struct fast *f = fast; f < fast + fasts; f++) {
        float *got = new_output(size_c, start);
        g.c = got;
        reserve(f->ctx, kernels_cpu.gemm_workspace(f->ctx, g.type, g.m, g.n, g.k));
        kernels_cpu.gemm(f->ctx, &g);
        check(got, want, size_c, f->isa, what);
    }
    free(a), free(b), free(bias), free(start), free(want - guard);
}

static void test_gemm(void) {
    static const int sizes[][3] = {{1, 1, 1},      {3, 5, 7},     {12, 32, 16},  {13, 33, 17},
                                   {64, 10, 96},   {100, 31, 40}, {17, 64, 530}, {200, 48, 20},
                                   {7, 130, 1030}, {97, 40, 700}, {96, 33, 515}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int variant = 0; variant < 32; variant += TAP_SANITIZED ? 5 : i % 2 ? 1 : 3) {
            one_gemm(sizes[i], variant, KERNEL_FLOAT);
            if (variant % 5 == 0)
                one_gemm(sizes[i], variant, KERNEL_BF16);
        }
}

// Whole tiles whose sums are C, from nothing, from a bias and from what was there.
static void test_gemm_plain(void) {
    static const int sizes[][3] = {{64, 96, 33}, {128, 64, 600}, {176, 80, 1040}};
    static const int ends[] = {0, BIAS_ALONE, ADDED, BIAS_ALONE | ADDED};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int end = 0; end < 4; end++)
            one_gemm(sizes[i], ends[end] | (int)((i + (size_t)end) % 4), KERNEL_BF16);
}

struct conv_data {
    size_t nx, nw, ny;
    float *x, *w, *y, *bias, *out_x, *out_w, *out_y; // y: the gradient that comes in
};

static struct conv_data new_conv(const struct conv2d_shape *s) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    struct conv_data d = {.nx = (size_t)s->n * s->h * s->w * s->c,
                          .nw = (size_t)s->o * s->kh * s->kw * s->c,
                          .ny = (size_t)s->n * oh * ow * s->o};
    d.x = new_random(d.nx), d.w = new_random(d.nw), d.y = new_random(d.ny);
    d.bias = new_random(s->o);
    d.out_x = new_random(d.nx), d.out_w = new_random(d.nw), d.out_y = new_random(d.ny);
    return d;
}

static void free_conv(struct conv_data *d) {
    free(d->x), free(d->w), free(d->y), free(d->bias);
    free(d->out_x), free(d->out_w), free(d->out_y);
}

// variant 1: bias, relu and accumulation.
static void conv_pass(const struct kernel_backend *k, struct kernel_ctx *ctx, int pass,
                      const struct conv2d_shape *s, const struct conv_data *d, int variant,
                      float *out) {
    if (pass == 0)
        k->conv2d_forward(ctx, s, d->x, d->w, variant ? d->bias : NULL, variant, out);
    else if (pass == 1)
        k->conv2d_backward_data(ctx, s, d->y, d->w, out, variant);
    else
        k->conv2d_backward_weight(ctx, s, d->x, d->y, out, variant);
}

static void one_conv(const struct conv2d_shape *s, int variant) {
    static const char *const passes[] = {"forward", "data gradient", "weight gradient"};
    struct conv_data d = new_conv(s);
    const size_t sizes[] = {d.ny, d.nx, d.nw};
    const float *const starts[] = {d.out_y, d.out_x, d.out_w};
    for (int pass = 0; pass < 3; pass++) {
        char what[160];
        snprintf(what, sizeof what, "conv %s %dx%dx%dx%d to %d, %dx%d stride %d pad %d%s%s",
                 passes[pass], s->n, s->h, s->w, s->c, s->o, s->kh, s->kw, s->stride, s->pad,
                 variant ? ", bias, relu, accumulate" : "", type_names[s->type]);
        float *want = new_output(sizes[pass], starts[pass]);
        conv_pass(&kernels_reference, plain, pass, s, &d, variant, want);
        for (const struct fast *f = fast; f < fast + fasts; f++) {
            float *got = new_output(sizes[pass], starts[pass]);
            reserve(f->ctx, kernels_cpu.conv2d_workspace(f->ctx, s));
            conv_pass(&kernels_cpu, f->ctx, pass, s, &d, variant, got);
            check(got, want, sizes[pass], f->isa, what);
        }
        free(want - guard);
    }
    free_conv(&d);
}

static struct conv2d_shape conv_shape(const int *z, enum kernel_type type) {
    return (struct conv2d_shape){z[0], z[1], z[2], z[3], z[4], z[5], z[6], z[7], z[8], type, 0, 0};
}

static void test_conv(void) {
    // n, h, w, c, o, kh, kw, stride, pad
    static const int shapes[][9] = {
        {3, 32, 32, 3, 16, 7, 7, 2, 3}, // the ImageNet stem
        {2, 8, 8, 3, 64, 3, 3, 1, 1},   // the CIFAR stem
        {2, 8, 8, 64, 64, 3, 3, 1, 1},
        {2, 8, 8, 64, 40, 3, 3, 2, 1},
        {3, 8, 8, 32, 33, 1, 1, 2, 0},
        {3, 4, 4, 48, 64, 3, 3, 1, 1},
        {13, 2, 2, 64, 70, 3, 3, 1, 1},
        {13, 2, 2, 64, 48, 3, 3, 2, 1},
        {30, 1, 1, 96, 64, 3, 3, 1, 1},
        {2, 1, 1, 700, 20, 3, 3, 1, 1},
        {2, 3, 3, 400, 20, 3, 3, 1, 1}, // longer than one pass
        {1, 5, 7, 1, 1, 3, 3, 1, 1},
        {2, 9, 6, 5, 7, 3, 5, 1, 2},
        {2, 9, 6, 9, 35, 5, 3, 2, 0},
        {1, 11, 10, 17, 19, 3, 3, 3, 1},
        {2, 6, 6, 12, 12, 1, 1, 1, 0},
        {2, 7, 7, 20, 24, 2, 2, 2, 0},
        {1, 9, 9, 10, 10, 2, 2, 3, 0}, // gaps: some inputs are never read
        {1, 4, 4, 9, 9, 1, 1, 1, 1},   // some outputs see nothing but padding
        {1, 12, 12, 16, 16, 3, 3, 4, 1},
        {5, 1, 1, 8, 300, 1, 1, 1, 0},
        {11, 8, 8, 40, 33, 3, 3, 1, 1}, // more pixels than one pass of a weight gradient
        {11, 8, 8, 3, 33, 3, 3, 1, 1},
        {40, 3, 4, 24, 40, 3, 3, 1, 1}, // rows of a tile are images: 32, 8
        {48, 6, 6, 70, 9, 3, 3, 2, 1},  // 32, 16
        {35, 8, 8, 300, 8, 3, 3, 1, 1}, // copied in two parts
        {2, 42, 42, 160, 8, 3, 3, 1, 1},
        {2, 9, 29, 40, 40, 3, 3, 1, 1}, // rows of a tile are parts of two lines
        {3, 26, 26, 40, 24, 3, 3, 2, 1},
        {2, 13, 13, 33, 34, 1, 1, 1, 0}, // or of a whole image
        {16, 2, 3, 130, 66, 3, 3, 1, 1},
        {2, 18, 17, 3, 8, 31, 31, 1, 15}, // longer than the tables of the row form
        {2, 40, 40, 3, 9, 17, 5, 3, 4},
        {2, 50, 41, 5, 7, 3, 3, 20, 1},
        {1, 64, 70, 2, 6, 32, 32, 32, 0},
        {3, 20, 20, 4, 5, 18, 18, 2, 20},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int variant = 0; variant < 3; variant++) {
            struct conv2d_shape s = conv_shape(shapes[i], variant >> 1);
            one_conv(&s, variant & 1);
        }
}

static int between(int low, int high) {
    return low + (int)((random_float() + 1) / 2 * (float)(high - low + 1));
}

// Random shapes: filters, strides and padding on both sides of every limit.
static void test_conv_random(void) {
    for (int i = 0; i < (TAP_SANITIZED ? 24 : 60); i++) {
        int big = i % 3 == 0;
        struct conv2d_shape s = {.n = between(1, 3), .c = between(1, 20), .o = between(1, 40)};
        s.kh = between(1, big ? 21 : 5), s.kw = between(1, big ? 21 : 5);
        s.stride = between(1, big ? 19 : 4), s.pad = between(0, big ? 12 : 3);
        s.h = between(s.kh > 2 * s.pad ? s.kh - 2 * s.pad : 1, 26);
        s.w = between(s.kw > 2 * s.pad ? s.kw - 2 * s.pad : 1, 26);
        s.type = i % 4 == 3;
        one_conv(&s, i & 1);
    }
}

// The last batch of an epoch is smaller than the one that the workspace was planned for.
static void test_workspace(const struct kernel_ctx *ctx, const char *isa) {
    enum { ROWS = 300 };
    static const int sides[][2] = {{1, 1}, {8, 600}, {600, 8}, {72, 1000}};
    static const int convs[][9] = {{0, 8, 8, 3, 64, 3, 3, 1, 1},    {0, 16, 16, 64, 32, 3, 3, 2, 1},
                                   {0, 32, 32, 3, 16, 7, 7, 2, 3},  {0, 32, 32, 3, 48, 4, 4, 4, 0},
                                   {0, 20, 20, 5, 8, 19, 19, 1, 9}, {0, 4, 4, 96, 96, 1, 1, 1, 0}};
    const struct kernel_backend *k = &kernels_cpu;
    bool grows = true;
    size_t before[3] = {0};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int m = 1; m <= ROWS; m++) {
            const int a = sides[i][0], b = sides[i][1];
            const size_t now[3] = {k->gemm_workspace(ctx, KERNEL_FLOAT, m, a, b),
                                   k->gemm_workspace(ctx, KERNEL_FLOAT, a, m, b),
                                   k->gemm_workspace(ctx, KERNEL_FLOAT, a, b, m)};
            for (int j = 0; j < 3; j++) {
                grows = grows && (m == 1 || now[j] >= before[j]);
                before[j] = now[j];
            }
        }
    ok(grows, "%s: the workspace of a product is enough for a smaller one", isa);
    grows = true;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        for (int type = KERNEL_FLOAT; type <= KERNEL_BF16; type++)
            for (int n = 1; n <= 40; n++) {
                struct conv2d_shape s = conv_shape(convs[i], type);
                s.n = n;
                size_t now = k->conv2d_workspace(ctx, &s);
                grows = grows && (n == 1 || now >= before[0]);
                before[0] = now;
            }
    ok(grows, "%s: the workspace of a convolution is enough for fewer images", isa);
    grows = true;
    for (int rows = 2; rows <= ROWS; rows++)
        grows =
            grows &&
            k->batchnorm_workspace(ctx, rows, 24) >= k->batchnorm_workspace(ctx, rows - 1, 24) &&
            k->bias_workspace(ctx, rows, 24) >= k->bias_workspace(ctx, rows - 1, 24) &&
            k->layernorm_workspace(ctx, rows, 24) >= k->layernorm_workspace(ctx, rows - 1, 24);
    ok(grows, "%s: the workspaces of norms and biases are enough for fewer rows", isa);
}

// The same bits from any number of threads.
static void test_threads(const char *isa, enum kernel_type type) {
    static const int several_passes[] = {13, 8, 8, 40, 72, 3, 3, 1, 1};
    struct conv2d_shape s = conv_shape(several_passes, type);
    static const int counts[] = {1, 2, 3, 7};
    struct conv_data d = new_conv(&s);
    float *y[4], *dx[4], *dw[4], *c[4], *ab = new_random(600 * 72); // few rows, and many
    float *start = new_random((size_t)2 * 50 * 600);
    for (int i = 0; i < 4; i++) {
        struct kernel_ctx *ctx = open_ctx(&kernels_cpu, isa, counts[i]);
        reserve(ctx, kernels_cpu.conv2d_workspace(ctx, &s));
        reserve(ctx, kernels_cpu.gemm_workspace(ctx, type, 50, 600, 72));
        y[i] = new_output(d.ny, d.out_y), dx[i] = new_output(d.nx, d.out_x);
        dw[i] = new_output(d.nw, d.out_w), c[i] = new_output(2 * 50 * 600, start);
        kernels_cpu.conv2d_forward(ctx, &s, d.x, d.w, NULL, 0, y[i]);
        kernels_cpu.conv2d_backward_data(ctx, &s, d.y, d.w, dx[i], 1);
        kernels_cpu.conv2d_backward_weight(ctx, &s, d.x, d.y, dw[i], 1);
        struct gemm_args g = {.type = type, .m = 50, .n = 600, .k = 72, .trans_a = 1};
        g.lda = 50, g.ldb = 72, g.trans_b = 1, g.c = c[i], g.ldc = 600, g.alpha = 1;
        g.a = g.b = ab;
        kernels_cpu.gemm(ctx, &g);
        g = (struct gemm_args){.type = type, .m = 600, .n = 50, .k = 72, .a = ab, .b = ab};
        g.lda = 72, g.ldb = g.ldc = 50, g.c = c[i] + 50 * 600, g.alpha = 1;
        reserve(ctx, kernels_cpu.gemm_workspace(ctx, type, 600, 50, 72));
        kernels_cpu.gemm(ctx, &g);
        kernels_cpu.close(ctx);
    }
    for (int i = 1; i < 4; i++)
        ok(same_bits(y[0], y[i], d.ny) && same_bits(dx[0], dx[i], d.nx) &&
               same_bits(dw[0], dw[i], d.nw) && same_bits(c[0], c[i], 2 * 50 * 600),
           "%s: %d threads give the bits of one%s", isa, counts[i], type_names[type]);
    for (int i = 0; i < 4; i++)
        free(y[i] - guard), free(dx[i] - guard), free(dw[i] - guard), free(c[i] - guard);
    free(ab), free(start);
    free_conv(&d);
}

// Ties go to even, NaN stays NaN and what is too large becomes infinite, as in the reference.
static void test_rounding(struct kernel_ctx *ctx, const char *isa) {
    float x[] = {1,     1.00390625F,   1.01171875F,   -1.00390625F,   1.0039064F, 0,
                 -0.0F, 3.3895314e38F, 3.4028235e38F, -3.4028235e38F, 1e-30F,     INFINITY,
                 NAN};
    enum { count = sizeof x / sizeof x[0] };
    float one = 1, got[count], want[count];
    struct gemm_args g = {.type = KERNEL_BF16, .m = count, .n = 1, .k = 1, .a = x, .b = &one};
    g.lda = g.ldb = g.ldc = 1, g.alpha = 1;
    g.c = want;
    kernels_reference.gemm(plain, &g);
    g.c = got;
    reserve(ctx, kernels_cpu.gemm_workspace(ctx, g.type, count, 1, 1));
    kernels_cpu.gemm(ctx, &g);
    bool same = isnan(got[count - 1]) && isnan(want[count - 1]);
    for (int i = 0; i < count - 1; i++)
        same = same && got[i] == want[i];
    ok(same, "%s: bfloat16 is rounded as the reference rounds", isa);
    ok(want[1] == 1 && want[2] == 1.015625F && want[4] == 1.0078125F && isinf(want[8]),
       "%s: bfloat16 is rounded to nearest, ties to even", isa);
}

static void note_cpu(void *arg, int worker, int workers) {
    (void)workers;
    CPU_ZERO(&((cpu_set_t *)arg)[worker]);
    sched_getaffinity(0, sizeof(cpu_set_t), &((cpu_set_t *)arg)[worker]);
}

// Each worker may run on its own processor and on no other; afterwards the caller is free again.
static void test_pinned(void) {
    cpu_set_t before, after, on[2];
    int cpus[2], count = 0;
    sched_getaffinity(0, sizeof before, &before);
    for (int c = 0; c < CPU_LIST_MAX && count < 2; c++)
        if (CPU_ISSET(c, &before))
            cpus[count++] = c;
    if (count < 2) {
        skip(2, "one processor");
        return;
    }
    struct kernel_ctx *ctx;
    is_int(kernels_cpu.open(&ctx, &(struct kernel_config){.threads = 2, .cpus = cpus}), 0,
           "pinned threads are opened");
    kernels_cpu.parallel(ctx, note_cpu, on);
    kernels_cpu.close(ctx);
    for (int i = 0; i < 2; i++)
        ok(CPU_COUNT(&on[i]) == 1 && CPU_ISSET(cpus[i], &on[i]), "worker %d has its processor", i);
    sched_getaffinity(0, sizeof after, &after);
    ok(CPU_EQUAL(&before, &after), "the caller has all its processors back");
}

static void open_isas(void) {
    for (int i = 0; i < ISAS; i++) {
        struct kernel_ctx *ctx = open_ctx(&kernels_cpu, isa_names[i], 2);
        if (!ctx) {
            skip(1, "this machine has no %s", isa_names[i]);
            continue;
        }
        is_str(kernels_cpu.isa(ctx), isa_names[i], "instruction set %d opens", i);
        fast[fasts++] = (struct fast){isa_names[i], ctx};
    }
}

int main(void) {
    struct kernel_ctx *bad;
    plain = open_ctx(&kernels_reference, NULL, 1);
    ok(kernels_find("cpu") == &kernels_cpu && kernels_find("reference") == &kernels_reference &&
           kernels_find("reference-f64") == &kernels_reference_f64 && !kernels_find("gpu"),
       "backends are found by name");
    is_int(kernels_cpu.open(&bad, &(struct kernel_config){.isa = "mmx"}), -22,
           "an unknown instruction set is refused");
    test_pinned();
    open_isas();
    test_gemm();
    test_gemm_plain();
    test_conv();
    test_conv_random();
    for (const struct fast *f = fast; f < fast + fasts; f++) {
        test_workspace(f->ctx, f->isa);
        test_rounding(f->ctx, f->isa);
        kernels_cpu.close(f->ctx);
        test_threads(f->isa, KERNEL_FLOAT);
        test_threads(f->isa, KERNEL_BF16);
    }
    kernels_reference.close(plain);
    return done_testing();
}
