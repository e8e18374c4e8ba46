// SPDX-License-Identifier: Apache-2.0
// Counts the multiplications and the moved numbers of a layer.
#include "nn/layer_cost.h"

#include "nn/layer.h"

int64_t layer_cost_products(const struct nn_model *m, int layer) {
    const struct nn_layer *l = &m->layer[layer];
    int64_t weights = 0;
    if (l->op->products)
        return l->op->products(l);
    for (int i = l->param; i < l->param + l->params; i++)
        weights += m->param[i].vector || m->param[i].token ? 0 : (int64_t)m->param[i].count;
    return weights * layer_rows(l, 1);
}

// Backward makes the products of forward for the gradient of the weights, and again for that of the
// input, where they are wanted.
void layer_cost_of(const struct nn_model *m, int layer, struct layer_cost *out) {
    const struct nn_layer *l = &m->layer[layer];
    int64_t products = layer_cost_products(m, layer), times = 1, read = 0;
    times += !l->fixed;
    times += l->ins > 0 && (l->in[0] > 0 || m->has_before);
    *out = (struct layer_cost){.output = (int64_t)layer_elements(l, 1),
                               .forward_flop = 2 * products,
                               .flop = 2 * products * times};
    for (int i = 0; i < l->ins; i++)
        read += (int64_t)layer_elements(&m->layer[l->in[i]], 1);
    for (int i = l->param; i < l->param + l->params; i++)
        out->weights += (int64_t)m->param[i].count;
    // Forward reads x and writes y; backward reads x and dy, and writes dx.
    out->moved = l->ins ? 3 * read + 2 * out->output : 0;
}
