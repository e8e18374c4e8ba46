// SPDX-License-Identifier: Apache-2.0
// One rank of a training run, from its options to the finished model.
//
// Every rank calls trainer_run with the same options. Training is data-parallel and synchronous
// (but for rounds of local steps, trainer_local_steps.c): each step, every rank takes its own batch
// and gradients are averaged. Rank 0 writes metrics.jsonl to output_dir. The first rank of every
// node writes summary.json to output_dir, model.safetensors to model_dir and checkpoints to
// state_dir, so that no node is the only one that has them; nodes that share these folders with
// rank 0 leave it to rank 0.
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include "comm/comm.h"
#include "comm/comm_device.h"
#include "conf/train_config.h"
#include "kernels/kernels.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { TRAINER_SHARDS_MAX = 64 };

// A device that computes in place of the processor.
struct trainer_device {
    const struct kernel_backend *kernels;
    const struct comm_device_table *collectives; // of its memory
    char *const *env;                            // for those
    void *handle;                                // kernel_config.device
    size_t memory_bytes;                         // that are free
    bool has_tf32;                               // for products (train.dtype)
    int processors;                              // of the node, before a rank stays near its GPU
    const char *about;                           // for people
};

struct trainer_config {
    const struct train_config *options;
    struct comm_config comm;
    const char *data; // path of the training data; NULL: the built-in shapes
    const char *val;  // of other data to evaluate on; NULL: the test part of data
    bool data_shared_out, val_shared_out; // every node has a share of its own of them
    const char *weights;    // file to begin with where there is no checkpoint; NULL: none
    const char *output_dir; // made if absent
    const char *model_dir;
    const char *state_dir;
    const char *cache_dir; // for decoded data sets; NULL: kept in memory
    int64_t started_ms;    // monotonic, when the process began
    const char *node_name; // for messages; NULL: the host's
    const char *run;       // id, for summary.json; NULL: none
    // Set to nonzero by a signal handler: write a checkpoint at the next step boundary and return.
    const volatile sig_atomic_t *stop;
    // Incremented by a signal handler: write a checkpoint at the next step boundary and continue.
    const volatile sig_atomic_t *save;
    // Lines for people, without newline (rank 0 only). NULL: none.
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
    // After every step, on every rank, with the mean loss over all ranks. NULL: none.
    void (*on_step)(void *ctx, int64_t step, double loss);
    void *on_step_ctx;
    // Checks of data parallelism: with world 1, do the work of so many ranks one after the other,
    // each shard normalised by its own batch statistics. 0 and 1: the ordinary single process.
    int shards;
    const struct trainer_device *device; // NULL: the processor, with train.kernels
};

struct trainer_result {
    bool stopped; // by config.stop, after a checkpoint
    int64_t steps, epochs;
    double final_loss, final_top1, final_top5; // of the last evaluation, else of the last
                                               // epoch; NAN: unknown
    double best_top1;
    double images_per_s;
};

int trainer_run(const struct trainer_config *config, struct trainer_result *result, struct err *e);

#endif
