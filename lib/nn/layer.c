// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include <math.h>

static const double BATCHNORM_EPS = 1e-5, BATCHNORM_MOMENTUM = 0.1; // torchvision's

static int never_in_place(const struct nn_layer *l) {
    (void)l;
    return -1;
}

// ---- input: filled from outside ------------------------------------------------------------

static void input_shape(struct nn_model *m, struct nn_layer *l) {
    if (l->h < 1 || l->w < 1 || l->c < 1)
        model_fault(m, l, "%d x %d x %d is no image", l->h, l->w, l->c);
}

static void input_forward(const struct nn_call *c) {
    (void)c;
}

const struct nn_op nn_op_input = {
    .name = "input", .shape = input_shape, .forward = input_forward, .in_place = never_in_place};

// ---- convolution ---------------------------------------------------------------------------

static void conv_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = x->h + 2 * l->pad < l->kernel ? 0 : kernel_conv_out(x->h, l->kernel, l->stride, l->pad);
    l->w = x->w + 2 * l->pad < l->kernel ? 0 : kernel_conv_out(x->w, l->kernel, l->stride, l->pad);
    struct nn_param *w = model_add_param(m, l, "weight");
    w->out = l->c;
    w->kh = w->kw = l->kernel;
    w->in = x->c;
    w->init = NN_INIT_NORMAL;
    w->scale = sqrt(2.0 / ((double)l->c * l->kernel * l->kernel));
    if (!l->bias)
        return;
    struct nn_param *b = model_add_param(m, l, "bias");
    b->out = l->c;
    b->vector = true;
    b->init = NN_INIT_UNIFORM;
    b->scale = 1 / sqrt((double)x->c * l->kernel * l->kernel);
}

static struct conv2d_shape conv_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer, *x = c->input;
    return (struct conv2d_shape){.n = c->n,
                                 .h = x->h,
                                 .w = x->w,
                                 .c = x->c,
                                 .o = l->c,
                                 .kh = l->kernel,
                                 .kw = l->kernel,
                                 .stride = l->stride,
                                 .pad = l->pad};
}

static size_t conv_workspace(const struct nn_call *c) {
    struct conv2d_shape s = conv_of(c);
    const struct nn_layer *l = c->layer;
    size_t conv = c->k->conv2d_workspace(c->ctx, &s);
    size_t bias = c->k->bias_workspace(c->ctx, (int64_t)c->n * l->h * l->w, l->c);
    return l->bias && bias > conv ? bias : conv;
}

static void conv_forward(const struct nn_call *c) {
    struct conv2d_shape s = conv_of(c);
    c->k->conv2d_forward(c->ctx, &s, c->x[0], c->param[0], c->param[1], 0, c->y);
}

static void conv_backward(const struct nn_call *c) {
    struct conv2d_shape s = conv_of(c);
    const struct nn_layer *l = c->layer;
    c->k->conv2d_backward_weight(c->ctx, &s, c->x[0], c->dy, c->dparam[0], c->dparam_add);
    if (l->bias)
        c->k->bias_backward(c->ctx, (int64_t)c->n * l->h * l->w, l->c, c->dy, c->dparam[1],
                            c->dparam_add);
    if (c->dx[0])
        c->k->conv2d_backward_data(c->ctx, &s, c->dy, c->param[0], c->dx[0], c->dx_add[0]);
}

const struct nn_op nn_op_conv = {.name = "conv",
                                 .shape = conv_shape,
                                 .workspace = conv_workspace,
                                 .forward = conv_forward,
                                 .backward = conv_backward,
                                 .keeps_input = true,
                                 .adds = true,
                                 .in_place = never_in_place};

// ---- batch norm, with the residual join and the ReLU that follow it --------------------------

static void batchnorm_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = x->h;
    l->w = x->w;
    l->c = x->c;
    if (l->in[1] >= 0) {
        const struct nn_layer *r = &m->layer[l->in[1]];
        if (r->h != l->h || r->w != l->w || r->c != l->c)
            model_fault(m, l, "residual '%s' is %d x %d x %d, not %d x %d x %d", r->name, r->h,
                        r->w, r->c, l->h, l->w, l->c);
    }
    struct nn_param *gamma = model_add_param(m, l, "weight");
    gamma->out = l->c;
    gamma->vector = true;
    gamma->init = NN_INIT_ONE;
    struct nn_param *beta = model_add_param(m, l, "bias");
    beta->out = l->c;
    beta->vector = true;
    beta->init = NN_INIT_ZERO;
    model_add_stat(m, l, l->c);
}

