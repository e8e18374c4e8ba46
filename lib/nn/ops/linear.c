// SPDX-License-Identifier: Apache-2.0
// Linear layer, with a bias or without, on all numbers of a sample or on each position, with the
// ReLU or the residual join that follows it.
#include "nn/layer.h"

#include <math.h>

static void linear_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    bool rows = l->as.linear.rows;
    l->h = rows ? x->h : 1;
    l->w = rows ? x->w : 1;
    const struct nn_layer *r = l->ins > 1 ? &m->layer[l->in[1]] : l;
    if (r->h != l->h || r->w != l->w || r->c != l->c)
        model_fault(m, l, "residual '%s' is %d x %d x %d, not %d x %d x %d", r->name, r->h, r->w,
                    r->c, l->h, l->w, l->c);
    struct nn_param *w = model_add_param(m, l, "weight");
    double deviation = l->as.linear.deviation;
    w->out = l->c;
    w->kh = rows ? 1 : x->h;
    w->kw = rows ? 1 : x->w;
    w->in = x->c;
    w->linear = true;
    w->init = deviation > 0 ? NN_INIT_NORMAL : NN_INIT_UNIFORM;
    w->scale = deviation > 0 ? deviation : 1 / sqrt((double)w->kh * w->kw * w->in);
    if (!l->bias)
        return;
    struct nn_param *b = model_add_param(m, l, "bias");
    b->out = l->c;
    b->vector = true;
    b->init = deviation > 0 ? NN_INIT_ZERO : NN_INIT_UNIFORM;
    b->scale = m->param[l->param].scale;
}

static double linear_scale(const struct nn_call *c) {
    double scale = c->layer->as.linear.scale;
    return scale > 0 ? scale : 1;
}

static int linear_fan_in(const struct nn_call *c) {
    const struct nn_layer *x = c->input;
    return c->layer->as.linear.rows ? x->c : x->h * x->w * x->c;
}

static int linear_rows(const struct nn_call *c) {
    return (int)layer_rows(c->layer, c->n);
}

static size_t linear_workspace(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c, rows = linear_rows(c);
    size_t a = c->k->gemm_workspace(c->ctx, c->type, rows, out, in); // forward
    size_t b = c->k->gemm_workspace(c->ctx, c->type, rows, in, out); // input gradient
    size_t w = c->k->gemm_workspace(c->ctx, c->type, out, in, rows); // weight gradient
    size_t s = c->k->bias_workspace(c->ctx, rows, out);
    a = a > b ? a : b;
    w = w > s ? w : s;
    return a > w ? a : w;
}

static void linear_forward(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c, rows = linear_rows(c);
    struct gemm_args g = {.type = c->type,
                          .m = rows,
                          .n = out,
                          .k = in,
                          .trans_b = 1,
                          .a = c->x[0],
                          .lda = in,
                          .b = c->param[0],
                          .ldb = in,
                          .c = c->y,
                          .ldc = out,
                          .alpha = linear_scale(c),
                          .bias = c->param[1],
                          .relu = c->layer->act == NN_ACT_RELU,
                          .gelu = c->gelu_y,
                          .a_store = c->x_store[0],
                          .c_store = c->y_store};
    bool joins = c->x[1] && (c->y_store == KERNEL_BF16 || c->k->remote) && !c->layer->act;
    if (joins)
        g.beta = 1, g.from = c->x[1];
    c->k->gemm(c->ctx, &g);
    if (c->x[1] && !joins)
        LAYER_DO(c, c->y_store, add, (size_t)rows * (size_t)out, c->y, c->x[1], c->y);
}

// The residual's gradient is dy, where it does not take its place.
static void linear_residual(const struct nn_call *c) {
    size_t count = layer_elements(c->layer, c->n);
    if (!c->dx[1] || c->dx[1] == c->dy)
        return;
    if (!c->dx_add[1])
        LAYER_DO(c, c->y_store, zero, count, c->dx[1]);
    LAYER_DO(c, c->y_store, add, count, c->dy, c->dx[1], c->dx[1]);
}

// With a fused ReLU dy is masked in place first, unless the product behind has done so; no later
// pass reads it.
static void linear_backward(const struct nn_call *c) {
    int in = linear_fan_in(c), out = c->layer->c, rows = linear_rows(c);
    if (c->layer->act && !c->dy_made)
        LAYER_DO(c, c->y_store, relu_backward, (size_t)rows * (size_t)out, c->y, c->dy, c->dy);
    struct gemm_args w = {.type = c->type,
                          .m = out,
                          .n = in,
                          .k = rows,
                          .trans_a = 1,
                          .a = c->dy,
                          .lda = out,
                          .b = c->x[0],
                          .ldb = in,
                          .c = c->dparam[0],
                          .ldc = in,
                          .alpha = linear_scale(c),
                          .beta = c->dparam_add ? 1 : 0,
                          .a_store = c->y_store,
                          .b_store = c->x_store[0]};
    c->k->gemm(c->ctx, &w);
    if (c->layer->bias)
        LAYER_DO(c, c->y_store, bias_backward, rows, out, c->dy, c->dparam[1], c->dparam_add);
    linear_residual(c);
    if (!c->dx[0])
        return;
    struct gemm_args x = {.type = c->type,
                          .m = rows,
                          .n = in,
                          .k = out,
                          .a = c->dy,
                          .lda = out,
                          .b = c->param[0],
                          .ldb = in,
                          .c = c->dx[0],
                          .ldc = in,
                          .alpha = linear_scale(c),
                          .beta = c->dx_add[0] ? 1 : 0,
                          .relu_of = c->dx_relu ? c->x[0] : NULL,
                          .gelu_of = c->gelu_x,
                          .a_store = c->y_store,
                          .c_store = c->x_store[0]};
    c->k->gemm(c->ctx, &x);
}

static unsigned linear_uses(const struct nn_layer *l) {
    return NN_USE_X0 | (l->act ? NN_USE_Y : 0);
}

static int linear_in_place(const struct nn_layer *l) {
    return l->ins > 1 ? 1 : -1;
}

const struct nn_op nn_op_linear = {.name = "linear",
                                   .shape = linear_shape,
                                   .workspace = linear_workspace,
                                   .forward = linear_forward,
                                   .backward = linear_backward,
                                   .uses = linear_uses,
                                   .mixes = true,
                                   .adds = NN_USE_X0 | NN_USE_X1,
                                   .in_place = linear_in_place};
