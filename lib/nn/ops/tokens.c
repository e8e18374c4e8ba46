// SPDX-License-Identifier: Apache-2.0
// Patches to tokens, with the class token in front and positions added; and the class token alone.
#include "nn/layer.h"

#include <stdio.h>

static void tokens_shape(struct nn_model *m, struct nn_layer *l) {
    const struct nn_layer *x = &m->layer[l->in[0]];
    l->h = x->h * x->w + 1;
    l->w = 1;
    l->c = x->c;
    struct nn_param *first = model_add_param(m, l, NULL);
    snprintf(first->name, sizeof first->name, "cls_token");
    first->out = 1;
    first->scale = l->as.tokens.first;
    struct nn_param *pos = model_add_param(m, l, NULL);
    pos->out = l->h;
    pos->scale = l->as.tokens.deviation;
    for (int i = 0; i < 2; i++) {
        struct nn_param *p = &m->param[l->param + i];
        p->in = l->c;
        p->token = true;
        p->init = NN_INIT_NORMAL;
    }
}

static struct tokens_shape tokens_of(const struct nn_call *c) {
    return (struct tokens_shape){
        .n = c->n, .p = c->layer->h - 1, .d = c->layer->c, .store = c->y_store};
}

static void tokens_forward(const struct nn_call *c) {
    struct tokens_shape s = tokens_of(c);
    c->k->tokens_forward(c->ctx, &s, c->x[0], c->param[0], c->param[1], c->y);
}

static void tokens_backward(const struct nn_call *c) {
    struct tokens_shape s = tokens_of(c);
    c->k->tokens_backward(c->ctx, &s, c->dy, c->dx[0], c->dparam[0], c->dparam[1], c->dparam_add);
}

const struct nn_op nn_op_tokens = {.name = "tokens",
                                   .shape = tokens_shape,
                                   .forward = tokens_forward,
                                   .backward = tokens_backward,
                                   .in_place = layer_never_in_place};

static void first_token_shape(struct nn_model *m, struct nn_layer *l) {
    l->h = l->w = 1;
    l->c = m->layer[l->in[0]].c;
}

static void first_token_forward(const struct nn_call *c) {
    LAYER_DO(c, c->y_store, first_token_forward, c->n, c->input->h, c->layer->c, c->x[0], c->y);
}

static void first_token_backward(const struct nn_call *c) {
    if (c->dx[0])
        LAYER_DO(c, c->y_store, first_token_backward, c->n, c->input->h, c->layer->c, c->dy,
                 c->dx[0]);
}

const struct nn_op nn_op_first_token = {.name = "first_token",
                                        .shape = first_token_shape,
                                        .forward = first_token_forward,
                                        .backward = first_token_backward,
                                        .in_place = layer_never_in_place};
