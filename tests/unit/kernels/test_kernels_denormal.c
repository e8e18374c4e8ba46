// SPDX-License-Identifier: Apache-2.0
// Denormal numbers: the CPU backend takes them for zero in each of its threads while it is open,
// and an optimizer whose moments decay through them moves its parameters as IEEE arithmetic does.
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

enum { N = 70000, PARAMETERS = 1000, STEPS = 1100 };

static float small(void) { // 1e-40, not known when this is compiled
    static volatile float tiny = 1e-20F;
    return tiny * tiny;
}

static struct kernel_ctx *open_ctx(const struct kernel_backend *b, const char *isa, int threads) {
    struct kernel_ctx *ctx;
    int rc = b->open(&ctx, &(struct kernel_config){.threads = threads, .isa = isa});
    return rc == 0 ? ctx : NULL;
}

static void flushes(const char *isa, int threads) {
    static float x[N], y[N];
    float tiny = small();
    size_t left = 0;
    struct kernel_ctx *ctx = open_ctx(&kernels_cpu, isa, threads);
    if (!ctx) {
        skip(1, "this machine has no %s", isa);
        return;
    }
    for (size_t i = 0; i < N; i++)
        memcpy(&x[i], &tiny, sizeof tiny), y[i] = 0;
    kernels_cpu.axpy(ctx, N, 1, x, y);
    kernels_cpu.close(ctx);
    for (size_t i = 0; i < N; i++)
        left += y[i] != 0;
    is_int((long)left, 0, "%s, threads %d: a denormal number counts as zero", isa, threads);
}

// Gradients of one step, then none: both moments decay to zero. p gets the parameters.
static void decay(const struct kernel_backend *b, int kind, float *p) {
    static float g[PARAMETERS], m[PARAMETERS], v[PARAMETERS];
    struct optim_range all = {0, PARAMETERS, 0, 1};
    struct kernel_ctx *ctx = open_ctx(b, NULL, 1);
    if (!ctx)
        bail_out("no backend");
    const int middle = PARAMETERS / 2;
    for (int i = 0; i < PARAMETERS; i++) {
        p[i] = 0.5F;
        g[i] = (float)(i - middle) * 1e-4F;
        m[i] = v[i] = 0;
    }
    for (int64_t step = 1; step <= STEPS; step++) {
        struct adam_args adam = {&all, 1, p, g, m, v, 1e-3, 0.9, 0.9, 1e-8, 1, step, 0, NULL};
        struct sgd_args sgd = {&all, 1, p, g, m, 1e-3, 0.9, 1, 0, NULL};
        if (kind == 0)
            b->adam(ctx, &adam);
        else
            b->sgd(ctx, &sgd);
        memset(g, 0, sizeof g);
    }
    b->close(ctx);
}

static void decays(int kind, const char *name) {
    static float got[PARAMETERS], want[PARAMETERS];
    double worst = 0;
    decay(&kernels_reference, kind, want);
    decay(&kernels_cpu, kind, got);
    for (int i = 0; i < PARAMETERS; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        worst = d <= worst ? worst : d;
    }
    if (!ok(worst < 1e-6, "%s: parameters are those of IEEE arithmetic", name))
        diag("worst difference %.3g", worst);
}

int main(void) {
    static const char *const isas[] = {"avx512-amx", "avx512-bf16", "avx512", "avx2", "base"};
    ok(small() > 0, "the caller's arithmetic has denormal numbers");
    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 3; threads += 2)
            flushes(isas[i], threads);
    ok(small() > 0, "the caller has denormal numbers again after close");
    struct kernel_ctx *plain = open_ctx(&kernels_reference, NULL, 1);
    ok(small() > 0, "the reference backend keeps them");
    kernels_reference.close(plain);
    decays(0, "Adam");
    decays(1, "momentum");
    return done_testing();
}
