// SPDX-License-Identifier: Apache-2.0
// A plan while it is made and printed. Private to trainer_plan*.c.
#ifndef TRAINER_TRAINER_PLAN_IMPL_H
#define TRAINER_TRAINER_PLAN_IMPL_H

#include "nn/layer_cost.h"
#include "trainer/step_forecast.h"
#include "trainer/trainer_impl.h"
#include "trainer/trainer_plan.h"

#define PLAN_MEMORIES(X)                                                                           \
    X(PLAN_PARAMETERS, "parameters")                                                               \
    X(PLAN_GRADIENTS, "gradients")                                                                 \
    X(PLAN_OPTIMIZER, "optimizer")                                                                 \
    X(PLAN_ACTIVATIONS, "activations") /* and their gradients */                                   \
    X(PLAN_WORKSPACE, "workspace")     /* of kernels; statistics, labels */                        \
    X(PLAN_CHECKPOINT, "checkpoint")   /* the image that is written */                             \
    X(PLAN_DATA, "data")                                                                           \
    X(PLAN_TRANSIT, "transit") /* what collectives hold */                                         \
    X(PLAN_PROGRAM, "program")

enum plan_memory {
#define X(name, word) name,
    PLAN_MEMORIES(X)
#undef X
        PLAN_MEMORY_KINDS
};

struct plan_layer {
    struct layer_cost cost;
    int64_t activation_bytes;     // of a micro-batch: the output, and what is saved
    double forward_s, backward_s; // of a sample
    bool again;                   // it runs forward again in backward …
    int again_from;               // … before this layer does, from there on; 0: none
};

// Of one rank of a pipeline; ranks of other pipelines are like it.
struct plan_rank {
    int rank;
    size_t memory[PLAN_MEMORY_KINDS], memory_all;
    size_t arena[2]; // activations and their gradients as reals, and in bfloat16
    struct step_program program;
    struct step_forecast_time time;
};

// The exchanges of a stage in a step; of gradients, with local steps, in a round.
struct plan_traffic {
    size_t gradients; // bytes of the collective's operand; 0: alone
    size_t sent;      // by each rank in reductions and collections
    size_t output;    // of a micro-batch, to the next stage; 0: the last one
    int nodes, local; // that a stage's ranks are on; of them on one node
    bool crosses;     // the next stage is on another node
};

struct plan {
    const struct trainer_plan_request *request;
    struct trainer *t; // of rank 0, with nothing opened but sizes
    struct plan_layer *layer;
    struct plan_rank *rank;       // t->mesh.pipe
    struct plan_traffic *traffic; // t->parts
    int measured_n;               // images that the layers were measured with
    double update_s;              // of one parameter
    double moved_bytes_per_s;     // by additions of long vectors
    double cpu_load; // threads of a node's ranks for each of its processors, 1 at least
};

// trainer_plan_measure.c
int trainer_plan_measure(struct plan *p, struct err *e);
// trainer_plan_time.c: times of the ranks from those of the layers; gpu NULL: as measured.
int trainer_plan_time(struct plan *p, const struct step_forecast_gpu *gpu,
                      struct step_forecast_time *out, struct err *e);
// Whether such a GPU keeps activations in bfloat16.
bool trainer_plan_keeps(const struct plan *p, const struct step_forecast_gpu *gpu);
// trainer_plan_print.c
int trainer_plan_print(struct plan *p, struct strbuf *out, struct err *e);

#endif
