// SPDX-License-Identifier: Apache-2.0
// How long a step takes: the programs of the ranks of one pipeline, run against each other on paper
// with the time of each item. The ranks of other pipelines do the same at the same moment, so that
// one stands for all. Pure.
//
// A rank does one thing at a time. Averages of gradients, and each direction between two stages,
// are queues of their own that run beside it, as the collectives do.
#ifndef TRAINER_STEP_FORECAST_H
#define TRAINER_STEP_FORECAST_H

#include "conf/train_config.h"
#include "trainer/step_program.h"

// Seconds that the items of a bucket take.
struct step_forecast_bucket {
    double backward, reduce, update, gather, outer;
};

struct step_forecast_stage {
    double forward; // of a micro-batch
    double send;    // its output to the next stage, and the gradient back
    int buckets;
    struct step_forecast_bucket *bucket;
};

// Of one rank; the four add up to the step.
struct step_forecast_time {
    double step;    // the same for all ranks
    double compute; // busy
    double stages;  // waits for another stage, and for the end of the step
    double network; // waits for averages of gradients, or for parameters
};

// programs and out: of the ranks of a pipeline, in its order; stage: of all stages of the model, in
// the model's order, chunks of each rank. ERR_FAILED where the programs wait for each other.
int step_forecast_run(const struct step_program *programs, int pipe,
                      const struct step_forecast_stage *stage, int chunks,
                      struct step_forecast_time *out, struct err *e);

// Peaks of GPUs, from their makers' data sheets: dense products, and memory.
struct step_forecast_gpu {
    const char *name;
    double flops[TRAIN_DTYPES]; // in a second; 0: it has no units for that type, and takes float
    double memory_bytes_per_s;
    double memory_gib;
};
extern const struct step_forecast_gpu step_forecast_gpus[]; // until a name that is NULL
// The type in which it makes the products of train.dtype.
enum train_dtype step_forecast_dtype(const struct step_forecast_gpu *gpu, enum train_dtype dtype);

#endif
