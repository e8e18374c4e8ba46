// SPDX-License-Identifier: Apache-2.0
// Layers whose outputs are dropped behind the forward pass and computed again in backward. Chen,
// Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016; PyTorch and SageMaker
// call it activation checkpointing. Pure.
#ifndef NN_RECOMPUTE_H
#define NN_RECOMPUTE_H

#include "nn/model.h"

struct recompute_layer {
    bool again; // the layer runs forward again
    int from;   // of the last layer of a block: the first one; backward of the block begins with
                // those of its layers that run again. 0: of no block, or not the last layer
};

// A block is a run of layers with one name up to a number ("layer1.0", "blocks.3") that only its
// last output leaves. That output stays; of the others those run again that backward reads, and
// those that they are computed from. out: as many as the model has layers. Returns how many blocks
// have a layer that runs again.
int recompute_blocks(const struct nn_model *m, struct recompute_layer *out);

#endif
