// SPDX-License-Identifier: Apache-2.0
// The memory plan: the place of every activation, gradient and saved tensor of a step in one arena.
//
// Each tensor lives from the moment it is written to the moment it is last read, on a timeline of
// the forward passes of all layers, the loss, and the backward passes in reverse; tensors whose
// lives do not meet share memory. Made once, before the first step; pure.
//
// A stage of a pipeline has several micro-batches under way. Each has a slot of its own for the
// tensors that live from forward to backward. All micro-batches share the other tensors.
//
// Layers that run again in backward have two lives, each in a place of its own: the first ends with
// the last reader on the way forward, the second begins before backward of their block.
#ifndef NN_MEMORY_PLAN_H
#define NN_MEMORY_PLAN_H

#include "kernels/kernels.h"
#include "nn/model.h"

enum { MEMORY_PLAN_ALIGN_BYTES = 64 };

struct memory_plan_block {
    size_t bytes;
    int from, to;  // first and last moment of use, inclusive
    size_t offset; // result
};

// How backward hands over the gradient of an input: one reader of a tensor writes its gradient, the
// others add to it; where a kind of layer cannot add, it writes apart and the sum is made behind
// it.
enum nn_hand { NN_HAND_WRITE, NN_HAND_ADD, NN_HAND_APART };

// Offsets with this bit are those in a slot.
#define MEMORY_PLAN_KEPT ((size_t)1 << (sizeof(size_t) * 8 - 1))

// Of one layer; offsets in the arena.
struct nn_place {
    size_t output;
    size_t gradient; // of the output; training only
    size_t saved;    // what forward keeps for backward
    bool wanted;     // the output has a gradient
    // Layers that run forward again in backward: output and saved are then elsewhere. Of the other
    // layers they are where they were.
    size_t output_back, saved_back;
    bool again;
    int again_from; // of the last layer of a block (recompute.h): its first layer
    // Products that make an activation, too, where the spec has `acts`. forward: of the layer in
    // front, this output. backward: of the layer behind, the gradient of what is activated here, in
    // the place of that of the output.
    bool acts_forward, acts_backward;
    // Where the spec has `sums`. sums: the convolution in front leaves sums for this batch norm, if
    // its shape does. stats_kept: what a batch norm saves lives on from its first time.
    bool sums, stats_kept;
    enum nn_hand hand[NN_INS_MAX];
    size_t apart[NN_INS_MAX]; // where NN_HAND_APART writes
};

struct memory_plan {
    struct nn_place *layer; // as many as the model has
    size_t bytes;           // of the arena, without its slots
    size_t kept_bytes;      // of a slot; 0: there is one micro-batch, and no slot
    size_t bytes_least;     // most that is alive at one moment: no plan can be smaller
};

struct memory_plan_spec {
    int n;                  // samples
    size_t real_bytes;      // of one number
    bool training;          // false: forward only
    int slots;              // micro-batches under way at one time
    bool recompute;         // blocks run forward again in backward (recompute.h)
    enum kernel_type store; // in which outputs and gradients are kept
    bool acts;              // products make activations, too (kernel_backend.gemm_acts)
    bool sums;              // convolutions leave sums (kernel_backend.conv2d_sums)
};
// memory_plan_free ends it.
void memory_plan_make(struct memory_plan *plan, const struct nn_model *m,
                      const struct memory_plan_spec *s);
// Runs the step on paper, with micro-batches in all slots. Each pass has to find the tensors that
// it reads, whole, where the plan has them. ERR_FAILED names the layer of a pass that does not.
int memory_plan_verify(const struct memory_plan *plan, const struct nn_model *m,
                       const struct memory_plan_spec *s, struct err *e);
void memory_plan_free(struct memory_plan *plan); // safe on a zeroed one

// Offsets for blocks so that those alive together do not overlap; returns the arena's size.
size_t memory_plan_place(struct memory_plan_block *blocks, int count);

#endif
