// SPDX-License-Identifier: Apache-2.0
// The memory plan: where every activation, gradient and saved tensor of a step lies in one arena.
//
// Each tensor lives from the moment it is written to the moment it is last read, on a timeline of
// the forward passes of all layers, the loss, and the backward passes in reverse; tensors whose
// lives do not meet share memory. Made once, before the first step; pure.
#ifndef NN_PLAN_H
#define NN_PLAN_H

#include "nn/model.h"

enum { PLAN_BLOCKS_MAX = 3 * NN_LAYERS_MAX, PLAN_ALIGN_BYTES = 64 };

struct plan_block {
    size_t bytes;
    int from, to;  // first and last moment of use, inclusive
    size_t offset; // result
};

struct nn_plan {
    size_t output[NN_LAYERS_MAX];   // offset of the layer's output
    size_t gradient[NN_LAYERS_MAX]; // of the gradient of that output; training only
    size_t saved[NN_LAYERS_MAX];    // of what forward keeps for backward
    bool wanted[NN_LAYERS_MAX];     // the output has a gradient
    bool add[NN_LAYERS_MAX];        // backward adds to the gradient of in[0]
    size_t bytes;                   // of the arena
    size_t bytes_least;             // most that is alive at one moment: no plan can be smaller
};

// real_bytes: of one number. training false: forward only.
void plan_make(struct nn_plan *plan, const struct nn_model *m, int n, size_t real_bytes,
               bool training);

// Offsets for blocks so that those alive together do not overlap; returns the arena's size.
size_t plan_place(struct plan_block *blocks, int count);

#endif
