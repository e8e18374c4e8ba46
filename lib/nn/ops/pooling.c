// SPDX-License-Identifier: Apache-2.0
// Pooling: the maximum of a window, the mean of all positions.
#include "nn/layer.h"

static void maxpool_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    layer_window(l, x);
    l->c = x->c;
}

static struct pool2d_shape maxpool_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer, *x = c->input;
    return (struct pool2d_shape){.n = c->n,
                                 .h = x->h,
                                 .w = x->w,
                                 .c = x->c,
                                 .k = l->as.window.kernel,
                                 .stride = l->as.window.stride,
                                 .pad = l->as.window.pad,
                                 .store = c->y_store};
}

static size_t maxpool_saved_bytes(const struct nn_layer *l, int n, size_t real,
                                  enum kernel_type store) {
    (void)store;
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
                                    .in_place = layer_never_in_place};

static void avgpool_shape(struct nn_model *m, struct nn_layer *l) {
    l->h = l->w = 1;
    l->c = m->layer[l->in[0]].c;
}

static void avgpool_forward(const struct nn_call *c) {
    LAYER_DO(c, c->y_store, avgpool_forward, c->n, c->input->h * c->input->w, c->layer->c, c->x[0],
             c->y);
}

static void avgpool_backward(const struct nn_call *c) {
    if (c->dx[0])
        LAYER_DO(c, c->y_store, avgpool_backward, c->n, c->input->h * c->input->w, c->layer->c,
                 c->dy, c->dx[0]);
}

const struct nn_op nn_op_avgpool = {.name = "avgpool",
                                    .shape = avgpool_shape,
                                    .forward = avgpool_forward,
                                    .backward = avgpool_backward,
                                    .in_place = layer_never_in_place};