static int64_t batchnorm_rows(const struct nn_call *c) {
    return (int64_t)c->n * c->layer->h * c->layer->w;
}

static size_t batchnorm_workspace(const struct nn_call *c) {
    return c->k->batchnorm_workspace(c->ctx, batchnorm_rows(c), c->layer->c);
}

static size_t batchnorm_saved_bytes(const struct nn_layer *l, int n, size_t real) {
    (void)n;
    return 2 * (size_t)l->c * real;
}

static void *batchnorm_invstd(const struct nn_call *c) {
    return (char *)c->saved + (size_t)c->layer->c * c->k->real_bytes;
}

static void batchnorm_forward(const struct nn_call *c) {
    struct batchnorm_args a = {.rows = batchnorm_rows(c),
                               .channels = c->layer->c,
                               .eps = BATCHNORM_EPS,
                               .momentum = BATCHNORM_MOMENTUM,
                               .x = c->x[0],
                               .residual = c->x[1],
                               .gamma = c->param[0],
                               .beta = c->param[1],
                               .running_mean = c->stat_mean,
                               .running_var = c->stat_var,
                               .y = c->y,
                               .relu = c->layer->relu};
    if (!c->training) {
        c->k->batchnorm_forward_eval(c->ctx, &a);
        return;
    }
    a.save_mean = c->saved;
    a.save_invstd = batchnorm_invstd(c);
    c->k->batchnorm_forward_train(c->ctx, &a);
}

static void batchnorm_backward(const struct nn_call *c) {
    struct batchnorm_grad_args a = {.rows = batchnorm_rows(c),
                                    .channels = c->layer->c,
                                    .x = c->x[0],
                                    .y = c->y,
                                    .dy = c->dy,
                                    .gamma = c->param[0],
                                    .save_mean = c->saved,
                                    .save_invstd = batchnorm_invstd(c),
                                    .dx = c->dx[0],
                                    .dresidual = c->dx[1],
                                    .dgamma = c->dparam[0],
                                    .dbeta = c->dparam[1],
                                    .accumulate = c->dparam_add,
                                    .relu = c->layer->relu};
    c->k->batchnorm_backward(c->ctx, &a);
}

// The residual's gradient is dy itself behind the ReLU; without a residual dx may replace dy.
static int batchnorm_in_place(const struct nn_layer *l) {
    return l->in[1] >= 0 ? 1 : 0;
}

const struct nn_op nn_op_batchnorm = {.name = "batchnorm",
                                      .shape = batchnorm_shape,
                                      .workspace = batchnorm_workspace,
                                      .saved_bytes = batchnorm_saved_bytes,
                                      .forward = batchnorm_forward,
                                      .backward = batchnorm_backward,
                                      .keeps_input = true,
                                      .keeps_output = true,
                                      .in_place = batchnorm_in_place};

// ---- pooling -------------------------------------------------------------------------------

static void maxpool_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = x->h + 2 * l->pad < l->kernel ? 0 : kernel_conv_out(x->h, l->kernel, l->stride, l->pad);
    l->w = x->w + 2 * l->pad < l->kernel ? 0 : kernel_conv_out(x->w, l->kernel, l->stride, l->pad);
    l->c = x->c;
}

static struct pool2d_shape maxpool_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer, *x = c->input;
    return (struct pool2d_shape){.n = c->n,
                                 .h = x->h,
                                 .w = x->w,
                                 .c = x->c,
                                 .k = l->kernel,
                                 .stride = l->stride,
                                 .pad = l->pad};
}

static size_t maxpool_saved_bytes(const struct nn_layer *l, int n, size_t real) {
    (void)real;
    return layer_elements(l, n);
}

static void maxpool_forward(const struct nn_call *c) {
    struct pool2d_shape s = maxpool_of(c);
    c->k->maxpool_forward(c->ctx, &s, c->x[0], c->y, c->saved);
}

static void maxpool_backward(const struct nn_call *c) {
    struct pool2d_shape s = maxpool_of(c);
    if (c->dx[0])
        c->k->maxpool_backward(c->ctx, &s, c->dy, c->saved, c->dx[0]);
}

