// SPDX-License-Identifier: Apache-2.0
// Batch norm, with the residual join and the ReLU that follow it.
#include "base/arena.h"
#include "nn/layer.h"

static void batchnorm_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = x->h;
    l->w = x->w;
    l->c = x->c;
    if (l->ins > 1) {
        const struct nn_layer *r = &m->layer[l->in[1]];
        if (r->h != l->h || r->w != l->w || r->c != l->c)
            model_fault(m, l, "residual '%s' is %d x %d x %d, not %d x %d x %d", r->name, r->h,
                        r->w, r->c, l->h, l->w, l->c);
    }
    struct nn_param *gamma = model_add_param(m, l, "weight");
    gamma->out = l->c;
    gamma->vector = true;
    gamma->init = NN_INIT_ONE;
    gamma->fixed = l->fixed;
    struct nn_param *beta = model_add_param(m, l, "bias");
    beta->out = l->c;
    beta->vector = true;
    beta->shift = true;
    beta->init = NN_INIT_ZERO;
    model_add_stat(m, l, l->c);
}

static int64_t batchnorm_rows(const struct nn_call *c) {
    return (int64_t)c->n * c->layer->h * c->layer->w;
}

static size_t batchnorm_workspace(const struct nn_call *c) {
    return c->k->batchnorm_workspace(c->ctx, batchnorm_rows(c), c->layer->c);
}

static size_t batchnorm_saved_bytes(const struct nn_layer *l, int n, size_t real,
                                    enum kernel_type store) {
    (void)store;
    (void)n;
    return 2 * (size_t)l->c * real;
}

static void *batchnorm_invstd(const struct nn_call *c) {
    return (char *)c->saved + (size_t)c->layer->c * c->k->real_bytes;
}

static void batchnorm_forward(const struct nn_call *c) {
    struct batchnorm_args a = {.rows = batchnorm_rows(c),
                               .channels = c->layer->c,
                               .eps = c->layer->as.norm.eps,
                               .momentum = c->layer->as.norm.momentum,
                               .x = c->x[0],
                               .residual = c->x[1],
                               .gamma = c->param[0],
                               .beta = c->param[1],
                               .running_mean = c->stat_mean,
                               .running_var = c->stat_var,
                               .y = c->y,
                               .relu = c->layer->act == NN_ACT_RELU,
                               .store = c->y_store};
    if (!c->training) {
        c->k->batchnorm_forward_eval(c->ctx, &a);
        return;
    }
    a.save_mean = c->saved;
    a.save_invstd = batchnorm_invstd(c);
    a.x_sums = c->x_sums, a.stats_kept = c->stats_kept;
    c->k->batchnorm_forward_train(c->ctx, &a);
}

// Where no gradient of x is wanted, it is written over dy.
static void batchnorm_backward(const struct nn_call *c) {
    must(c->dx[0] || c->dx[1] != c->dy);
    struct batchnorm_grad_args a = {.rows = batchnorm_rows(c),
                                    .channels = c->layer->c,
                                    .x = c->x[0],
                                    .y = c->y,
                                    .dy = c->dy,
                                    .gamma = c->param[0],
                                    .save_mean = c->saved,
                                    .save_invstd = batchnorm_invstd(c),
                                    .dx = c->dx[0] ? c->dx[0] : c->dy,
                                    .dresidual = c->dx[1],
                                    .dgamma = c->dparam[0],
                                    .dbeta = c->dparam[1],
                                    .accumulate = c->dparam_add,
                                    .relu = c->layer->act == NN_ACT_RELU,
                                    .store = c->y_store};
    c->k->batchnorm_backward(c->ctx, &a);
    if (c->layer->fixed)
        c->k->zero(c->ctx, (size_t)c->layer->c, c->dparam[0]);
}

// The residual's gradient is dy itself behind the ReLU; without a residual dx may replace dy.
static int batchnorm_in_place(const struct nn_layer *l) {
    return l->ins > 1 ? 1 : 0;
}

static unsigned batchnorm_uses(const struct nn_layer *l) {
    return NN_USE_X0 | (l->act ? NN_USE_Y : 0);
}

const struct nn_op nn_op_batchnorm = {.name = "batchnorm",
                                      .shape = batchnorm_shape,
                                      .workspace = batchnorm_workspace,
                                      .saved_bytes = batchnorm_saved_bytes,
                                      .forward = batchnorm_forward,
                                      .backward = batchnorm_backward,
                                      .uses = batchnorm_uses,
                                      .in_place = batchnorm_in_place};
