// SPDX-License-Identifier: Apache-2.0
// How near the CPU kernels come to the machine. Every line is one op and shape, timed next to its
// floor in the same run: a loop of fused multiply-adds for products, a copy of memory for the rest.
//
//   bench_kernels [--threads N] [--isa NAME] [--type float|bf16] [--only TEXT]
//       [--format json|table] [--winograd auto|never]
//
// One thread is timed by the processor time it took, which work beside it hardly moves; several are
// timed by the clock. JSON lines: ms (median), ms_best, gflops (done, without products with
// padding), peak_gflops, ratio; or gbytes per second against copy_gbytes. The last line adds up one
// ResNet-18 training step.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/machine_peak.h"
#include "benchmarks/median.h"
#include "kernels/kernels.h"

enum { peak_rounds = 400000, runs_max = 200, runs_min = 5 };
static const double seconds_per_op = 0.15;

static const struct kernel_backend *const k = &kernels_cpu;
static struct kernel_ctx *ctx;
static const char *only = "";
static int threads = 2, table; // table: Markdown rows of the best runs instead of JSON
static enum kernel_type type;  // of products
static double step_ms, step_best_ms;
static double best_seconds; // of the op timed last: what it takes when nothing disturbs

static double now(void) {
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile float sink;

static void spin_worker(void *arg, int worker, int workers) {
    const struct peak_loop *loop = arg;
    (void)worker, (void)workers;
    sink = loop->spin(peak_rounds);
}

static double peak_gflops(enum kernel_type of) {
    const struct peak *p = peak_of(k->isa(ctx));
    struct peak_loop loop = of == KERNEL_BF16 ? p->of_bf16 : p->of_float;
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double start = now();
        k->parallel(ctx, spin_worker, &loop);
        double gflops = threads * loop.operations * peak_rounds / (now() - start) * 1e-9;
        best = gflops > best ? gflops : best;
    }
    return best;
}

struct job {
    void (*run)(void *arg);
    void *arg;
};

static double median_seconds(struct job job) {
    double took[runs_max], start = now();
    int n = 0;
    job.run(job.arg);
    while (n < runs_min || (n < runs_max && now() - start < seconds_per_op)) {
        double t = now();
        job.run(job.arg);
        took[n++] = now() - t;
    }
    double s = median(took, n);
    best_seconds = took[0]; // they are sorted now
    return s;
}

static void *new_real(size_t n) {
    float *p = k->mem_alloc(ctx, n * sizeof *p);
    if (!p) {
        fprintf(stderr, "bench_kernels: out of memory (%zu floats)\n", n);
        exit(1);
    }
    for (size_t i = 0; i < n; i++)
        p[i] = (float)((i * 2654435761U >> 8) & 0xffff) / 65536.0F - 0.5F;
    return p;
}

static void reserve(size_t bytes) {
    if (k->reserve(ctx, bytes) != 0) {
        fprintf(stderr, "bench_kernels: out of memory (workspace of %zu bytes)\n", bytes);
        exit(1);
    }
}

static void line_flops(const char *op, const char *shape, double seconds, double flops, int times) {
    double peak = peak_gflops(type);
    double rate = flops / seconds * 1e-9;
    step_ms += seconds * 1e3 * times;
    step_best_ms += best_seconds * 1e3 * times;
    if (table) {
        double best = flops / best_seconds * 1e-9;
        printf("| `%s` | %s | %.0f GF/s | %.2f |\n", op, shape, best, best / peak);
        fflush(stdout);
        return;
    }
    printf("{\"bench\":\"kernels\",\"op\":\"%s\",\"shape\":\"%s\",\"threads\":%d,\"isa\":\"%s\","
           "\"ms\":%.4f,\"ms_best\":%.4f,\"gflops\":%.1f,\"peak_gflops\":%.1f,\"ratio\":%.3f,\"per_"
           "step\":%d}\n",
           op, shape, threads, k->isa(ctx), seconds * 1e3, best_seconds * 1e3, rate, peak,
           rate / peak, times);
    fflush(stdout);
}

static int wanted(const char *op, const char *shape) {
    return strstr(op, only) || strstr(shape, only);
}

static void run_gemm(void *arg) {
    k->gemm(ctx, arg);
}

