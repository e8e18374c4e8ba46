// SPDX-License-Identifier: Apache-2.0
// Everything of the fast CPU backend that is not a product, with every instruction set this machine
// has, against the plain reference; and that thread counts do not change a bit.
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

enum { threads_many = 3 };
static struct kernel_ctx *plain;

static float *copy_of(const float *src, size_t n) {
    float *p = malloc(n * sizeof *p + 1);
    if (!p)
        bail_out("out of memory");
    return memcpy(p, src, n * sizeof *p);
}

static double worst_difference(size_t n, const float *got, const float *want) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]) / (1 + fabs((double)want[i]));
        worst = d <= worst ? worst : d; // a NaN counts
    }
    return worst;
}

static bool same_bits(const void *a, const void *b, size_t floats) {
    return memcmp(a, b, floats * sizeof(float)) == 0;
}

// Three contexts do the same: the reference, the backend with one thread, and with several.
enum { by_plain, by_one, by_many, runners };
struct runner {
    const struct kernel_backend *k;
    struct kernel_ctx *ctx;
};
static struct runner runner[runners];
static const char *isa_name;

// got[] are what the three made; two are compared with a tolerance, two must be the same bits.
static void check(float *const got[runners], size_t n, double tolerance, const char *what) {
    double d = worst_difference(n, got[by_one], got[by_plain]);
    bool same = same_bits(got[by_one], got[by_many], n);
    if (!ok(d <= tolerance && same, "%s: %s", isa_name, what))
        diag("worst difference %.3g; thread counts %s", d, same ? "agree" : "differ");
}

static void free_all(float *p[runners]) {
    for (int i = 0; i < runners; i++)
        free(p[i]);
}

// ---- batch norm --------------------------------------------------------------------------------
struct norm_data {
    float *x, *residual, *gamma, *beta, *dy, *mean, *var;
};

struct norm_out {
    float *y[runners], *mean[runners], *var[runners], *save_mean[runners], *save_invstd[runners];
    float *dx[runners], *dres[runners], *dgamma[runners], *dbeta[runners];
};

static void run_norm(int i, int64_t rows, int channels, int variant, const struct norm_data *d,
                     struct norm_out *o) {
    const struct kernel_backend *k = runner[i].k;
    struct kernel_ctx *ctx = runner[i].ctx;
    size_t n = (size_t)(rows * channels), c = (size_t)channels;
    o->y[i] = new_random(n), o->mean[i] = copy_of(d->mean, c), o->var[i] = copy_of(d->var, c);
    o->save_mean[i] = new_random(c), o->save_invstd[i] = new_random(c);
    o->dx[i] = copy_of(d->dy, n), o->dres[i] = new_random(n);
    o->dgamma[i] = copy_of(d->gamma, c), o->dbeta[i] = copy_of(d->beta, c);
    if (k->reserve(ctx, k->batchnorm_workspace(ctx, rows, channels)) != 0)
        bail_out("out of memory");
    struct batchnorm_args a = {.rows = rows, .channels = channels, .eps = 1e-5, .momentum = 0.1};
    a.x = d->x, a.gamma = d->gamma, a.beta = d->beta, a.y = o->y[i], a.relu = variant & 1;
    a.residual = variant & 2 ? d->residual : NULL;
    a.running_mean = o->mean[i], a.running_var = o->var[i];
    a.save_mean = o->save_mean[i], a.save_invstd = o->save_invstd[i];
    k->batchnorm_forward_train(ctx, &a);
    struct batchnorm_grad_args g = {.rows = rows, .channels = channels, .relu = variant & 1};
    g.x = d->x, g.gamma = d->gamma;
    g.y = o->y[by_plain]; // one for all: near zero the ReLU's branch is a matter of rounding
    g.save_mean = o->save_mean[i], g.save_invstd = o->save_invstd[i];
    g.dy = variant & 4 ? o->dx[i] : d->dy; // in place
    g.dx = o->dx[i], g.dresidual = variant & 2 ? o->dres[i] : NULL;
    g.dgamma = o->dgamma[i], g.dbeta = o->dbeta[i], g.accumulate = variant >> 2 & 1;
    k->batchnorm_backward(ctx, &g);
}

