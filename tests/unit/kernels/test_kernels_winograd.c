// SPDX-License-Identifier: Apache-2.0
// Convolutions in Winograd's form, wherever it exists, with every instruction set of this machine,
// against sums in double; which shapes take it; and that threads change no bit.
#include "kernels/cpu/winograd.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

enum { PASSES = 3, ISAS = 3, GUARD = 32 };
static const char *const isa_names[ISAS] = {"avx512", "avx2", "base"};
static const char *const pass_names[PASSES] = {"forward", "data gradient", "weight gradient"};
static struct kernel_ctx *exact;

// Values in [-1, 1) make products of a third on average. The three matrices of a tile let an error
// of rounding grow by 5.4 at most along each axis, in the mean square; 24 covers the roundings on
// the way and the largest of many outputs.
static double bound_of(const struct conv2d_shape *s, int pass) {
    double terms = pass == 0 ? s->c : pass == 1 ? s->o : (double)s->n * s->h * s->w / 9 + 1;
    return 24 * 5.4 * 5.4 / (1 << 24) * sqrt(terms) / 3;
}

struct tensors {
    size_t n[PASSES]; // of y, x and w, which the passes write
    float *y, *x, *w, *bias;
    double *exact[PASSES]; // what each pass has to give
};

static double *widened(size_t n, const float *x) {
    double *d = malloc(n * sizeof *d + 1);
    if (!d)
        bail_out("out of memory");
    for (size_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

// variant 1: bias, relu and accumulation onto what is there.
static void pass_of(const struct kernel_backend *k, struct kernel_ctx *ctx, int pass, int variant,
                    const struct conv2d_shape *s, const void *const in[4], void *out) {
    if (pass == 0)
        k->conv2d_forward(ctx, s, in[1], in[2], variant ? in[3] : NULL, variant, out);
    else if (pass == 1)
        k->conv2d_backward_data(ctx, s, in[0], in[2], out, variant);
    else
        k->conv2d_backward_weight(ctx, s, in[1], in[0], out, variant);
}

static struct tensors new_tensors(const struct conv2d_shape *s, int variant) {
    int oh = kernel_conv_out(s->h, 3, 1, s->pad), ow = kernel_conv_out(s->w, 3, 1, s->pad);
    struct tensors t = {.n = {(size_t)s->n * oh * ow * s->o, (size_t)s->n * s->h * s->w * s->c,
                              (size_t)9 * s->o * s->c}};
    t.y = new_random(t.n[0]), t.x = new_random(t.n[1]), t.w = new_random(t.n[2]);
    t.bias = new_random((size_t)s->o);
    double *y = widened(t.n[0], t.y), *x = widened(t.n[1], t.x), *w = widened(t.n[2], t.w);
    double *bias = widened((size_t)s->o, t.bias);
    const float *const starts[PASSES] = {t.y, t.x, t.w};
    for (int pass = 0; pass < PASSES; pass++) {
        t.exact[pass] = widened(t.n[pass], starts[pass]);
        pass_of(&kernels_reference_f64, exact, pass, variant, s, (const void *[]){y, x, w, bias},
                t.exact[pass]);
    }
    free(y), free(x), free(w), free(bias);
    return t;
}

static void free_tensors(struct tensors *t) {
    free(t->y), free(t->x), free(t->w), free(t->bias);
    for (int pass = 0; pass < PASSES; pass++)
        free(t->exact[pass]);
}

// The result between guards; free() it from GUARD floats before.
static float *result_of(struct kernel_ctx *ctx, const struct conv2d_shape *s,
                        const struct tensors *t, int pass, int variant) {
    const float *const starts[PASSES] = {t->y, t->x, t->w};
    float *out = new_random(t->n[pass] + (size_t)2 * GUARD);
    for (int i = 0; i < GUARD; i++)
        out[i] = out[t->n[pass] + GUARD + i] = 7;
    memcpy(out + GUARD, starts[pass], t->n[pass] * sizeof *out);
    if (kernels_cpu.reserve(ctx, kernels_cpu.conv2d_workspace(ctx, s)) != 0)
        bail_out("out of memory");
    pass_of(&kernels_cpu, ctx, pass, variant, s, (const void *[]){t->y, t->x, t->w, t->bias},
            out + GUARD);
    return out + GUARD;
}

static double worst_difference(size_t n, const float *got, const double *want) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        worst = d <= worst ? worst : d; // a NaN counts
    }
    return worst;
}