static void bench_gemm(int m, int n, int kk, int trans_a, int trans_b) {
    struct gemm_args g = {.type = type, .m = m, .n = n, .k = kk};
    g.trans_a = trans_a, g.trans_b = trans_b;
    char shape[64];
    snprintf(shape, sizeof shape, "%dx%dx%d %c%c", m, n, kk, trans_a ? 't' : 'n',
             trans_b ? 't' : 'n');
    if (!wanted("gemm", shape))
        return;
    g.alpha = 1, g.lda = trans_a ? m : kk, g.ldb = trans_b ? kk : n, g.ldc = n;
    size_t na = (size_t)m * kk, nb = (size_t)kk * n, nc = (size_t)m * n;
    void *a = new_real(na), *b = new_real(nb), *c = new_real(nc);
    g.a = a, g.b = b, g.c = c;
    reserve(k->gemm_workspace(ctx, type, m, n, kk));
    double s = median_seconds((struct job){run_gemm, &g});
    line_flops("gemm", shape, s, 2.0 * m * n * kk, 0);
    k->mem_free(ctx, a, na * sizeof(float)), k->mem_free(ctx, b, nb * sizeof(float));
    k->mem_free(ctx, c, nc * sizeof(float));
}

struct conv_bench {
    struct conv2d_shape s;
    void *x, *w, *y;
};

static void run_conv_forward(void *arg) {
    struct conv_bench *b = arg;
    k->conv2d_forward(ctx, &b->s, b->x, b->w, NULL, 0, b->y);
}

static void run_conv_data(void *arg) {
    struct conv_bench *b = arg;
    k->conv2d_backward_data(ctx, &b->s, b->y, b->w, b->x, 0);
}

static void run_conv_weight(void *arg) {
    struct conv_bench *b = arg;
    k->conv2d_backward_weight(ctx, &b->s, b->x, b->y, b->w, 0);
}

// How many pairs of output position and tap along one axis see the input.
static double seen(int in, int out, int taps, int stride, int pad) {
    double n = 0;
    for (int o = 0; o < out; o++)
        for (int t = 0; t < taps; t++)
            n += o * stride - pad + t >= 0 && o * stride - pad + t < in;
    return n;
}

// Square images and filters.
static struct conv2d_shape square(int n, int h, int c, int o, int kernel, int stride, int pad) {
    return (struct conv2d_shape){n, h, h, c, o, kernel, kernel, stride, pad, type, 0, 0};
}

static void bench_conv(struct conv2d_shape s, int times) {
    int oh = kernel_conv_out(s.h, s.kh, s.stride, s.pad);
    int ow = kernel_conv_out(s.w, s.kw, s.stride, s.pad);
    double flops = 2.0 * s.n * s.c * s.o * seen(s.h, oh, s.kh, s.stride, s.pad) *
                   seen(s.w, ow, s.kw, s.stride, s.pad);
    char shape[96];
    snprintf(shape, sizeof shape, "%dx%dx%dx%d-%d k%d s%d", s.n, s.h, s.w, s.c, s.o, s.kh,
             s.stride);
    if (!wanted("conv", shape))
        return;
    size_t nx = (size_t)s.n * s.h * s.w * s.c, nw = (size_t)s.o * s.kh * s.kw * s.c;
    size_t ny = (size_t)s.n * oh * ow * s.o;
    struct conv_bench b = {s, new_real(nx), new_real(nw), new_real(ny)};
    reserve(k->conv2d_workspace(ctx, &s));
    line_flops("conv_forward", shape, median_seconds((struct job){run_conv_forward, &b}), flops,
               times);
    if (s.c > 3)
        line_flops("conv_backward_data", shape, median_seconds((struct job){run_conv_data, &b}),
                   flops, times);
    line_flops("conv_backward_weight", shape, median_seconds((struct job){run_conv_weight, &b}),
               flops, times);
    k->mem_free(ctx, b.x, nx * sizeof(float)), k->mem_free(ctx, b.w, nw * sizeof(float));
    k->mem_free(ctx, b.y, ny * sizeof(float));
}

struct flat_bench {
    size_t n;
    int64_t rows;
    int channels;
    float *a, *b, *c, *d, *vec[6];
    uint8_t *index;
    struct pool2d_shape pool;
};

static void run_copy(void *arg) {
    struct flat_bench *f = arg;
    k->scale(ctx, f->n, 1.0, f->a);
}

static void run_adam(void *arg) {
    struct flat_bench *f = arg;
    struct optim_range all = {0, f->n, 0, 1};
    struct adam_args a = {.ranges = &all, .nranges = 1, .p = f->a, .g = f->b, .m = f->c, .v = f->d};
    a.lr = 1e-3, a.beta1 = 0.9, a.beta2 = 0.999, a.eps = 1e-8, a.grad_scale = 1, a.step = 7;
    k->adam(ctx, &a);
}

