// SPDX-License-Identifier: Apache-2.0
// The cost of a layer: multiplications and moved numbers, from its shape alone. Pure.
#ifndef NN_LAYER_COST_H
#define NN_LAYER_COST_H

#include "nn/model.h"

// Of one sample; the weights are of all samples together.
struct layer_cost {
    int64_t flop;         // of a training step, both ways, a multiplication and an addition apart
    int64_t moved;        // numbers read and written by it, if each kernel does so once
    int64_t weights;      // numbers of parameters
    int64_t output;       // numbers of the output
    int64_t forward_flop; // of flop
};

// Multiplications of one sample on the way forward.
int64_t layer_cost_products(const struct nn_model *m, int layer);
void layer_cost_of(const struct nn_model *m, int layer, struct layer_cost *out);

#endif