static bool guards_whole(const float *out, size_t n) {
    for (int i = 1; i <= GUARD; i++)
        if (out[-i] != 7 || out[n + (size_t)i - 1] != 7)
            return false;
    return true;
}

static struct kernel_ctx *open_ctx(const char *isa, int threads, enum kernel_winograd winograd) {
    struct kernel_ctx *ctx;
    struct kernel_config cfg = {.threads = threads, .isa = isa, .winograd = winograd};
    int rc = kernels_cpu.open(&ctx, &cfg);
    if (rc == -95) // ENOTSUP
        return NULL;
    if (rc != 0)
        bail_out("cannot open the cpu backend: %d", rc);
    return ctx;
}

static void one_shape(struct kernel_ctx *const ctx[ISAS], const struct conv2d_shape *s,
                      int variant) {
    struct tensors t = new_tensors(s, variant);
    for (int i = 0; i < ISAS; i++)
        for (int pass = 0; ctx[i] && pass < PASSES; pass++) {
            float *got = result_of(ctx[i], s, &t, pass, variant);
            double bound = bound_of(s, pass), d = worst_difference(t.n[pass], got, t.exact[pass]);
            bool whole = guards_whole(got, t.n[pass]);
            if (!ok(d < bound && whole, "%s: %s %dx%dx%dx%d to %d pad %d%s: %.1e of %.1e",
                    isa_names[i], pass_names[pass], s->n, s->h, s->w, s->c, s->o, s->pad,
                    variant ? ", bias, relu, accumulate" : "", d, bound))
                diag("guards are %s", whole ? "whole" : "broken");
            free(got - GUARD);
        }
    free_tensors(&t);
}

static struct conv2d_shape shape_of(int n, int h, int w, int c, int o, int pad) {
    return (struct conv2d_shape){n, h, w, c, o, 3, 3, 1, pad, KERNEL_FLOAT, 0, 0};
}