static void one_norm(int64_t rows, int channels, int variant) {
    size_t n = (size_t)(rows * channels), c = (size_t)channels;
    struct norm_data d = {new_random(n), new_random(n), new_random(c), new_random(c),
                          new_random(n), new_random(c), new_random(c)};
    struct norm_out o;
    char what[96];
    for (size_t i = 0; i < n; i++) // a mean far from zero must not cost the variance
        d.x[i] = d.x[i] * 0.5F + 20;
    for (int i = 0; i < runners; i++)
        run_norm(i, rows, channels, variant, &d, &o);
    snprintf(what, sizeof what, "batch norm %dx%d%s%s%s", (int)rows, channels,
             variant & 1 ? " relu" : "", variant & 2 ? " add" : "", variant & 4 ? " in place" : "");
    double slack = rows < 3 ? 5e-2 : 2e-4; // two rows: dx is a small rest of large terms
    check(o.y, n, 2e-4, what);
    check(o.mean, c, 1e-5, "  running mean"), check(o.var, c, 1e-5, "  running variance");
    check(o.dx, n, slack, "  input gradient");
    check(o.dgamma, c, 2e-3, "  gamma gradient"), check(o.dbeta, c, 2e-3, "  beta gradient");
    if (variant & 2)
        check(o.dres, n, 0, "  residual gradient");
    free(d.x), free(d.residual), free(d.gamma), free(d.beta), free(d.dy), free(d.mean), free(d.var);
    free_all(o.y), free_all(o.mean), free_all(o.var), free_all(o.save_mean);
    free_all(o.save_invstd), free_all(o.dx), free_all(o.dres), free_all(o.dgamma);
    free_all(o.dbeta);
}

static void one_norm_eval(int64_t rows, int channels) {
    size_t n = (size_t)(rows * channels), c = (size_t)channels;
    float *x = new_random(n), *gamma = new_random(c), *beta = new_random(c), *mean = new_random(c);
    float *var = new_random(c), *y[runners];
    for (size_t i = 0; i < c; i++)
        var[i] = fabsf(var[i]) + 0.1F;
    for (int i = 0; i < runners; i++) {
        struct batchnorm_args a = {.rows = rows, .channels = channels, .eps = 1e-5, .relu = 1};
        y[i] = copy_of(x, n);
        a.x = y[i], a.y = y[i], a.gamma = gamma, a.beta = beta; // in place
        a.running_mean = mean, a.running_var = var;
        runner[i].k->batchnorm_forward_eval(runner[i].ctx, &a);
    }
    check(y, n, 1e-5, "batch norm for evaluation");
    free(x), free(gamma), free(beta), free(mean), free(var), free_all(y);
}

static void one_bias(int64_t rows, int cols, int accumulate) {
    size_t n = (size_t)(rows * cols);
    float *dy = new_random(n), *start = new_random((size_t)cols), *db[runners];
    for (int i = 0; i < runners; i++) {
        const struct kernel_backend *k = runner[i].k;
        db[i] = copy_of(start, (size_t)cols);
        if (k->reserve(runner[i].ctx, k->bias_workspace(runner[i].ctx, rows, cols)) != 0)
            bail_out("out of memory");
        k->bias_backward(runner[i].ctx, rows, cols, dy, db[i], accumulate);
    }
    check(db, (size_t)cols, 1e-4, "bias gradient");
    free(dy), free(start), free_all(db);
}

static void test_norm(void) {
    for (int variant = 0; variant < 8; variant++) {
        one_norm(300, 64, variant);
        one_norm(4099, 17, variant);
    }
    one_norm(2, 5, 0);
    one_norm(20000, 3, 1);
    one_norm(33, 513, 3);
    one_norm_eval(100, 33);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        one_bias(64, 10, accumulate);
        one_bias(5000, 70, accumulate);
    }
}

