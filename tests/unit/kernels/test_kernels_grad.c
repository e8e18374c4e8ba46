// SPDX-License-Identifier: Apache-2.0
// Every gradient of the reference backend, in double precision, against finite differences of its
// own forward pass. The loss is the dot product of the output with fixed random weights.
#include "kernels/kernels.h"
#include "tests/tap.h"

static const struct kernel_backend *const k = &kernels_reference_f64;
static struct kernel_ctx *ctx;
static uint64_t random_state = 2463534242U;

static double random_double(void) { // uniform in [-1, 1)
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / (double)(1ULL << 52) - 1;
}

static double *new_random(size_t n) {
    double *p = malloc(n * sizeof *p);
    if (!p)
        bail_out("out of memory");
    for (size_t i = 0; i < n; i++)
        p[i] = random_double();
    return p;
}

static double dot(size_t n, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// One op under test: forward writes y from the inputs; weight is the gradient fed to backward.
struct check {
    void (*forward)(struct check *c);
    const void *shape;
    double *x, *w, *b, *res, *y, *weight;
    size_t ny;
};

static double loss_of(struct check *c) {
    c->forward(c);
    return dot(c->ny, c->y, c->weight);
}

// Central differences at up to 60 places of p.
static void compare(struct check *c, double *p, const double *grad, size_t n, const char *what) {
    const double h = 1e-5;
    double worst = 0;
    for (size_t i = 0; i < n; i += n / 60 + 1) {
        double keep = p[i];
        p[i] = keep + h;
        double up = loss_of(c);
        p[i] = keep - h;
        double down = loss_of(c);
        p[i] = keep;
        double d = fabs((up - down) / (2 * h) - grad[i]) / (1 + fabs(grad[i]));
        worst = d <= worst ? worst : d;
    }
    if (!ok(worst < 1e-7, "%s", what))
        diag("worst relative difference %.3g", worst);
}

static void conv_forward(struct check *c) {
    k->conv2d_forward(ctx, c->shape, c->x, c->w, c->b, 0, c->y);
}

static void test_conv(const int *z) {
    const struct conv2d_shape shape = {z[0], z[1], z[2], z[3],         z[4], z[5],
                                       z[6], z[7], z[8], KERNEL_FLOAT, 0,    0};
    const struct conv2d_shape *s = &shape;
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    size_t nx = (size_t)s->n * s->h * s->w * s->c, nw = (size_t)s->o * s->kh * s->kw * s->c;
    size_t rows = (size_t)s->n * oh * ow, no = (size_t)s->o;
    struct check c = {.forward = conv_forward, .shape = s, .ny = rows * no};
    c.x = new_random(nx), c.w = new_random(nw), c.b = new_random(no);
    c.y = new_random(c.ny), c.weight = new_random(c.ny);
    double *dx = new_random(nx), *dw = new_random(nw), *db = new_random(no);
    k->conv2d_backward_data(ctx, s, c.weight, c.w, dx, 0);
    k->conv2d_backward_weight(ctx, s, c.x, c.weight, dw, 0);
    k->bias_backward(ctx, (int64_t)rows, s->o, c.weight, db, 0);
    char what[96];
    int at = snprintf(what, sizeof what, "conv %dx%d stride %d pad %d: ", s->kh, s->kw, s->stride,
                      s->pad);
    snprintf(what + at, sizeof what - at, "input");
    compare(&c, c.x, dx, nx, what);
    snprintf(what + at, sizeof what - at, "weight");
    compare(&c, c.w, dw, nw, what);
    snprintf(what + at, sizeof what - at, "bias");
    compare(&c, c.b, db, no, what);
    free(c.x), free(c.w), free(c.b), free(c.y), free(c.weight), free(dx), free(dw), free(db);
}

enum { norm_rows = 40, norm_channels = 3, norm_n = norm_rows * norm_channels };

static void norm_forward(struct check *c) {
    double mean[norm_channels] = {0}, var[norm_channels] = {0};
    double save_mean[norm_channels], save_invstd[norm_channels];
    struct batchnorm_args a = {.rows = norm_rows, .channels = norm_channels, .eps = 1e-5};
    a.momentum = 0.1, a.x = c->x, a.gamma = c->w, a.beta = c->b, a.residual = c->res;
    a.running_mean = mean, a.running_var = var, a.save_mean = save_mean;
    a.save_invstd = save_invstd, a.y = c->y, a.relu = c->shape != NULL;
    k->batchnorm_forward_train(ctx, &a);
}

static void test_norm(int relu, int residual) {
    struct check c = {.forward = norm_forward, .shape = relu ? "" : NULL, .ny = norm_n};
    c.x = new_random(norm_n), c.w = new_random(norm_channels), c.b = new_random(norm_channels);
    c.res = residual ? new_random(norm_n) : NULL;
    c.y = new_random(norm_n), c.weight = new_random(norm_n);
    double mean[norm_channels] = {0}, var[norm_channels] = {0}, dx[norm_n], dres[norm_n];
    double save_mean[norm_channels], save_invstd[norm_channels];
    double dgamma[norm_channels], dbeta[norm_channels];
    struct batchnorm_args a = {.rows = norm_rows, .channels = norm_channels, .eps = 1e-5};
    a.momentum = 0.1, a.x = c.x, a.gamma = c.w, a.beta = c.b, a.residual = c.res, a.y = c.y;
    a.running_mean = mean, a.running_var = var, a.save_mean = save_mean;
    a.save_invstd = save_invstd, a.relu = relu;
    k->batchnorm_forward_train(ctx, &a);
    struct batchnorm_grad_args g = {.rows = norm_rows, .channels = norm_channels, .relu = relu};
    g.x = c.x, g.y = c.y, g.dy = c.weight, g.gamma = c.w, g.save_mean = save_mean;
    g.save_invstd = save_invstd, g.dx = dx, g.dresidual = residual ? dres : NULL;
    g.dgamma = dgamma, g.dbeta = dbeta;
    k->batchnorm_backward(ctx, &g);
    const char *kind = relu       ? residual ? "batch norm, add, relu" : "batch norm, relu"
                       : residual ? "batch norm, add"
                                  : "batch norm";
    char what[96];
    int at = snprintf(what, sizeof what, "%s: ", kind);
    snprintf(what + at, sizeof what - at, "input");
    compare(&c, c.x, dx, norm_n, what);
    snprintf(what + at, sizeof what - at, "gamma");
    compare(&c, c.w, dgamma, norm_channels, what);
    snprintf(what + at, sizeof what - at, "beta");
    compare(&c, c.b, dbeta, norm_channels, what);
    snprintf(what + at, sizeof what - at, "residual");
    if (residual)
        compare(&c, c.res, dres, norm_n, what);
    free(c.x), free(c.w), free(c.b), free(c.res), free(c.y), free(c.weight);
}

static void pool_forward(struct check *c) {
    uint8_t index[4096];
    k->maxpool_forward(ctx, c->shape, c->x, c->y, index);
}

static void test_pool(void) {
    static const struct pool2d_shape s = {2, 9, 8, 3, 3, 2, 1, 0};
    size_t nx = (size_t)2 * 9 * 8 * 3;
    struct check c = {.forward = pool_forward, .shape = &s, .ny = (size_t)2 * 5 * 4 * 3};
    c.x = new_random(nx), c.y = new_random(c.ny), c.weight = new_random(c.ny);
    double *dx = new_random(nx);
    uint8_t index[4096];
    k->maxpool_forward(ctx, &s, c.x, c.y, index);
    k->maxpool_backward(ctx, &s, c.weight, index, dx);
    compare(&c, c.x, dx, nx, "max pool: input");
    free(c.x), free(c.y), free(c.weight), free(dx);
}

static void mean_forward(struct check *c) {
    k->avgpool_forward(ctx, 3, 6, 5, c->x, c->y);
}

static void test_mean(void) {
    struct check c = {.forward = mean_forward, .ny = (size_t)3 * 5};
    c.x = new_random(90), c.y = new_random(c.ny), c.weight = new_random(c.ny);
    double *dx = new_random(90);
    k->avgpool_backward(ctx, 3, 6, 5, c.weight, dx);
    compare(&c, c.x, dx, 90, "average pool: input");
    free(c.x), free(c.y), free(c.weight), free(dx);
}

enum { loss_rows = 7, loss_classes = 6 };
static const int32_t labels[loss_rows] = {0, 5, 2, 2, 3, 1, 4};
static double smoothing;

static void loss_forward(struct check *c) {
    struct loss_totals t;
    struct softmax_xent_args a = {loss_rows, loss_classes, c->x, labels, smoothing, 1, NULL, NULL};
    k->softmax_xent(ctx, &a, &t);
    c->y[0] = t.loss_sum;
}

static void test_loss(double smooth) {
    double one = 1, y;
    struct check c = {.forward = loss_forward, .ny = 1, .y = &y, .weight = &one};
    size_t n = (size_t)loss_rows * loss_classes;
    double *d = new_random(n);
    struct loss_totals t;
    smoothing = smooth;
    c.x = new_random(n);
    struct softmax_xent_args a = {loss_rows, loss_classes, c.x, labels, smooth, 1, d, NULL};
    k->softmax_xent(ctx, &a, &t);
    compare(&c, c.x, d, n, smooth > 0 ? "smoothed cross-entropy: logits" : "cross-entropy: logits");
    free(c.x), free(d);
}

static void linear_forward(struct check *c) {
    struct gemm_args g = {.m = 4, .n = 5, .k = 6, .trans_b = 1, .a = c->x, .b = c->w, .c = c->y};
    g.lda = 6, g.ldb = 6, g.ldc = 5, g.alpha = 1, g.bias = c->b, g.relu = 1;
    k->gemm(ctx, &g);
}

// A linear layer with ReLU as the layers above build it: three products.
static void test_linear(void) {
    struct check c = {.forward = linear_forward, .ny = 20};
    c.x = new_random(24), c.w = new_random(30), c.b = new_random(5), c.y = new_random(20);
    c.weight = new_random(20);
    double dz[20], dx[24], dw[30], db[5];
    linear_forward(&c);
    k->relu_backward(ctx, 20, c.y, c.weight, dz);
    struct gemm_args g = {.m = 4, .n = 6, .k = 5, .a = dz, .b = c.w, .c = dx};
    g.lda = 5, g.ldb = 6, g.ldc = 6, g.alpha = 1;
    k->gemm(ctx, &g);
    g = (struct gemm_args){.m = 5, .n = 6, .k = 4, .trans_a = 1, .a = dz, .b = c.x, .c = dw};
    g.lda = 5, g.ldb = 6, g.ldc = 6, g.alpha = 1;
    k->gemm(ctx, &g);
    k->bias_backward(ctx, 4, 5, dz, db, 0);
    compare(&c, c.x, dx, 24, "linear, relu: input");
    compare(&c, c.w, dw, 30, "linear, relu: weight");
    compare(&c, c.b, db, 5, "linear, relu: bias");
    free(c.x), free(c.w), free(c.b), free(c.y), free(c.weight);
}

int main(void) {
    static const int shapes[][9] = {
        {2, 9, 9, 3, 4, 7, 7, 2, 3}, {2, 5, 6, 3, 4, 3, 3, 1, 1}, {2, 6, 6, 3, 4, 3, 3, 2, 1},
        {2, 4, 4, 5, 3, 1, 1, 2, 0}, {2, 1, 1, 4, 4, 3, 3, 1, 1}, {1, 6, 5, 2, 3, 2, 3, 3, 2},
    };
    if (k->open(&ctx, &(struct kernel_config){0}) != 0)
        bail_out("cannot open %s", k->name);
    is_int((intmax_t)k->real_bytes, 8, "the elements are doubles");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        test_conv(shapes[i]);
    for (int i = 0; i < 4; i++)
        test_norm(i & 1, i >> 1);
    test_pool();
    test_mean();
    test_loss(0);
    test_loss(0.1);
    test_linear();
    k->close(ctx);
    return done_testing();
}