static void test_shapes(struct kernel_ctx *const ctx[ISAS]) {
    // n, h, w, c, o, pad
    static const int shapes[][6] = {
        {1, 1, 1, 1, 1, 1},     {2, 2, 1, 3, 5, 1},    {3, 3, 3, 16, 33, 1},  {1, 4, 4, 7, 1, 1},
        {2, 5, 6, 17, 16, 1},   {1, 7, 7, 40, 24, 1},  {2, 8, 9, 31, 65, 1},  {1, 10, 11, 4, 4, 2},
        {1, 13, 12, 20, 12, 0}, {1, 3, 3, 9, 10, 0},   {1, 1, 1, 5, 6, 2},    {1, 6, 14, 64, 64, 1},
        {9, 15, 15, 24, 40, 1}, {5, 15, 15, 8, 96, 1}, {70, 4, 4, 12, 70, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int variant = 0; variant < 2; variant++) {
            const int *z = shapes[i];
            struct conv2d_shape s = shape_of(z[0], z[1], z[2], z[3], z[4], z[5]);
            one_shape(ctx, &s, variant);
        }
    for (int side = 1; side <= (TAP_SANITIZED ? 6 : 13); side++) {
        struct conv2d_shape s = shape_of(2, side, 14 - side, 2 + side, 15 - side, 1);
        one_shape(ctx, &s, side & 1);
    }
}

// Workers share tiles, and panels where tiles are few.
static void test_threads(const char *isa) {
    static const int counts[] = {1, 2, 3, 6, 8};
    static const int shapes[][6] = {{9, 15, 15, 24, 40, 1}, {2, 7, 7, 33, 130, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int *z = shapes[i];
        struct conv2d_shape s = shape_of(z[0], z[1], z[2], z[3], z[4], z[5]);
        struct tensors t = new_tensors(&s, 1);
        float *first[PASSES] = {NULL};
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            struct kernel_ctx *ctx = open_ctx(isa, counts[k], KERNEL_WINOGRAD_ALWAYS);
            bool same = true;
            for (int pass = 0; pass < PASSES; pass++) {
                float *got = result_of(ctx, &s, &t, pass, 1);
                if (k == 0) {
                    first[pass] = got;
                    continue;
                }
                same = same && memcmp(got, first[pass], t.n[pass] * sizeof *got) == 0;
                free(got - GUARD);
            }
            ok(same, "%s: %d threads give the bits of one", isa, counts[k]);
            kernels_cpu.close(ctx);
        }
        for (int pass = 0; pass < PASSES; pass++)
            free(first[pass] - GUARD);
        free_tensors(&t);
    }
}

static void test_rule(void) {
    static const struct {
        struct conv2d_shape s;
        int forward, weight;
        const char *what;
    } rows[] = {
        {{256, 31, 31, 24, 64, 3, 3, 1, 1, 0, 0, 0}, 1, 1, "airbench's first convolution"},
        {{256, 7, 7, 256, 256, 3, 3, 1, 1, 0, 0, 0}, 1, 1, "airbench's widest"},
        {{256, 3, 3, 256, 256, 3, 3, 1, 1, 0, 0, 0}, 1, 1, "airbench's last"},
        {{64, 32, 32, 64, 64, 3, 3, 1, 1, 0, 0, 0}, 1, 1, "a ResNet's first block"},
        {{64, 4, 4, 512, 512, 3, 3, 1, 1, 0, 0, 0}, 1, 1, "a ResNet's last block"},
        {{1, 7, 7, 512, 512, 3, 3, 1, 1, 0, 0, 0}, 0, 0, "few tiles for many filters"},
        {{1, 8, 8, 256, 256, 3, 3, 1, 1, 0, 0, 0}, 1, 0, "a filter's gradient costs more"},
        {{64, 2, 2, 256, 256, 3, 3, 1, 1, 0, 0, 0}, 0, 0, "mostly padding"},
        {{64, 1, 1, 512, 512, 3, 3, 1, 1, 0, 0, 0}, 0, 0, "nothing but padding around a pixel"},
        {{64, 32, 32, 3, 64, 3, 3, 1, 1, 0, 0, 0}, 0, 0, "three channels"},
        {{64, 32, 32, 64, 64, 3, 3, 2, 1, 0, 0, 0}, 0, 0, "stride 2"},
        {{64, 32, 32, 64, 64, 5, 3, 1, 1, 0, 0, 0}, 0, 0, "filters of 5x3"},
        {{64, 32, 32, 64, 64, 3, 3, 1, 3, 0, 0, 0}, 0, 0, "padding 3"},
        {{64, 32, 32, 64, 64, 3, 3, 1, 1, KERNEL_BF16, 0, 0}, 0, 0, "bfloat16"},
    };
    struct kernel_ctx *one = open_ctx("base", 1, KERNEL_WINOGRAD_AUTO);
    struct kernel_ctx *many = open_ctx("base", 3, KERNEL_WINOGRAD_AUTO);
    struct kernel_ctx *never = open_ctx("base", 1, KERNEL_WINOGRAD_NEVER);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct conv2d_shape *s = &rows[i].s;
        int forward = winograd_forward_wins(one, s), data = winograd_data_wins(one, s);
        int weight = winograd_weight_wins(one, s);
        ok(forward == rows[i].forward && data == forward && weight == rows[i].weight, "%s: %s",
           rows[i].what, rows[i].forward ? "by points" : "directly");
        ok(winograd_forward_wins(many, s) == forward && winograd_weight_wins(many, s) == weight &&
               !winograd_forward_wins(never, s) && !winograd_weight_wins(never, s),
           "%s: threads do not matter, and the form can be ruled out", rows[i].what);
    }
    int turned = 0;
    size_t before = 0;
    for (int n = 1; n <= 64; n++) {
        struct conv2d_shape s = shape_of(n, 7, 7, 384, 384, 1);
        size_t now = kernels_cpu.conv2d_workspace(one, &s);
        turned += now < before || (before > 0 && now > 2 * before);
        before = now;
    }
    is_int(turned, 1, "the workspace of many images is enough for few, where the form changes");
    kernels_cpu.close(one), kernels_cpu.close(many), kernels_cpu.close(never);
}

int main(void) {
    struct kernel_ctx *ctx[ISAS];
    if (kernels_reference_f64.open(&exact, &(struct kernel_config){0}) != 0)
        bail_out("cannot open the reference");
    for (int i = 0; i < ISAS; i++) {
        ctx[i] = open_ctx(isa_names[i], 2, KERNEL_WINOGRAD_ALWAYS);
        if (!ctx[i])
            skip(1, "this machine has no %s", isa_names[i]);
    }
    test_shapes(ctx);
    test_rule();
    for (int i = 0; i < ISAS; i++) {
        kernels_cpu.close(ctx[i]);
        if (ctx[i])
            test_threads(isa_names[i]);
    }
    kernels_reference_f64.close(exact);
    return done_testing();
}
