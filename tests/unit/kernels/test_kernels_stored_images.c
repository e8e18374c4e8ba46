// SPDX-License-Identifier: Apache-2.0
// Activations in bfloat16: convolutions, batch norm and max pooling (stored_cases.h), over odd
// shapes.
#include "tests/unit/kernels/stored_cases.h"

// ---- convolutions: n, h, c, o, kernel, stride, pad, x, y, pass, products in float ----

enum { FORWARD, DATA, DATA_ADDED, WEIGHT, WEIGHT_ADDED };

static struct conv2d_shape conv_of(const int *g) {
    return (struct conv2d_shape){.n = g[0],
                                 .h = g[1],
                                 .w = g[1],
                                 .c = g[2],
                                 .o = g[3],
                                 .kh = g[4],
                                 .kw = g[4],
                                 .stride = g[5],
                                 .pad = g[6],
                                 .type = g[10] ? KERNEL_FLOAT : KERNEL_BF16,
                                 .x_store = (enum kernel_type)g[7],
                                 .y_store = (enum kernel_type)g[8]};
}

static void make_conv(const int *g, struct tensors *t) {
    size_t out = (size_t)kernel_conv_out(g[1], g[4], g[5], g[6]);
    add_tensor(t, (enum kernel_type)g[7],
               (size_t)g[0] * (size_t)g[1] * (size_t)g[1] * (size_t)g[2]);
    add_tensor(t, F, (size_t)g[3] * (size_t)g[4] * (size_t)g[4] * (size_t)g[2]);
    add_tensor(t, F, (size_t)g[3]);
    add_tensor(t, (enum kernel_type)g[8], (size_t)g[0] * out * out * (size_t)g[3]);
}

static void run_conv(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                     const struct tensors *t) {
    struct conv2d_shape s = conv_of(g);
    void *x = t->of[0].at, *w = t->of[1].at, *b = t->of[2].at, *y = t->of[3].at;
    reserve(k, ctx, k->conv2d_workspace(ctx, &s));
    if (g[9] == FORWARD)
        k->conv2d_forward(ctx, &s, x, w, b, 1, y);
    else if (g[9] >= WEIGHT)
        k->conv2d_backward_weight(ctx, &s, x, y, w, g[9] == WEIGHT_ADDED);
    else
        k->conv2d_backward_data(ctx, &s, y, w, x, g[9] == DATA_ADDED);
}

// ---- batch norm: rows, channels, with a residual, relu, pass ----

enum { TRAIN, EVAL, GRAD, IN_PLACE }; // of the gradient: dx in place, or dresidual if there is one

static void make_batch(const int *g, struct tensors *t) {
    for (int i = 0; i < 5; i++)
        add_tensor(t, H, (size_t)g[0] * (size_t)g[1]);
    for (int i = 0; i < 6; i++)
        add_tensor(t, F, (size_t)g[1]);
    for (int i = 0; i < g[1]; i++) // a variance, or one divided by a deviation
        ((float *)(void *)t->of[8].at)[i] = 0.5F + (float)(i % 7);
}

static void run_batch(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                      const struct tensors *t) {
    struct batchnorm_args a = {.rows = g[0], .channels = g[1], .eps = 1e-5, .momentum = 0.1};
    a.x = t->of[0].at, a.residual = g[2] ? t->of[1].at : NULL, a.y = t->of[2].at;
    a.gamma = t->of[5].at, a.beta = t->of[6].at, a.store = H, a.relu = g[3];
    a.running_mean = t->of[7].at, a.running_var = t->of[8].at;
    a.save_mean = t->of[9].at, a.save_invstd = t->of[10].at;
    reserve(k, ctx, k->batchnorm_workspace(ctx, g[0], g[1]));
    if (g[4] == EVAL)
        a.y = g[2] ? t->of[1].at : t->of[0].at;
    (g[4] == EVAL ? k->batchnorm_forward_eval : k->batchnorm_forward_train)(ctx, &a);
}

static void run_batch_grad(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                           const struct tensors *t) {
    bool here = g[4] == IN_PLACE;
    struct batchnorm_grad_args a = {.rows = g[0], .channels = g[1], .store = H, .relu = g[3]};
    a.x = t->of[0].at, a.y = g[3] ? t->of[2].at : NULL, a.dy = t->of[1].at;
    a.dx = here && !g[2] ? t->of[1].at : t->of[3].at;
    a.dresidual = !g[2] ? NULL : here ? t->of[1].at : t->of[4].at;
    a.gamma = t->of[5].at, a.save_mean = t->of[7].at, a.save_invstd = t->of[8].at;
    a.dgamma = t->of[9].at, a.dbeta = t->of[10].at, a.accumulate = here;
    reserve(k, ctx, k->batchnorm_workspace(ctx, g[0], g[1]));
    k->batchnorm_backward(ctx, &a);
}

