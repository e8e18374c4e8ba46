// SPDX-License-Identifier: Apache-2.0
// What the parts of the trainer share (trainer*.c); nobody else includes this.
#ifndef NN_TRAINER_STATE_H
#define NN_TRAINER_STATE_H

#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "nn/bucket.h"
#include "nn/checkpoint.h"
#include "nn/cores.h"
#include "nn/meter.h"
#include "nn/network.h"
#include "nn/optimizer.h"
#include "nn/program.h"
#include "nn/schedule.h"
#include "nn/trainer.h"

// The numbers that travel behind the gradients; their means come back.
enum { TAIL_LOSS, TAIL_TOP1, TAIL_TOP5, TAIL_STOP, TAIL_SAVE };

enum trainer_phase { PHASE_START, PHASE_DATA, PHASE_TRAIN, PHASE_EVAL, PHASE_CHECKPOINT, PHASES };

struct shard {
    struct sampler sampler;
    struct loader *loader;
};

struct step_times {
    int64_t data_ns, compute_ns, comm_ns, total_ns;
};

struct trainer {
    const struct trainer_config *config;
    const struct train_config *options;
    struct comm *comm;
    int rank, world;
    int shards; // world, or what config.shards pretends
    cpu_set_t allowed;
    struct machine_limits limits;
    struct cores cores;

    struct dataset train, test;
    int64_t data_digest; // of train: two sets with one digest hold the same images
    struct augment_config augment;
    struct shard shard[TRAINER_SHARDS_MAX]; // one, but for config.shards
    struct shard eval;

    struct nn_model *model;
    struct network net;
    struct optimizer optimizer;
    struct schedule schedule;
    struct bucket_reducer reducer;
    struct step_program program, last_program; // of a step; of the last one of an epoch

    struct train_position at;
    struct train_position
        kept; // of the newest checkpoint that was written or begun; samples 0: none
    struct epoch_record *epochs;
    struct checkpoint_writer *writer; // keepers; NULL: another rank writes
    int copy_missing;                 // the first rank whose last checkpoint failed; -1: none
    double lr, grad_norm;             // of the last step
    bool stop_seen, save_seen;
    int last_rows;      // samples of the last step's batch; 0: this process made no step
    bool proven;        // the weights are known to give a finite loss
    bool held;          // a checkpoint waits for that
    sig_atomic_t saves; // requests of config.save that have been taken up

    struct meter_set meters;
    struct step_times interval; // since the last line
    int64_t interval_steps, interval_images;
    double interval_loss, interval_top1, interval_top5; // sums over steps
    int metrics_fd;
    int report_errno;     // why metrics could not be written, the first time; 0: they could
    int64_t reports_lost; // lines
    int64_t phase_ns[PHASES];
    int64_t images, train_ns; // trained on in this process
    struct meter_eval last_eval;
};

// trainer_setup.c
int trainer_open(struct trainer *t, const struct trainer_config *config, struct err *e);
void trainer_close(struct trainer *t);
// trainer_resume.c: everything that is the same on all ranks comes from one of them.
int trainer_resume(struct trainer *t, struct err *e);
// trainer_checkpoint.c: every rank calls these at the same step.
int trainer_keeper_open(struct trainer *t, struct err *e);
// Takes one. It is written in the background as soon as its weights are proven: a run that diverges
// would find its last checkpoint diverged, and each restart would go on from there.
int trainer_checkpoint(struct trainer *t, struct err *e);
void trainer_proven(struct trainer *t);
int trainer_checkpoint_wait(struct trainer *t, struct err *e); // -1: no node could write it
int trainer_checkpoint_keep(struct trainer *t, struct err *e); // this rank's copy, if it keeps any
// trainer_step.c
void trainer_feed(struct trainer *t, const struct loader_batch *b, const struct dataset *d,
                  enum network_mode mode);           // a batch into the network's input
int trainer_epoch(struct trainer *t, struct err *e); // to its end, or until stop_seen
int trainer_diverged(const struct trainer *t, const char *what, int64_t step, struct err *e);
// trainer_eval.c
int trainer_eval(struct trainer *t, struct err *e);
int trainer_probe(struct trainer *t, struct err *e); // the last batch's loss with the last weights
// trainer_report.c
void trainer_report_open(struct trainer *t);
void trainer_report_step(struct trainer *t, int64_t batch, int64_t batches);
void trainer_report_eval(struct trainer *t);
void trainer_report_summary(struct trainer *t, const struct trainer_result *r);
void trainer_say(struct trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Adds the time since *since_ns to a phase and moves *since_ns to now.
void trainer_phase(struct trainer *t, enum trainer_phase phase, int64_t *since_ns);

#endif
