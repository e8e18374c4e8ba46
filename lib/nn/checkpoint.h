// SPDX-License-Identifier: Apache-2.0
// Checkpoints: folders <state>/checkpoint-<step> with two safetensors files that no rank owns more
// than another:
//   model.safetensors  parameters and running statistics under torchvision's names and shapes
//   state.safetensors  optimizer state under the same names, and the position in its metadata
// A folder is written under a temporary name, synced, and renamed, so one that has its name is
// whole. The position counts samples, not steps per rank, so any world size can resume from it.
#ifndef NN_CHECKPOINT_H
#define NN_CHECKPOINT_H

#include "nn/network.h"
#include "nn/optimizer.h"

#include <sched.h>

enum { CHECKPOINT_EPOCHS_MAX = 65536, CHECKPOINT_TEXT_BYTES_MAX = 160 };

// Figures of one epoch, kept so that a resumed run can report all epochs.
struct epoch_record {
    double train_loss, train_top1; // means over the epoch; percent
    double test_loss, test_top1, test_top5;
    double seconds, images; // of training
};
#define EPOCH_NO_TEST (-1.0) // test_loss of an epoch without an evaluation
static inline bool epoch_has_test(const struct epoch_record *r) {
    return r->test_loss >= 0;
}

// The position of the training. All members except `data` are equal on all ranks.
struct train_position {
    int64_t step;     // optimizer updates done
    int64_t epoch;    // from 0
    int64_t consumed; // samples of that epoch, over all ranks
    int64_t samples;  // of the training set: consumed means nothing for another one
    int64_t seed;
    int64_t data;           // a digest of this rank's training set; 0: not known
    int64_t tracked;        // network.tracked
    int64_t optimizer_kind; // enum train_optimizer
    int64_t epochs_done;    // records that are filled
    double best_top1;       // percent; -1 before the first evaluation
    double loss_scale;      // of train.dtype f16; 0: this training has had none
    double loss_scale_good; // updates since it changed
    // Sums over the running epoch, so that its record is right after a resume in its middle.
    double epoch_loss_sum, epoch_top1_sum, epoch_images, epoch_seconds;
};

// Everything a checkpoint holds: a copy made between two steps, or what was read. It is of the
// whole model, whatever part of that a rank has.
struct checkpoint_image {
    const struct nn_model *model;
    float *params, *stats, *state[NETWORK_STATES_MAX];
    int states;
    struct optimizer optimizer;
    struct train_position at;
    struct epoch_record *epochs; // at.epochs_done
    char model_name[CHECKPOINT_TEXT_BYTES_MAX], stem[CHECKPOINT_TEXT_BYTES_MAX];
    char dataset[CHECKPOINT_TEXT_BYTES_MAX]; // its kind
};

void checkpoint_image_init(struct checkpoint_image *c, const struct nn_model *m, int states);
void checkpoint_image_fini(struct checkpoint_image *c); // safe on a zeroed one
// The numbers of a network that has the whole model, from it and into it.
void checkpoint_image_take(struct checkpoint_image *c, const struct network *net);
void checkpoint_image_give(const struct checkpoint_image *c, struct network *net);
// Everything else.
void checkpoint_image_note(struct checkpoint_image *c, const struct optimizer *o,
                           const struct train_position *at, const struct epoch_record *epochs);

// Writes the model alone, for use after the training: the average of its weights, if there is one.
int checkpoint_write_model(const struct checkpoint_image *c, const char *path, struct err *e);
// The folder <dir>/checkpoint-<step>; then all but the keep_last newest are removed (0: none is).
int checkpoint_write(const struct checkpoint_image *c, const char *dir, int keep_last,
                     struct err *e);

// The thread that writes in the background, at most one checkpoint at a time.
struct checkpoint_thread;
// cpus: where the thread may run, or NULL for where the caller may.
int checkpoint_thread_open(struct checkpoint_thread **out, const struct nn_model *m, int states,
                           const char *dir, int keep_last, const cpu_set_t *cpus, struct err *e);
// To be filled while nothing is written.
struct checkpoint_image *checkpoint_thread_image(struct checkpoint_thread *w);
void checkpoint_thread_go(struct checkpoint_thread *w); // begins to write the image
// Until the one before is written; its failure is reported here.
int checkpoint_thread_wait(struct checkpoint_thread *w, struct err *e);
void checkpoint_thread_close(struct checkpoint_thread *w); // NULL is allowed; waits

// ---- the folder (checkpoint_folder.c) ----

// Gives a finished folder below dir its name and syncs; one of the same step is replaced, and is
// there until then.
int checkpoint_place(const char *dir, const char *finished, int64_t step, struct err *e);
// A checkpoint that was finished by a writer that was killed before it had its name gets it.
void checkpoint_adopt(const char *dir);
// Steps of the checkpoints in dir, newest first, at most max; 0 when there is none; -1
// when the folder cannot be read. e may be NULL.
int checkpoint_list(const char *dir, int64_t *steps, int max, struct err *e);
// Removes those with a later step; what cannot be removed stays.
void checkpoint_remove_above(const char *dir, int64_t step);
// Removes all checkpoints except the keep_last newest and that of step; keep_last 0: removes none.
void checkpoint_remove_old(const char *dir, int64_t step, int keep_last);
void checkpoint_path(const char *dir, int64_t step, char *out, size_t out_bytes);

// The position alone, without reading the tensors.
int checkpoint_peek(const char *folder, struct train_position *at, struct err *e);

// Reads a model file into the image: every tensor must be there with the model's shape, in F32,
// F64, F16 or BF16. Names may begin with "module.", as DistributedDataParallel makes them; counts
// of batches may be missing. new_head: the last layer stays as it is, whatever the file has there.
int checkpoint_read_model(struct checkpoint_image *c, const char *path, bool new_head,
                          struct err *e);
// Reads a whole checkpoint folder, with o's kind of optimizer, whose step it sets. c->epochs
// becomes up to CHECKPOINT_EPOCHS_MAX records.
int checkpoint_read(struct checkpoint_image *c, struct optimizer *o, const char *folder,
                    struct err *e);

#endif