// ---- max pooling and its gradient: n, h, w, c, window, stride, pad ----

static struct pool2d_shape pool_of(const int *g) {
    return (struct pool2d_shape){.n = g[0],
                                 .h = g[1],
                                 .w = g[2],
                                 .c = g[3],
                                 .k = g[4],
                                 .stride = g[5],
                                 .pad = g[6],
                                 .store = H};
}

static void make_pool(const int *g, struct tensors *t) {
    size_t images = (size_t)g[0] * (size_t)g[3], x = images * (size_t)g[1] * (size_t)g[2];
    size_t y = images * (size_t)kernel_conv_out(g[1], g[4], g[5], g[6]) *
               (size_t)kernel_conv_out(g[2], g[4], g[5], g[6]);
    add_tensor(t, H, x);
    add_tensor(t, H, y);
    add_tensor(t, H, y);
    add_tensor(t, H, x);
}

static void run_pool(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *g,
                     const struct tensors *t) {
    struct pool2d_shape s = pool_of(g);
    uint8_t *index = malloc(t->of[1].n);
    k->maxpool_forward(ctx, &s, t->of[0].at, t->of[1].at, index);
    k->maxpool_backward(ctx, &s, t->of[2].at, index, t->of[3].at);
    free(index);
}

// ---- all of them ----