static void run_bn_forward(void *arg) {
    struct flat_bench *f = arg;
    struct batchnorm_args a = {.rows = f->rows, .channels = f->channels, .eps = 1e-5};
    a.momentum = 0.1, a.x = f->a, a.y = f->b, a.gamma = f->vec[0], a.beta = f->vec[1];
    a.running_mean = f->vec[2], a.running_var = f->vec[3], a.save_mean = f->vec[4];
    a.save_invstd = f->vec[5], a.relu = 1;
    k->batchnorm_forward_train(ctx, &a);
}

static void run_bn_backward(void *arg) {
    struct flat_bench *f = arg;
    struct batchnorm_grad_args a = {.rows = f->rows, .channels = f->channels, .relu = 1};
    a.x = f->a, a.y = f->b, a.dy = f->c, a.dx = f->d, a.gamma = f->vec[0];
    a.save_mean = f->vec[4], a.save_invstd = f->vec[5], a.dgamma = f->vec[2], a.dbeta = f->vec[3];
    k->batchnorm_backward(ctx, &a);
}

static void run_pool_forward(void *arg) {
    struct flat_bench *f = arg;
    k->maxpool_forward(ctx, &f->pool, f->a, f->b, f->index);
}

static void run_pool_backward(void *arg) {
    struct flat_bench *f = arg;
    k->maxpool_backward(ctx, &f->pool, f->b, f->index, f->c);
}

static double copy_gbytes; // read and written in place, a buffer larger than the caches

static void line_bytes(const char *op, const char *shape, double seconds, double bytes, int times) {
    double rate = bytes / seconds * 1e-9;
    step_ms += seconds * 1e3 * times;
    step_best_ms += best_seconds * 1e3 * times;
    if (table) {
        double best = bytes / best_seconds * 1e-9;
        printf("| `%s` | %s | %.1f GB/s | %.2f |\n", op, shape, best, best / copy_gbytes);
        fflush(stdout);
        return;
    }
    printf("{\"bench\":\"kernels\",\"op\":\"%s\",\"shape\":\"%s\",\"threads\":%d,\"isa\":\"%s\","
           "\"ms\":%.4f,\"ms_best\":%.4f,\"gbytes\":%.1f,\"copy_gbytes\":%.1f,\"ratio\":%.3f,\"per_"
           "step\":%d}\n",
           op, shape, threads, k->isa(ctx), seconds * 1e3, best_seconds * 1e3, rate, copy_gbytes,
           rate / copy_gbytes, times);
    fflush(stdout);
}

static struct flat_bench new_flat(size_t n, int channels) {
    struct flat_bench f = {.n = n, .channels = channels};
    f.rows = (int64_t)(n / (size_t)channels);
    f.a = new_real(n), f.b = new_real(n), f.c = new_real(n), f.d = new_real(n);
    for (int i = 0; i < 6; i++)
        f.vec[i] = new_real((size_t)channels);
    for (size_t i = 0; i < n; i++) // variances are not negative
        f.d[i] *= f.d[i];
    f.index = calloc(n, 1);
    return f;
}

static void free_flat(struct flat_bench *f) {
    size_t bytes = f->n * sizeof(float);
    k->mem_free(ctx, f->a, bytes), k->mem_free(ctx, f->b, bytes);
    k->mem_free(ctx, f->c, bytes), k->mem_free(ctx, f->d, bytes);
    for (int i = 0; i < 6; i++)
        k->mem_free(ctx, f->vec[i], (size_t)f->channels * sizeof(float));
    free(f->index);
}

static void bench_batchnorm(int64_t rows, int channels, int times) {
    char shape[64];
    snprintf(shape, sizeof shape, "%ldx%d", (long)rows, channels);
    if (!wanted("batchnorm", shape))
        return;
    struct flat_bench f = new_flat((size_t)(rows * channels), channels);
    double bytes = (double)f.n * sizeof(float);
    reserve(k->batchnorm_workspace(ctx, rows, channels));
    line_bytes("batchnorm_forward", shape, median_seconds((struct job){run_bn_forward, &f}),
               3 * bytes, times);
    line_bytes("batchnorm_backward", shape, median_seconds((struct job){run_bn_backward, &f}),
               7 * bytes, times);
    free_flat(&f);
}

struct token_bench {
    struct attention_shape s;
    struct layernorm_args norm;
    struct layernorm_grad_args norm_grad;
    size_t n;
    float *a, *b, *c, *d, *lse;
};

static void run_ln_forward(void *arg) {
    k->layernorm_forward(ctx, &((struct token_bench *)arg)->norm);
}

static void run_ln_backward(void *arg) {
    k->layernorm_backward(ctx, &((struct token_bench *)arg)->norm_grad);
}

