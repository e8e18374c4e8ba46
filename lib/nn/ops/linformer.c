// SPDX-License-Identifier: Apache-2.0
// Attention whose keys and values are brought from t positions to a fixed number: with
// Q = x Wq', K = x Wk', V = x Wv' and projections P of t x keys, softmax(Q (Pk' K)' / sqrt(d)) Pv'
// V. Parameters have the names of the package linformer.
#include "nn/layer.h"

#include <math.h>

enum { TO_Q, TO_K, TO_V, PROJ_K, PROJ_V, PARAMS };
enum { KEYS, VALUES, SIDES };

static void linformer_shape(struct nn_model *m, struct nn_layer *l) {
    static const char *const name[PARAMS] = {"to_q.weight", "to_k.weight", "to_v.weight", "proj_k",
                                             "proj_v"};
    layer_as(l, &m->layer[l->in[0]]);
    int heads = l->as.attention.heads, keys = l->as.attention.keys;
    if (heads < 1 || l->c % heads != 0 || keys < 1) {
        model_fault(m, l, "%d numbers are not %d heads, or %d is no number of keys", l->c, heads,
                    keys);
        return;
    }
    for (int i = 0; i < PARAMS; i++) {
        struct nn_param *p = model_add_param(m, l, name[i]);
        p->out = i < PROJ_K ? l->c : l->h * l->w;
        p->in = i < PROJ_K ? l->c : keys;
        p->linear = true;
        p->init = NN_INIT_UNIFORM;
        p->scale = 1 / sqrt((double)p->in);
    }
}

// Parts of what is kept; bytes. All but lse, which is reals, are of the layer's type of storage.
// Queries lie in front of the projected keys and values, as the kernel wants them, and so do their
// gradients, for which there is room from the start.
struct linformer_parts {
    size_t number; // bytes of one in memory
    size_t qkv, side[SIDES], lse, dqkv, all;
};