static const struct op_case cases[] = {
    {"patches", make_conv, run_conv, 1e-4, {3, 21, 3, 40, 7, 7, 0, F, H, FORWARD}},
    {"patches, bfloat16", make_conv, run_conv, 1e-4, {2, 21, 5, 33, 7, 7, 0, H, H, FORWARD}},
    {"patches, weight", make_conv, run_conv, 1e-4, {3, 21, 3, 40, 7, 7, 0, F, H, WEIGHT_ADDED}},
    {"patches, weight, bfloat16", make_conv, run_conv, 1e-4, {3, 9, 4, 9, 3, 3, 0, H, H, WEIGHT}},
    {"patches, data", make_conv, run_conv, 1e-4, {2, 21, 5, 33, 7, 7, 0, H, H, DATA}},
    {"patches, data, added", make_conv, run_conv, 1e-4, {2, 20, 4, 9, 2, 2, 0, H, H, DATA_ADDED}},
    {"long filters, data", make_conv, run_conv, 1e-3, {2, 25, 3, 8, 18, 3, 4, H, H, DATA}},
    {"convolution", make_conv, run_conv, 1e-4, {3, 9, 10, 33, 3, 1, 1, H, H, FORWARD}},
    {"convolution, one tap", make_conv, run_conv, 1e-4, {2, 14, 64, 96, 1, 1, 0, H, H, FORWARD}},
    {"one tap, spaced", make_conv, run_conv, 1e-4, {2, 15, 34, 40, 1, 2, 0, H, H, FORWARD}},
    {"one tap, odd", make_conv, run_conv, 1e-4, {2, 13, 35, 31, 1, 1, 0, H, H, FORWARD}},
    {"one tap, last line", make_conv, run_conv, 1e-4, {1, 17, 32, 32, 1, 1, 0, H, H, FORWARD}},
    {"convolution, wide", make_conv, run_conv, 1e-4, {1, 31, 16, 32, 3, 2, 1, H, H, FORWARD}},
    {"convolution, deep", make_conv, run_conv, 1e-4, {17, 3, 520, 64, 3, 1, 1, H, H, FORWARD}},
    {"convolution of images", make_conv, run_conv, 1e-4, {2, 23, 3, 40, 7, 2, 3, F, H, FORWARD}},
    {"convolution to floats", make_conv, run_conv, 1e-4, {2, 9, 12, 20, 3, 1, 1, H, F, FORWARD}},
    {"float convolution", make_conv, run_conv, 1e-4, {2, 9, 17, 20, 3, 1, 1, H, H, FORWARD, 1}},
    {"data", make_conv, run_conv, 1e-4, {3, 9, 10, 33, 3, 1, 1, H, H, DATA}},
    {"data, added", make_conv, run_conv, 1e-4, {3, 9, 33, 10, 3, 1, 1, H, H, DATA_ADDED}},
    {"data, one tap", make_conv, run_conv, 1e-4, {2, 14, 64, 96, 1, 1, 0, H, H, DATA}},
    {"data, one tap, added", make_conv, run_conv, 1e-4, {2, 13, 70, 64, 1, 1, 0, H, H, DATA_ADDED}},
    {"data, spaced", make_conv, run_conv, 1e-4, {2, 15, 34, 40, 1, 2, 0, H, H, DATA}},
    {"data, spaced, added", make_conv, run_conv, 1e-4, {2, 15, 33, 64, 1, 2, 0, H, H, DATA_ADDED}},
    {"data, wide", make_conv, run_conv, 1e-4, {1, 31, 16, 32, 3, 2, 1, H, H, DATA}},
    {"data, deep", make_conv, run_conv, 1e-4, {17, 3, 64, 520, 3, 1, 1, H, H, DATA_ADDED}},
    {"data of floats", make_conv, run_conv, 1e-4, {2, 9, 12, 20, 3, 1, 1, H, F, DATA}},
    {"float data", make_conv, run_conv, 1e-4, {2, 9, 17, 20, 3, 1, 1, H, H, DATA_ADDED, 1}},
    {"weight", make_conv, run_conv, 1e-4, {3, 9, 10, 33, 3, 1, 1, H, H, WEIGHT}},
    {"weight, one tap", make_conv, run_conv, 1e-4, {2, 14, 64, 96, 1, 1, 0, H, H, WEIGHT_ADDED}},
    {"weight, spaced", make_conv, run_conv, 1e-4, {2, 15, 34, 41, 1, 2, 0, H, H, WEIGHT}},
    {"weight, wide", make_conv, run_conv, 1e-4, {2, 31, 16, 32, 3, 2, 1, H, H, WEIGHT_ADDED}},
    {"weight, many blocks", make_conv, run_conv, 1e-4, {3, 28, 48, 260, 3, 1, 1, H, H, WEIGHT}},
    {"weight of images", make_conv, run_conv, 1e-4, {2, 23, 3, 40, 7, 2, 3, F, H, WEIGHT_ADDED}},
    {"weight, few channels", make_conv, run_conv, 1e-4, {2, 11, 5, 18, 3, 1, 1, H, H, WEIGHT}},
    {"weight, long filter rows", make_conv, run_conv, 1e-4, {2, 13, 8, 33, 7, 1, 3, H, H, WEIGHT}},
    {"weight of floats", make_conv, run_conv, 1e-4, {2, 9, 12, 20, 3, 1, 1, H, F, WEIGHT}},
    {"float weight", make_conv, run_conv, 1e-4, {2, 9, 17, 20, 3, 1, 1, H, H, WEIGHT, 1}},
    {"weight, blocks, added",
     make_conv,
     run_conv,
     1e-4,
     {3, 28, 48, 260, 3, 1, 1, H, H, WEIGHT_ADDED}},
    {"batch norm", make_batch, run_batch, 1e-4, {201, 33, 0, 0, TRAIN}},
    {"batch norm, joined", make_batch, run_batch, 1e-4, {77, 64, 1, 1, TRAIN}},
    {"batch norm, blocks", make_batch, run_batch, 1e-4, {1703, 70, 0, 1, TRAIN}},
    {"batch norm, one row", make_batch, run_batch, 1e-4, {1, 9, 0, 0, TRAIN}},
    {"batch norm, evaluation", make_batch, run_batch, 1e-4, {51, 35, 0, 1, EVAL}},
    {"evaluation, joined", make_batch, run_batch, 1e-4, {19, 128, 1, 1, EVAL}},
    {"batch norm, gradient", make_batch, run_batch_grad, 1e-4, {201, 33, 0, 0, GRAD}},
    {"gradient, joined", make_batch, run_batch_grad, 1e-4, {77, 64, 1, 1, GRAD}},
    {"gradient, in place", make_batch, run_batch_grad, 1e-4, {1703, 70, 0, 1, IN_PLACE}},
    {"gradient, joined, in place", make_batch, run_batch_grad, 1e-4, {93, 35, 1, 1, IN_PLACE}},
    {"gradient, joined, linear", make_batch, run_batch_grad, 1e-4, {93, 35, 1, 0, GRAD}},
    {"max pooling", make_pool, run_pool, 1e-4, {3, 15, 12, 35, 3, 2, 1}},
    {"max pooling side by side", make_pool, run_pool, 1e-4, {2, 9, 8, 64, 2, 2, 0}},
    {"max pooling, many channels", make_pool, run_pool, 1e-4, {1, 4, 5, 2100, 2, 1, 0}},
};

int main(void) {
    check_cases(cases, sizeof cases / sizeof cases[0]);
    return done_testing();
}