const struct nn_op nn_op_maxpool = {.name = "maxpool",
                                    .shape = maxpool_shape,
                                    .saved_bytes = maxpool_saved_bytes,
                                    .forward = maxpool_forward,
                                    .backward = maxpool_backward,
                                    .in_place = never_in_place};

static void avgpool_shape(struct nn_model *m, struct nn_layer *l) {
    l->h = l->w = 1;
    l->c = m->layer[l->in[0]].c;
}

static void avgpool_forward(const struct nn_call *c) {
    c->k->avgpool_forward(c->ctx, c->n, c->input->h * c->input->w, c->layer->c, c->x[0], c->y);
}

static void avgpool_backward(const struct nn_call *c) {
    if (c->dx[0])
        c->k->avgpool_backward(c->ctx, c->n, c->input->h * c->input->w, c->layer->c, c->dy,
                               c->dx[0]);
}

const struct nn_op nn_op_avgpool = {.name = "avgpool",
                                    .shape = avgpool_shape,
                                    .forward = avgpool_forward,
                                    .backward = avgpool_backward,
                                    .in_place = never_in_place};

// ---- linear --------------------------------------------------------------------------------

static void linear_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = l->w = 1;
    struct nn_param *w = model_add_param(m, l, "weight");
    w->out = l->c;
    w->kh = x->h;
    w->kw = x->w;
    w->in = x->c;
    w->linear = true;
    w->init = NN_INIT_UNIFORM;
    w->scale = 1 / sqrt((double)x->h * x->w * x->c);
    struct nn_param *b = model_add_param(m, l, "bias");
    b->out = l->c;
    b->vector = true;
    b->init = NN_INIT_UNIFORM;
    b->scale = w->scale;
}

static int linear_fan_in(const struct nn_call *c) {
    return c->input->h * c->input->w * c->input->c;
}

static size_t linear_workspace(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c;
    size_t a = c->k->gemm_workspace(c->ctx, c->n, out, in); // forward
    size_t b = c->k->gemm_workspace(c->ctx, c->n, in, out); // input gradient
    size_t w = c->k->gemm_workspace(c->ctx, out, in, c->n); // weight gradient
    size_t s = c->k->bias_workspace(c->ctx, c->n, out);
    a = a > b ? a : b;
    w = w > s ? w : s;
    return a > w ? a : w;
}

static void linear_forward(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c;
    struct gemm_args g = {.m = c->n,
                          .n = out,
                          .k = in,
                          .trans_b = 1,
                          .a = c->x[0],
                          .lda = in,
                          .b = c->param[0],
                          .ldb = in,
                          .c = c->y,
                          .ldc = out,
                          .alpha = 1,
                          .bias = c->param[1],
                          .relu = c->layer->relu};
    c->k->gemm(c->ctx, &g);
}

// With a fused ReLU dy is masked in place first; nobody else reads it afterwards.
static void linear_backward(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c;
    if (c->layer->relu)
        c->k->relu_backward(c->ctx, (size_t)c->n * (size_t)out, c->y, c->dy, c->dy);
    struct gemm_args w = {.m = out,
                          .n = in,
                          .k = c->n,
                          .trans_a = 1,
                          .a = c->dy,
                          .lda = out,
                          .b = c->x[0],
                          .ldb = in,
                          .c = c->dparam[0],
                          .ldc = in,
                          .alpha = 1,
                          .beta = c->dparam_add ? 1 : 0};
    c->k->gemm(c->ctx, &w);
    c->k->bias_backward(c->ctx, c->n, out, c->dy, c->dparam[1], c->dparam_add);
    if (!c->dx[0])
        return;
    struct gemm_args x = {.m = c->n,
                          .n = in,
                          .k = out,
                          .a = c->dy,
                          .lda = out,
                          .b = c->param[0],
                          .ldb = in,
                          .c = c->dx[0],
                          .ldc = in,
                          .alpha = 1,
                          .beta = c->dx_add[0] ? 1 : 0};
    c->k->gemm(c->ctx, &x);
}

const struct nn_op nn_op_linear = {.name = "linear",
                                   .shape = linear_shape,
                                   .workspace = linear_workspace,
                                   .forward = linear_forward,
                                   .backward = linear_backward,
                                   .keeps_input = true,
                                   .keeps_output = true,
                                   .adds = true,
                                   .in_place = never_in_place};
