// SPDX-License-Identifier: Apache-2.0
// The memory plan: the place of every activation, gradient and saved tensor of a step in one arena.
//
// Each tensor lives from the moment it is written to the moment it is last read, on a timeline of
// the forward passes of all layers, the loss, and the backward passes in reverse; tensors whose
// lives do not meet share memory. Made once, before the first step; pure.
//
// A stage of a pipeline has several micro-batches under way: what lives from forward to backward is
// kept for each of them, in a slot of its own; the rest they share.
#ifndef NN_PLAN_H
#define NN_PLAN_H

#include "nn/model.h"

enum { PLAN_ALIGN_BYTES = 64 };

struct plan_block {
    size_t bytes;
    int from, to;  // first and last moment of use, inclusive
    size_t offset; // result
};

// How backward hands over the gradient of an input: one reader of a tensor writes its gradient, the
// others add to it; where a kind of layer cannot add, it writes apart and the sum is made behind
// it.
enum nn_hand { NN_HAND_WRITE, NN_HAND_ADD, NN_HAND_APART };

// Offsets with this bit are those in a slot.
#define PLAN_KEPT ((size_t)1 << (sizeof(size_t) * 8 - 1))

// Of one layer; offsets in the arena.
struct nn_place {
    size_t output;
    size_t gradient; // of the output; training only
    size_t saved;    // what forward keeps for backward
    bool wanted;     // the output has a gradient
    enum nn_hand hand[NN_INS_MAX];
    size_t apart[NN_INS_MAX]; // where NN_HAND_APART writes
};

struct nn_plan {
    struct nn_place *layer; // as many as the model has
    size_t bytes;           // of the arena, without its slots
    size_t kept_bytes;      // of a slot; 0: there is one micro-batch, and no slot
    size_t bytes_least;     // most that is alive at one moment: no plan can be smaller
};

// real_bytes: of one number. training false: forward only. slots: micro-batches under way at one
// time. plan_free ends it.
void plan_make(struct nn_plan *plan, const struct nn_model *m, int n, size_t real_bytes,
               bool training, int slots);
void plan_free(struct nn_plan *plan); // safe on a zeroed one

// Offsets for blocks so that those alive together do not overlap; returns the arena's size.
size_t plan_place(struct plan_block *blocks, int count);

#endif
