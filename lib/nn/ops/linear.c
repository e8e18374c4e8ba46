// SPDX-License-Identifier: Apache-2.0
// Linear layer on all numbers of a sample, with bias, and the ReLU that follows it.
#include "nn/layer.h"

#include <math.h>

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
                          .relu = c->layer->act == NN_ACT_RELU};
    c->k->gemm(c->ctx, &g);
}

// With a fused ReLU dy is masked in place first; nobody else reads it afterwards.
static void linear_backward(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c;
    if (c->layer->act)
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

static unsigned linear_uses(const struct nn_layer *l) {
    return NN_USE_X0 | (l->act ? NN_USE_Y : 0);
}

const struct nn_op nn_op_linear = {.name = "linear",
                                   .shape = linear_shape,
                                   .workspace = linear_workspace,
                                   .forward = linear_forward,
                                   .backward = linear_backward,
                                   .uses = linear_uses,
                                   .adds = NN_USE_X0,
                                   .in_place = layer_never_in_place};