static struct linformer_parts parts_of(const struct nn_layer *l, int n, size_t real,
                                       enum kernel_type store) {
    enum { ALIGN = 64 };
    size_t rows = (size_t)layer_rows(l, n), width = (size_t)l->c;
    struct linformer_parts p = {.number = layer_store_bytes(1, real, store)};
    size_t qkv = (rows + 2 * (size_t)n * (size_t)l->as.attention.keys) * width * p.number;
    size_t bytes[] = {qkv, rows * width * p.number, rows * width * p.number,
                      rows * (size_t)l->as.attention.heads * real, qkv};
    size_t *const begin[] = {&p.qkv, &p.side[KEYS], &p.side[VALUES], &p.lse, &p.dqkv};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        *begin[i] = p.all;
        p.all += (bytes[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    return p;
}

static size_t linformer_saved_bytes(const struct nn_layer *l, int n, size_t real,
                                    enum kernel_type store) {
    return parts_of(l, n, real, store).all;
}

static struct linformer_parts parts_of_call(const struct nn_call *c) {
    return parts_of(c->layer, c->n, c->k->real_bytes, c->y_store);
}

// Three products with square weights; keys and values to fewer of them; scores and their sums.
static int64_t linformer_products(const struct nn_layer *l) {
    int64_t rows = layer_rows(l, 1), keys = l->as.attention.keys;
    return rows * l->c * (3 * (int64_t)l->c + SIDES * keys + 2 * keys);
}

static struct attention_shape attention_of(const struct nn_call *c) {
    const struct nn_layer *l = c->layer;
    return (struct attention_shape){.n = c->n,
                                    .t = l->h * l->w,
                                    .heads = l->as.attention.heads,
                                    .d = l->c / l->as.attention.heads,
                                    .keys = l->as.attention.keys,
                                    .type = c->type,
                                    .store = c->y_store};
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t linformer_workspace(const struct nn_call *c) {
    struct attention_shape s = attention_of(c);
    int rows = c->n * s.t, width = c->layer->c;
    size_t most = c->k->attention_workspace(c->ctx, &s);
    most = larger(most, c->k->gemm_workspace(c->ctx, c->type, rows, width, width));
    most = larger(most, c->k->gemm_workspace(c->ctx, c->type, width, width, rows));
    most = larger(most, c->k->gemm_workspace(c->ctx, c->type, s.keys, width, s.t));
    most = larger(most, c->k->gemm_workspace(c->ctx, c->type, s.t, width, s.keys));
    return larger(most, c->k->gemm_workspace(c->ctx, c->type, s.t, s.keys, width));
}

static void *at(const struct nn_call *c, size_t offset) {
    return (char *)c->saved + offset;
}

// Row 0 of the projected keys or values of an image; its rows are 2 * width apart.
static void *projected(const struct nn_call *c, size_t qkv, int image, int side) {
    const struct nn_layer *l = c->layer;
    size_t row = ((size_t)image * (size_t)l->as.attention.keys) * 2 + (size_t)side;
    size_t element = ((size_t)layer_rows(l, c->n) + row) * (size_t)l->c;
    return at(c, qkv + element * parts_of_call(c).number);
}

static void *of_image(const struct nn_call *c, size_t part, int image) {
    size_t element = (size_t)image * layer_elements(c->layer, 1);
    return at(c, part + element * parts_of_call(c).number);
}

static void linformer_forward(const struct nn_call *c) {
    struct linformer_parts p = parts_of_call(c);
    struct attention_shape s = attention_of(c);
    int width = c->layer->c;
    void *const out[] = {at(c, p.qkv), at(c, p.side[KEYS]), at(c, p.side[VALUES])};
    for (int i = TO_Q; i <= TO_V; i++) {
        struct gemm_args g = {
            .type = c->type, .m = c->n * s.t, .n = width, .k = width, .trans_b = 1, .alpha = 1};
        g.a = c->x[0], g.lda = width, g.b = c->param[i], g.ldb = width, g.c = out[i], g.ldc = width;
        g.a_store = c->x_store[0], g.c_store = s.store;
        c->k->gemm(c->ctx, &g);
    }
    for (int i = 0; i < SIDES * c->n; i++) {
        int image = i / SIDES, side = i % SIDES;
        struct gemm_args g = {
            .type = c->type, .m = s.keys, .n = width, .k = s.t, .trans_a = 1, .alpha = 1};
        g.a = c->param[PROJ_K + side], g.lda = s.keys;
        g.b = of_image(c, p.side[side], image), g.ldb = width, g.b_store = s.store;
        g.c = projected(c, p.qkv, image, side), g.ldc = 2 * width, g.c_store = s.store;
        c->k->gemm(c->ctx, &g);
    }
    c->k->attention_forward(c->ctx, &s, at(c, p.qkv), c->y, at(c, p.lse));
}

// Through the projection of keys or values. With K' = P' K and its gradient G: dP += K G', and
// dK = P G takes the place of K.
static void unproject(const struct nn_call *c, int side, int image) {
    struct linformer_parts p = parts_of_call(c);
    struct attention_shape s = attention_of(c);
    int width = c->layer->c;
    void *plain = of_image(c, p.side[side], image), *grad = projected(c, p.dqkv, image, side);
    struct gemm_args d = {
        .type = c->type, .m = s.t, .n = s.keys, .k = width, .trans_b = 1, .alpha = 1};
    d.a = plain, d.lda = width, d.b = grad, d.ldb = 2 * width, d.a_store = d.b_store = s.store;
    d.c = c->dparam[PROJ_K + side], d.ldc = s.keys, d.beta = image || c->dparam_add ? 1 : 0;
    c->k->gemm(c->ctx, &d);
    struct gemm_args x = {.type = c->type, .m = s.t, .n = width, .k = s.keys, .alpha = 1};
    x.a = c->param[PROJ_K + side], x.lda = s.keys, x.b = grad, x.ldb = 2 * width;
    x.c = plain, x.ldc = width, x.b_store = x.c_store = s.store;
    c->k->gemm(c->ctx, &x);
}

static void linformer_backward(const struct nn_call *c) {
    struct linformer_parts p = parts_of_call(c);
    struct attention_shape s = attention_of(c);
    int width = c->layer->c, rows = c->n * s.t;
    c->k->attention_backward(c->ctx, &s, at(c, p.qkv), c->y, at(c, p.lse), c->dy, at(c, p.dqkv));
    for (int i = 0; i < SIDES * c->n; i++)
        unproject(c, i % SIDES, i / SIDES);
    void *const grad[] = {at(c, p.dqkv), at(c, p.side[KEYS]), at(c, p.side[VALUES])};
    for (int i = TO_Q; i <= TO_V; i++) {
        struct gemm_args w = {
            .type = c->type, .m = width, .n = width, .k = rows, .trans_a = 1, .alpha = 1};
        w.a = grad[i], w.lda = width, w.b = c->x[0], w.ldb = width;
        w.a_store = s.store, w.b_store = c->x_store[0];
        w.c = c->dparam[i], w.ldc = width, w.beta = c->dparam_add ? 1 : 0;
        c->k->gemm(c->ctx, &w);
        if (!c->dx[0])
            continue;
        struct gemm_args x = {.type = c->type, .m = rows, .n = width, .k = width, .alpha = 1};
        x.a = grad[i], x.lda = width, x.b = c->param[i], x.ldb = width, x.a_store = s.store;
        x.c = c->dx[0], x.ldc = width, x.beta = i != TO_Q || c->dx_add[0] ? 1 : 0;
        x.c_store = c->x_store[0];
        c->k->gemm(c->ctx, &x);
    }
}

static unsigned linformer_uses(const struct nn_layer *l) {
    (void)l;
    return NN_USE_X0 | NN_USE_Y;
}

const struct nn_op nn_op_linformer = {.name = "linformer",
                                      .shape = linformer_shape,
                                      .workspace = linformer_workspace,
                                      .products = linformer_products,
                                      .saved_bytes = linformer_saved_bytes,
                                      .forward = linformer_forward,
                                      .backward = linformer_backward,
                                      .uses = linformer_uses,
                                      .adds = NN_USE_X0,
                                      .in_place = layer_never_in_place};