// ---- pooling -----------------------------------------------------------------------------------
static void one_pool(const struct pool2d_shape *s) {
    size_t oh = (size_t)kernel_conv_out(s->h, s->k, s->stride, s->pad);
    size_t ow = (size_t)kernel_conv_out(s->w, s->k, s->stride, s->pad);
    size_t nx = (size_t)s->n * s->h * s->w * s->c, ny = (size_t)s->n * oh * ow * s->c;
    float *x = new_random(nx), *dy = new_random(ny), *y[runners], *dx[runners];
    uint8_t *index[runners];
    char what[96];
    for (size_t i = 0; i < nx; i += 3) // ties
        x[i] = 0;
    for (int i = 0; i < runners; i++) {
        y[i] = new_random(ny), dx[i] = new_random(nx), index[i] = malloc(ny);
        runner[i].k->maxpool_forward(runner[i].ctx, s, x, y[i], index[i]);
        runner[i].k->maxpool_backward(runner[i].ctx, s, dy, index[i], dx[i]);
    }
    snprintf(what, sizeof what, "max pool %dx%dx%dx%d window %d stride %d pad %d", s->n, s->h, s->w,
             s->c, s->k, s->stride, s->pad);
    check(y, ny, 0, what);
    check(dx, nx, 1e-6, "  gradient");
    ok(memcmp(index[by_plain], index[by_one], ny) == 0 &&
           memcmp(index[by_plain], index[by_many], ny) == 0,
       "%s:   winners are those of the reference", isa_name);
    free(x), free(dy), free_all(y), free_all(dx);
    for (int i = 0; i < runners; i++)
        free(index[i]);
}

static void one_mean(int n, int hw, int c) {
    size_t nx = (size_t)n * hw * c, ny = (size_t)n * c;
    float *x = new_random(nx), *dy = new_random(ny), *y[runners], *dx[runners];
    for (int i = 0; i < runners; i++) {
        y[i] = new_random(ny), dx[i] = new_random(nx);
        runner[i].k->avgpool_forward(runner[i].ctx, n, hw, c, x, y[i]);
        runner[i].k->avgpool_backward(runner[i].ctx, n, hw, c, dy, dx[i]);
    }
    check(y, ny, 1e-6, "average pool");
    check(dx, nx, 1e-6, "average pool gradient");
    free(x), free(dy), free_all(y), free_all(dx);
}

