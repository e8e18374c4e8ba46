// SPDX-License-Identifier: Apache-2.0
// Layer norm of each position, and GELU.
#include "nn/layer.h"

static void layernorm_shape(struct nn_model *m, struct nn_layer *l) {
    layer_as(l, &m->layer[l->in[0]]);
    static const char *const suffix[2] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        struct nn_param *p = model_add_param(m, l, suffix[i]);
        p->out = l->c;
        p->vector = true;
        p->shift = i == 1;
        p->init = i ? NN_INIT_ZERO : NN_INIT_ONE;
    }
}

static size_t layernorm_workspace(const struct nn_call *c) {
    return c->k->layernorm_workspace(c->ctx, layer_rows(c->layer, c->n), c->layer->c);
}

static size_t layernorm_saved_bytes(const struct nn_layer *l, int n, size_t real,
                                    enum kernel_type store) {
    (void)store;
    return 2 * (size_t)layer_rows(l, n) * real;
}

static void *layernorm_invstd(const struct nn_call *c) {
    return (char *)c->saved + (size_t)layer_rows(c->layer, c->n) * c->k->real_bytes;
}

static void layernorm_forward(const struct nn_call *c) {
    struct layernorm_args a = {.rows = layer_rows(c->layer, c->n),
                               .cols = c->layer->c,
                               .eps = c->layer->as.norm.eps,
                               .x = c->x[0],
                               .gamma = c->param[0],
                               .beta = c->param[1],
                               .save_mean = c->training ? c->saved : NULL,
                               .save_invstd = c->training ? layernorm_invstd(c) : NULL,
                               .y = c->y,
                               .store = c->y_store};
    c->k->layernorm_forward(c->ctx, &a);
}

static void layernorm_backward(const struct nn_call *c) {
    struct layernorm_grad_args a = {.rows = layer_rows(c->layer, c->n),
                                    .cols = c->layer->c,
                                    .x = c->x[0],
                                    .dy = c->dy,
                                    .dsum = c->dx_add[0] ? c->dx[0] : NULL,
                                    .gamma = c->param[0],
                                    .save_mean = c->saved,
                                    .save_invstd = layernorm_invstd(c),
                                    .dx = c->dx[0] ? c->dx[0] : c->dy,
                                    .dgamma = c->dparam[0],
                                    .dbeta = c->dparam[1],
                                    .accumulate = c->dparam_add,
                                    .store = c->y_store};
    c->k->layernorm_backward(c->ctx, &a);
}

static unsigned reads_input(const struct nn_layer *l) {
    (void)l;
    return NN_USE_X0;
}

static int replaces_gradient(const struct nn_layer *l) {
    (void)l;
    return 0;
}

const struct nn_op nn_op_layernorm = {.name = "layernorm",
                                      .shape = layernorm_shape,
                                      .workspace = layernorm_workspace,
                                      .saved_bytes = layernorm_saved_bytes,
                                      .forward = layernorm_forward,
                                      .backward = layernorm_backward,
                                      .uses = reads_input,
                                      .adds = NN_USE_X0,
                                      .in_place = replaces_gradient};

static void gelu_shape(struct nn_model *m, struct nn_layer *l) {
    layer_as(l, &m->layer[l->in[0]]);
}

static void gelu_forward(const struct nn_call *c) {
    if (!c->y_made)
        LAYER_DO(c, c->y_store, gelu_forward, layer_elements(c->layer, c->n), c->x[0], c->y);
}

static void gelu_backward(const struct nn_call *c) {
    if (c->dx[0] && !c->dy_made)
        LAYER_DO(c, c->y_store, gelu_backward, layer_elements(c->layer, c->n), c->x[0], c->dy,
                 c->dx[0]);
}

const struct nn_op nn_op_gelu = {.name = "gelu",
                                 .shape = gelu_shape,
                                 .forward = gelu_forward,
                                 .backward = gelu_backward,
                                 .uses = reads_input,
                                 .in_place = replaces_gradient};
