// SPDX-License-Identifier: Apache-2.0
// Self-attention on queries, keys and values that one linear layer made: x[t][3][heads][width].
#include "nn/layer.h"

static void attention_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    int heads = l->as.attention.heads;
    layer_as(l, x);
    l->c = x->c / 3;
    if (x->c % 3 != 0 || heads < 1 || l->c % heads != 0)
        model_fault(m, l, "%d numbers are not queries, keys and values of %d heads", x->c, heads);
}

static struct attention_shape attention_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer;
    return (struct attention_shape){.n = c->n,
                                    .t = l->h * l->w,
                                    .heads = l->as.attention.heads,
                                    .d = l->c / l->as.attention.heads,
                                    .type = c->type,
                                    .store = c->y_store};
}

static size_t attention_workspace(const struct nn_call *c) {
    struct attention_shape s = attention_of(c);
    return c->k->attention_workspace(c->ctx, &s);
}

// Scores, and their sums of values.
static int64_t attention_products(const struct nn_layer *l) {
    return 2 * layer_rows(l, 1) * layer_rows(l, 1) * l->c;
}

static size_t attention_saved_bytes(const struct nn_layer *l, int n, size_t real,
                                    enum kernel_type store) {
    (void)store;
    return (size_t)layer_rows(l, n) * (size_t)l->as.attention.heads * real;
}

static void attention_forward(const struct nn_call *c) {
    struct attention_shape s = attention_of(c);
    c->k->attention_forward(c->ctx, &s, c->x[0], c->y, c->saved);
}

static void attention_backward(const struct nn_call *c) {
    struct attention_shape s = attention_of(c);
    if (c->dx[0])
        c->k->attention_backward(c->ctx, &s, c->x[0], c->y, c->saved, c->dy, c->dx[0]);
}

static unsigned attention_uses(const struct nn_layer *l) {
    (void)l;
    return NN_USE_X0 | NN_USE_Y;
}

const struct nn_op nn_op_attention = {.name = "attention",
                                      .shape = attention_shape,
                                      .workspace = attention_workspace,
                                      .products = attention_products,
                                      .saved_bytes = attention_saved_bytes,
                                      .forward = attention_forward,
                                      .backward = attention_backward,
                                      .uses = attention_uses,
                                      .in_place = layer_never_in_place};