static void test_pools(void) {
    static const struct pool2d_shape shapes[] = {
        {3, 16, 16, 64, 3, 2, 1, 0}, {2, 7, 9, 5, 3, 2, 1, 0}, {2, 6, 6, 33, 2, 2, 0, 0},
        {1, 5, 5, 1, 3, 1, 1, 0},    {1, 4, 4, 8, 4, 4, 3, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        one_pool(&shapes[i]);
    one_mean(5, 49, 33);
    one_mean(3, 1, 512);
}

// ---- loss --------------------------------------------------------------------------------------
static void one_loss(int rows, int classes, double smoothing) {
    size_t n = (size_t)rows * classes;
    float *logits = new_random(n), *dlogits[runners];
    int32_t *labels = malloc((size_t)rows * sizeof *labels);
    struct loss_totals t[runners], eval;
    for (size_t i = 0; i < n; i++)
        logits[i] = roundf(logits[i] * 40) / 4; // with ties
    for (int i = 0; i < rows; i++)
        labels[i] = i * 7 % classes;
    struct softmax_xent_args a = {rows, classes, logits, labels, smoothing, 0.25, NULL, NULL};
    for (int i = 0; i < runners; i++) {
        dlogits[i] = new_random(n);
        a.dlogits = dlogits[i];
        runner[i].k->softmax_xent(runner[i].ctx, &a, &t[i]);
    }
    check(dlogits, n, 1e-6, "softmax cross-entropy gradient");
    a.dlogits = NULL;
    runner[by_one].k->softmax_xent(runner[by_one].ctx, &a, &eval);
    near(t[by_one].loss_sum, t[by_plain].loss_sum, 1e-5 * (1 + t[by_plain].loss_sum),
         "%s:   the loss of %d rows, %d classes, smoothing %g is right", isa_name, rows, classes,
         smoothing);
    ok(t[by_one].loss_sum == t[by_many].loss_sum && t[by_one].loss_sum == eval.loss_sum,
       "%s:   the loss is the same with threads and without a gradient", isa_name);
    ok(t[by_one].top1 == t[by_plain].top1 && t[by_one].top5 == t[by_plain].top5 &&
           t[by_many].top5 == t[by_plain].top5 && t[by_one].rows == rows,
       "%s:   %d and %d rows of %d are counted as right", isa_name, (int)t[by_one].top1,
       (int)t[by_one].top5, rows);
    free(logits), free(labels), free_all(dlogits);
}

// By hand: two classes, logits 0 and ln 3, so p = 1/4, 3/4.
static void test_loss_by_hand(void) {
    float logits[] = {0, logf(3), NAN, 1}, d[4];
    int32_t labels[] = {1, 1};
    struct loss_totals t;
    struct softmax_xent_args a = {1, 2, logits, labels, 0, 1, d, NULL};
    runner[by_one].k->softmax_xent(runner[by_one].ctx, &a, &t);
    near(t.loss_sum, log(4.0 / 3), 1e-6, "%s: the loss is -log(3/4)", isa_name);
    near(d[0], 0.25, 1e-6, "%s: the gradient of the other class is right", isa_name);
    near(d[1], -0.25, 1e-6, "%s: the gradient of the label is right", isa_name);
    is_int(t.top1, 1, "%s: the row is counted as right", isa_name);
    is_int(t.top5, 1, "%s: two classes are among the top five", isa_name);
    a.smoothing = 0.2; // targets 0.1 and 0.9
    runner[by_one].k->softmax_xent(runner[by_one].ctx, &a, &t);
    near(t.loss_sum, 0.1 * log(4) + 0.9 * log(4.0 / 3), 1e-6, "%s: the smoothed loss is right",
         isa_name);
    near(d[1], 0.75 - 0.9, 1e-6, "%s: the smoothed gradient is right", isa_name);
    a.rows = 2;
    runner[by_one].k->softmax_xent(runner[by_one].ctx, &a, &t);
    is_int(t.top1 + t.top5, 2, "%s: a row with a NaN is never right", isa_name);
    float apart[2] = {3e38F, -3e38F};
    a.rows = 1, a.logits = apart, a.smoothing = 0;
    runner[by_one].k->softmax_xent(runner[by_one].ctx, &a, &t);
    near(t.loss_sum / 6e38, 1, 1e-6, "%s: logits may be further apart than a float reaches",
         isa_name);
}

// A NaN anywhere in a window is its maximum, and its gradient goes there, as in PyTorch.
static void test_pool_nan(void) {
    const struct pool2d_shape s = {1, 3, 3, 2, 3, 1, 0, 0};
    int wrong = 0;
    for (int at = 0; at < 9; at++)
        for (int i = 0; i < 2; i++) {
            float x[18], y[2];
            uint8_t index[2];
            for (int j = 0; j < 18; j++)
                x[j] = (float)(j % 7);
            x[2 * at] = (float)NAN;
            runner[i].k->maxpool_forward(runner[i].ctx, &s, x, y, index);
            wrong += y[0] == y[0] || index[0] != at || y[1] != 6;
        }
    is_int(wrong, 0, "%s: max pooling keeps a NaN wherever it stands in the window", isa_name);
}

// A variance too large for a float shows: it does not become a layer that gives nothing but zeros.
static void test_norm_extremes(void) {
    static const float large[4] = {1e20F, -1e20F, 1e20F, -1e20F};
    float gamma = 1, beta = 0, mean = 0, var = 1, save[2], y[4];
    struct batchnorm_args a = {.rows = 4, .channels = 1, .eps = 1e-5, .momentum = 0.1};
    a.gamma = &gamma, a.beta = &beta, a.running_mean = &mean, a.running_var = &var;
    a.save_mean = &save[0], a.save_invstd = &save[1], a.y = y;
    a.x = large;
    runner[by_one].k->batchnorm_forward_train(runner[by_one].ctx, &a);
    ok(y[0] != y[0] && var != var, "%s: a variance that overflows is no number", isa_name);
    for (int i = 0; i < 2; i++) {
        a.rows = 1, var = 3, mean = 0, a.x = (const float[]){8};
        runner[i].k->batchnorm_forward_train(runner[i].ctx, &a);
        ok(var > 2.9999F && var < 3.0001F && mean > 0.79F, "%s: one row keeps the running variance",
           isa_name);
    }
}

// ---- flat buffers ------------------------------------------------------------------------------
enum { adam, adamw, sgd, momentum, nesterov, optimizers };

static void step_optimizer(int kind, int i, size_t n, int64_t step, float *p, const float *g,
                           float *m, float *v) {
    // A gap that must not move, a part without decay, one with twice the rate.
    const struct optim_range ranges[] = {
        {3, n / 2, 0.1, 1}, {n / 2, n / 2 + 5, 0, 1}, {n / 2 + 7, n, 0.01, 2}};
    struct adam_args a = {ranges,        3,   p, g, m, v, 1e-2, 0.9, 0.999, 1e-8, 0.5, step,
                          kind == adamw, NULL};
    struct sgd_args s = {
        ranges,           3,   p, g, kind == sgd ? NULL : m, 0.1, kind == sgd ? 0 : 0.9, 0.5,
        kind == nesterov, NULL};
    if (kind <= adamw)
        runner[i].k->adam(runner[i].ctx, &a);
    else
        runner[i].k->sgd(runner[i].ctx, &s);
}

static void test_optimizers(size_t n) {
    static const char *const names[] = {"adam", "adamw", "sgd", "sgd momentum", "sgd nesterov"};
    for (int kind = 0; kind < optimizers; kind++) {
        float *start = new_random(n), *p[runners], *m[runners], *v[runners];
        for (int i = 0; i < runners; i++) {
            p[i] = copy_of(start, n), m[i] = calloc(n, sizeof(float));
            v[i] = calloc(n, sizeof(float));
        }
        for (int64_t step = 1; step <= 3; step++) {
            float *g = new_random(n);
            for (int i = 0; i < runners; i++)
                step_optimizer(kind, i, n, step, p[i], g, m[i], v[i]);
            free(g);
        }
        check(p, n, 2e-5, names[kind]);
        ok(p[by_one][0] == start[0] && p[by_one][n / 2 + 5] == start[n / 2 + 5] &&
               p[by_one][3] != start[3] && p[by_one][n - 1] != start[n - 1],
           "%s:   only what is in a range moves", isa_name);
        free(start), free_all(p), free_all(m), free_all(v);
    }
}

// Two steps of torch.optim on one parameter, worked out by hand from PyTorch's formulas.
static void test_optimizers_by_hand(void) {
    struct optim_range all = {0, 1, 0.1, 1};
    float p = 1, g = 0.5F, m = 0, v = 0;
    struct adam_args a = {&all, 1, &p, &g, &m, &v, 0.01, 0.9, 0.999, 1e-8, 1, 1, 0, NULL};
    runner[by_one].k->adam(runner[by_one].ctx, &a); // step 1 moves by lr * sign(g + decay * p)
    near(p, 0.99, 1e-6, "%s: first step of Adam is the rate", isa_name);
    near(m, 0.06, 1e-6, "%s: Adam adds decay to the gradient", isa_name);
    p = 1, m = v = 0, a.decoupled = 1;
    runner[by_one].k->adam(runner[by_one].ctx, &a);
    near(p, 1 - 0.001 - 0.01, 1e-6, "%s: AdamW shrinks, then steps", isa_name);
    near(m, 0.05, 1e-6, "%s: AdamW adds no decay to the gradient", isa_name);
    a.beta1 = 0.99, a.beta2 = 0.9999, m = v = 0; // 1 - beta is no difference of two floats
    runner[by_one].k->adam(runner[by_one].ctx, &a);
    near((double)m / (0.01 * 0.5), 1, 2e-7, "%s: the first moment has all its digits", isa_name);
    near((double)v / (0.0001 * 0.25), 1, 2e-7, "%s: the second moment has all its digits",
         isa_name);
    p = 1, m = 0;
    struct sgd_args s = {&all, 1, &p, &g, &m, 0.1, 0.9, 1, 1, NULL};
    runner[by_one].k->sgd(runner[by_one].ctx, &s); // d = 0.6; step = 0.6 + 0.9 * 0.6
    near(p, 1 - 0.1 * 1.14, 1e-6, "%s: the first step of Nesterov's momentum is right", isa_name);
}

static void test_flat(size_t n) {
    float *a = new_random(n), *b = new_random(n), *y[runners];
    double squares[runners];
    for (int op = 0; op < 6; op++) {
        static const char *const names[] = {"relu", "relu gradient", "add",
                                            "axpy", "scale",         "zero"};
        for (int i = 0; i < runners; i++) {
            const struct kernel_backend *k = runner[i].k;
            struct kernel_ctx *ctx = runner[i].ctx;
            y[i] = copy_of(b, n);
            if (op == 0)
                k->relu_forward(ctx, n, y[i], y[i]);
            else if (op == 1)
                k->relu_backward(ctx, n, a, y[i], y[i]);
            else if (op == 2)
                k->add(ctx, n, a, y[i], y[i]);
            else if (op == 3)
                k->axpy(ctx, n, -0.3, a, y[i]);
            else if (op == 4)
                k->scale(ctx, n, 1.7, y[i]);
            else
                k->zero(ctx, n, y[i]);
            k->sum_squares(ctx, n, a, &squares[i]);
        }
        check(y, n, 0, names[op]);
        free_all(y);
    }
    near(squares[by_one], squares[by_plain], 1e-9 * squares[by_plain] + 1e-12,
         "%s: sum of squares of %zu", isa_name, n);
    ok(squares[by_one] == squares[by_many], "%s:   threads do not change the sum", isa_name);
    free(a), free(b);
}

static struct kernel_ctx *open_ctx(const struct kernel_backend *b, const char *isa, int threads) {
    struct kernel_ctx *ctx = NULL;
    struct kernel_config cfg = {.threads = threads, .isa = isa};
    int rc = b->open(&ctx, &cfg);
    if (rc != 0 && rc != -95) // ENOTSUP
        bail_out("cannot open %s: %d", b->name, rc);
    return ctx;
}

static void count_worker(void *arg, int worker, int workers) {
    if (workers == threads_many)
        ((int *)arg)[worker]++;
}

static void test_isa(const char *isa) {
    isa_name = isa;
    runner[by_plain] = (struct runner){&kernels_reference, plain};
    runner[by_one] = (struct runner){&kernels_cpu, open_ctx(&kernels_cpu, isa, 1)};
    if (!runner[by_one].ctx) {
        skip(1, "this machine has no %s", isa);
        return;
    }
    runner[by_many] = (struct runner){&kernels_cpu, open_ctx(&kernels_cpu, isa, threads_many)};
    int counts[threads_many] = {0};
    for (int i = 0; i < 1000; i++)
        kernels_cpu.parallel(runner[by_many].ctx, count_worker, counts);
    ok(counts[0] == 1000 && counts[1] == 1000 && counts[2] == 1000,
       "%s: every worker runs once each time", isa);
    test_norm();
    test_norm_extremes();
    test_pools();
    test_pool_nan();
    one_loss(64, 10, 0);
    one_loss(37, 1000, 0.1);
    one_loss(5, 2, 0.1);
    one_loss(1, 1, 0);
    test_loss_by_hand();
    test_flat(5);
    test_flat(20011);
    test_optimizers(20011);
    test_optimizers_by_hand();
    kernels_cpu.close(runner[by_one].ctx);
    kernels_cpu.close(runner[by_many].ctx);
}

int main(void) {
    plain = open_ctx(&kernels_reference, NULL, 1);
    test_isa("avx512");
    test_isa("avx2");
    test_isa("base");
    kernels_reference.close(plain);
    return done_testing();
}