static void run_gelu_forward(void *arg) {
    struct token_bench *t = arg;
    k->gelu_forward(ctx, t->n, t->a, t->b);
}

static void run_gelu_backward(void *arg) {
    struct token_bench *t = arg;
    k->gelu_backward(ctx, t->n, t->a, t->b, t->c);
}

static void run_attention_forward(void *arg) {
    struct token_bench *t = arg;
    k->attention_forward(ctx, &t->s, t->a, t->b, t->lse);
}

static void run_attention_backward(void *arg) {
    struct token_bench *t = arg;
    k->attention_backward(ctx, &t->s, t->a, t->b, t->lse, t->c, t->d);
}

// The layers between the products of a vision transformer: n images, t tokens of heads * d.
static void bench_tokens(int n, int t, int heads, int d) {
    int width = heads * d;
    size_t rows = (size_t)n * (size_t)t, one = rows * (size_t)width;
    char shape[64];
    snprintf(shape, sizeof shape, "%dx%d %dx%d", n, t, heads, d);
    if (!wanted("layernorm gelu attention", shape))
        return;
    struct token_bench b = {{n, t, heads, d, 0, type, 0}, .n = 4 * one, .a = new_real(4 * one)};
    b.b = new_real(4 * one), b.c = new_real(4 * one), b.d = new_real(4 * one);
    b.lse = new_real(2 * rows * (size_t)heads + 2 * (size_t)width);
    b.norm = (struct layernorm_args){.rows = (int64_t)rows, .cols = width, .eps = 1e-6};
    b.norm.x = b.a, b.norm.y = b.b, b.norm.gamma = b.norm.beta = b.c;
    b.norm.save_mean = b.lse, b.norm.save_invstd = b.lse + rows;
    b.norm_grad = (struct layernorm_grad_args){.rows = (int64_t)rows, .cols = width};
    b.norm_grad.x = b.a, b.norm_grad.dy = b.b, b.norm_grad.gamma = b.c, b.norm_grad.dx = b.d;
    b.norm_grad.save_mean = b.lse, b.norm_grad.save_invstd = b.lse + rows;
    b.norm_grad.dgamma = b.norm_grad.dbeta = b.c;
    reserve(k->layernorm_workspace(ctx, (int64_t)rows, width));
    reserve(k->attention_workspace(ctx, &b.s));
    double bytes = (double)one * sizeof(float), pairs = (double)rows * t * width;
    line_bytes("layernorm_forward", shape, median_seconds((struct job){run_ln_forward, &b}),
               2 * bytes, 0);
    line_bytes("layernorm_backward", shape, median_seconds((struct job){run_ln_backward, &b}),
               3 * bytes, 0);
    line_bytes("gelu_forward", shape, median_seconds((struct job){run_gelu_forward, &b}), 8 * bytes,
               0);
    line_bytes("gelu_backward", shape, median_seconds((struct job){run_gelu_backward, &b}),
               12 * bytes, 0);
    line_flops("attention_forward", shape, median_seconds((struct job){run_attention_forward, &b}),
               4 * pairs, 0);
    line_flops("attention_backward", shape,
               median_seconds((struct job){run_attention_backward, &b}), 10 * pairs, 0);
    k->mem_free(ctx, b.a, 4 * one * sizeof(float)), k->mem_free(ctx, b.b, 4 * one * sizeof(float));
    k->mem_free(ctx, b.c, 4 * one * sizeof(float)), k->mem_free(ctx, b.d, 4 * one * sizeof(float));
    k->mem_free(ctx, b.lse, (2 * rows * (size_t)heads + 2 * (size_t)width) * sizeof(float));
}

