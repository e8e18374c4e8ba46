// SPDX-License-Identifier: Apache-2.0
// A step of training as a list that one executor runs, item after item. The list decides the work
// of each rank and its order. Pure, so the lists of all ranks can be run against each other without
// a rank (program_verify).
//
// Plain training is LOAD FORWARD {BACKWARD REDUCE}… NORM… JUDGE UPDATE…; accumulation repeats the
// first three, and only the last micro-batch has REDUCE behind BACKWARD. Where ranks share out the
// update, REDUCE leaves each its part of the gradients, and GATHER… AWAIT… end the step. An
// evaluation is the way forward alone. A pipeline cuts the layers
// into stages of one rank each, which pass activations forward and their gradients back:
// Where ranks train by themselves for a round of steps, a step has no REDUCE, and a list of its own
// ends the round: CHANGE… JUDGE OUTER….
//
//   gpipe        all micro-batches forward, then all backward
//   1f1b         backward as soon as possible: no more micro-batches are kept than there are stages
//                (Narayanan et al., "PipeDream", SOSP 2019, with a flush)
//   interleaved  1f1b where each rank has several stages (Narayanan et al., "Efficient large-scale
//                language model training on GPU clusters using Megatron-LM", SC 2021)
#ifndef TRAINER_STEP_PROGRAM_H
#define TRAINER_STEP_PROGRAM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRAM_CHUNKS_MAX = 16, PROGRAM_NUMBER_MAX = 65535 };

enum step_op {
    STEP_LOAD,     // a batch: images where the first stage is, labels where the last one is
    STEP_RECV_X,   // input of the chunk from the stage before
    STEP_FORWARD,  // of the chunk; at the end of the model, the loss
    STEP_SEND_Y,   // output to the next stage
    STEP_RECV_DY,  // its gradient from there
    STEP_BACKWARD, // of the layers of one bucket
    STEP_SEND_DX,  // gradient of the input to the stage before
    STEP_REDUCE,   // begins to average the gradients of a bucket over the data-parallel ranks
    STEP_NORM,     // waits for that, and adds up the squares
    STEP_JUDGE,    // all gradients are known: whether the step is applied, and scaled by how much
    STEP_UPDATE,   // parameters of a bucket
    STEP_GATHER,   // begins to collect those from the ranks that updated a part of them
    STEP_AWAIT,    // waits for that
    STEP_CHANGE,   // begins to average the change of a bucket's parameters in a round
    STEP_OUTER,    // waits for that, and applies it to the parameters as the round began
    STEP_OPS
};

struct step_item {
    uint8_t op, chunk;    // chunk: which of this rank's stages
    uint16_t micro, slot; // micro-batch, and where its activations are kept
    uint16_t bucket;      // over all chunks of this rank
    int16_t peer;         // rank that is sent to or received from
};

struct step_program {
    struct step_item *item;
    int items;
    size_t room;
    int slots; // micro-batches that each chunk keeps at one time
};

// world = data x pipe. Ranks of one pipeline are neighbours, or far apart: those of one stage are.
struct mesh {
    int world, data, pipe;
    bool spread;
};
int mesh_data_rank(const struct mesh *l, int rank);
int mesh_pipe_rank(const struct mesh *l, int rank);
int mesh_rank(const struct mesh *l, int data_rank, int pipe_rank);

enum pipe_order { PIPE_GPIPE, PIPE_1F1B, PIPE_INTERLEAVED, PIPE_ORDERS };

struct step_spec {
    int micros; // micro-batches of each data-parallel rank
    enum pipe_order order;
    int chunks;                      // stages of each rank; above 1: interleaved
    int buckets[PROGRAM_CHUNKS_MAX]; // of this rank's gradients, by chunk
    bool parted;                     // each data-parallel rank updates a part of every bucket
    bool forward;                    // nothing but the way forward, through one slot
    bool alone;                      // ranks apply their own gradients: a step inside a round
    bool join;                       // nothing but the end of a round
};

// out: zeroed, or of an earlier call, whose memory is used again; no allocation where it is enough.
int program_make(struct step_program *out, const struct mesh *l, int rank,
                 const struct step_spec *s, struct err *e);
void program_free(struct step_program *p);

// Checks the programs of all ranks against each other; specs[rank] is the specification of
// ranks[rank]. Every micro-batch passes every stage once, no rank waits forever, no slot is reused
// while in use, every gradient is reduced once, when complete, and applied once.
int program_verify(const struct step_program *ranks, const struct step_spec *specs,
                   const struct mesh *l, struct err *e);

const char *step_op_name(enum step_op op);

#endif
