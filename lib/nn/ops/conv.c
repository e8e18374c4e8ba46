// SPDX-License-Identifier: Apache-2.0
// Convolution, with a bias or without. Initial weights are ResNet's without a bias, and those of
// PyTorch's Conv2d with one.
#include "nn/layer.h"

#include <math.h>

static void conv_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    layer_window(l, x);
    struct nn_param *w = model_add_param(m, l, "weight");
    int taps = l->as.window.kernel * l->as.window.kernel;
    w->out = l->c;
    w->kh = w->kw = l->as.window.flat ? 1 : l->as.window.kernel;
    w->in = l->as.window.flat ? taps * x->c : x->c;
    w->linear = l->as.window.flat;
    w->init = NN_INIT_NORMAL;
    w->scale = sqrt(2.0 / ((double)l->c * taps));
    w->fixed = l->fixed;
    if (l->bias || l->identity) {
        w->init = l->identity ? NN_INIT_IDENTITY : NN_INIT_UNIFORM;
        w->scale = 1 / sqrt((double)x->c * taps);
    }
    if (!l->bias)
        return;
    struct nn_param *b = model_add_param(m, l, "bias");
    b->out = l->c;
    b->vector = true;
    b->init = l->fixed ? NN_INIT_ZERO : NN_INIT_UNIFORM;
    b->scale = m->param[l->param].scale;
}

static struct conv2d_shape conv_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer, *x = c->input;
    return (struct conv2d_shape){.n = c->n,
                                 .h = x->h,
                                 .w = x->w,
                                 .c = x->c,
                                 .o = l->c,
                                 .kh = l->as.window.kernel,
                                 .kw = l->as.window.kernel,
                                 .stride = l->as.window.stride,
                                 .pad = l->as.window.pad,
                                 .type = c->type,
                                 .x_store = c->x_store[0],
                                 .y_store = c->y_store};
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
    if (c->y_sums)
        c->k->conv2d_forward_sums(c->ctx, &s, c->x[0], c->param[0], c->param[1], c->y);
    else
        c->k->conv2d_forward(c->ctx, &s, c->x[0], c->param[0], c->param[1], 0, c->y);
}

static int conv_sums(const struct nn_call *c) {
    struct conv2d_shape s = conv_of(c);
    return c->k->conv2d_sums(c->ctx, &s);
}

static size_t conv_weights(const struct conv2d_shape *s) {
    return (size_t)s->o * (size_t)s->kh * (size_t)s->kw * (size_t)s->c;
}

static void conv_backward(const struct nn_call *c) {
    struct conv2d_shape s = conv_of(c);
    const struct nn_layer *l = c->layer;
    if (l->fixed)
        c->k->zero(c->ctx, conv_weights(&s), c->dparam[0]);
    else
        c->k->conv2d_backward_weight(c->ctx, &s, c->x[0], c->dy, c->dparam[0], c->dparam_add);
    if (l->bias)
        LAYER_DO(c, c->y_store, bias_backward, (int64_t)c->n * l->h * l->w, l->c, c->dy,
                 c->dparam[1], c->dparam_add);
    if (c->dx[0])
        c->k->conv2d_backward_data(c->ctx, &s, c->dy, c->param[0], c->dx[0], c->dx_add[0]);
}

static unsigned conv_uses(const struct nn_layer *l) {
    (void)l;
    return NN_USE_X0;
}

const struct nn_op nn_op_conv = {.name = "conv",
                                 .shape = conv_shape,
                                 .workspace = conv_workspace,
                                 .sums = conv_sums,
                                 .forward = conv_forward,
                                 .backward = conv_backward,
                                 .uses = conv_uses,
                                 .mixes = true,
                                 .adds = NN_USE_X0,
                                 .in_place = layer_never_in_place};