// One training step of ResNet-18 with the ImageNet stem on 32x32 images, batch 64, with Adam.
static void bench_step(int n) {
    bench_conv(square(n, 32, 3, 64, 7, 2, 3), 1);
    bench_conv(square(n, 8, 64, 64, 3, 1, 1), 4);
    bench_batchnorm((int64_t)n * 256, 64, 1);
    bench_batchnorm((int64_t)n * 64, 64, 4);
    for (int c = 64, h = 8; c < 512; c *= 2, h /= 2) {
        bench_conv(square(n, h, c, 2 * c, 3, 2, 1), 1);
        bench_conv(square(n, h, c, 2 * c, 1, 2, 0), 1);
        bench_conv(square(n, h / 2, 2 * c, 2 * c, 3, 1, 1), 3);
        bench_batchnorm((int64_t)n * h * h / 4, 2 * c, 5);
    }
    if (wanted("maxpool", "")) {
        struct flat_bench f = new_flat((size_t)n * 16 * 16 * 64, 64);
        f.pool = (struct pool2d_shape){n, 16, 16, 64, 3, 2, 1, 0};
        double bytes = (double)f.n * sizeof(float);
        line_bytes("maxpool_forward", "16x16x64",
                   median_seconds((struct job){run_pool_forward, &f}), bytes * 1.3125, 1);
        line_bytes("maxpool_backward", "16x16x64",
                   median_seconds((struct job){run_pool_backward, &f}), bytes * 1.3125, 1);
        free_flat(&f);
    }
    if (wanted("adam", "")) {
        struct flat_bench f = new_flat(11181642, 1);
        line_bytes("adam", "11181642", median_seconds((struct job){run_adam, &f}),
                   7.0 * (double)f.n * sizeof(float), 1);
        free_flat(&f);
    }
    if (only[0] != '\0' || table)
        return; // a part is no step, and a sum is no share
    printf(
        "{\"bench\":\"kernels\",\"op\":\"sum of a step\",\"shape\":\"resnet18 imagenet stem 32x32 "
        "batch "
        "%d\",\"threads\":%d,\"isa\":\"%s\",\"ms\":%.2f,\"ms_best\":%.2f,\"images_per_s\":%.0f}\n",
        n, threads, k->isa(ctx), step_ms, step_best_ms, n / step_ms * 1e3);
}

static void bench_other(void) {
    for (int trans = 0; trans < 3; trans++)
        bench_gemm(1024, 1024, 1024, trans == 2, trans == 1);
    bench_gemm(2048, 2048, 2048, 0, 0);
    bench_gemm(64, 4096, 1024, 0, 1);
    bench_gemm(64, 10, 512, 0, 1);
    static const int shapes[][4] = {{64, 32, 3, 64},   {64, 32, 64, 64},   {64, 16, 128, 128},
                                    {64, 8, 256, 256}, {64, 4, 512, 512},  {8, 56, 64, 64},
                                    {8, 7, 512, 512},  {256, 31, 24, 64},  {256, 15, 64, 256},
                                    {256, 15, 64, 64}, {256, 7, 256, 256}, {256, 3, 256, 256}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        bench_conv(square(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], 3, 1, 1), 0);
    bench_conv(square(8, 28, 512, 128, 1, 1, 0), 0);
    bench_conv(square(8, 224, 3, 192, 16, 16, 0), 0); // patches
    bench_tokens(8, 197, 3, 64);                      // ViT-Ti/16
    bench_tokens(64, 65, 3, 64);                      // ViT-Ti/4, CIFAR
}

int main(int argc, char **argv) {
    struct kernel_config cfg = {0};
    int cpus[64];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            threads = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--isa") == 0)
            cfg.isa = argv[i + 1];
        else if (strcmp(argv[i], "--type") == 0)
            type = strcmp(argv[i + 1], "bf16") == 0 ? KERNEL_BF16 : KERNEL_FLOAT;
        else if (strcmp(argv[i], "--winograd") == 0)
            cfg.winograd = strcmp(argv[i + 1], "never") == 0 ? KERNEL_WINOGRAD_NEVER : 0;
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--format") == 0)
            table = strcmp(argv[i + 1], "table") == 0;
        else
            threads = 0;
    }
    if (argc % 2 == 0 || threads < 1 || threads > 64) {
        fputs("usage: bench_kernels [--threads 1..64] [--isa NAME] [--type float|bf16] "
              "[--only TEXT] [--format json|table] [--winograd auto|never]\n",
              stderr);
        return 2;
    }
    for (int i = 0; i < threads; i++)
        cpus[i] = i;
    cfg.threads = threads, cfg.cpus = cpus;
    int rc = k->open(&ctx, &cfg);
    if (rc != 0) {
        fprintf(stderr, "bench_kernels: cannot open the cpu backend: %s\n", strerror(-rc));
        return 1;
    }
    struct flat_bench f = new_flat(16 << 20, 1);
    copy_gbytes =
        2.0 * (double)f.n * sizeof(float) / 1e9 / median_seconds((struct job){run_copy, &f});
    free_flat(&f);
    if (!table && wanted("peak", ""))
        printf("{\"bench\":\"kernels\",\"op\":\"peak\",\"threads\":%d,\"isa\":\"%s\","
               "\"gflops\":%.1f,\"gflops_bf16\":%.1f}\n",
               threads, k->isa(ctx), peak_gflops(KERNEL_FLOAT), peak_gflops(KERNEL_BF16));
    bench_step(64);
    bench_other();
    k->close(ctx);
    return 0;
}
