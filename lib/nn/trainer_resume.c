// SPDX-License-Identifier: Apache-2.0
// Where training begins: initial weights or a checkpoint, the same on all ranks. One rank has it
// and the others get it from there, so the state folder needs to be on one node only. With
// resume=auto that is the rank that sees the newest checkpoint, whichever node it was left on.
#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/trainer_state.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RESUME_TRIED_MAX = 16, NO_CHECKPOINT = -1 };

// What the root tells the others.
struct verdict {
    int64_t failed; // the root could not read what it was told to
    int64_t loaded; // 0: fresh weights, 1: weights only, 2: a whole checkpoint
    struct train_position at;
    int64_t optimizer_step;
};

static int64_t newest(const char *dir) {
    int64_t step;
    return checkpoint_list(dir, &step, 1) ? step : NO_CHECKPOINT;
}

// The newest checkpoint that can be read; a damaged one is passed over with a warning.
static int load_newest(struct trainer *t, const char *dir, struct verdict *v, struct err *e) {
    int64_t steps[RESUME_TRIED_MAX];
    int count = checkpoint_list(dir, steps, RESUME_TRIED_MAX);
    for (int i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES_MAX];
        checkpoint_path(dir, steps[i], path, sizeof path);
        if (checkpoint_read(&t->net, &t->optimizer, path, &v->at, t->epochs, e) == 0) {
            trainer_say(t, "resuming from %s: epoch %lld, step %lld", path, (long long)v->at.epoch,
                        (long long)v->at.step);
            v->loaded = 2;
            return 0;
        }
        if (e->code == ERR_CONFIG || i + 1 == count)
            return -1;
        log_warn("checkpoint cannot be read, trying the one before", "path=%s error=\"%s\"", path,
                 e->text);
    }
    return err_set(e, ERR_NOT_FOUND, "%s holds no checkpoint", dir);
}

// A folder of checkpoints, one checkpoint, or a model file.
static int load_path(struct trainer *t, const char *path, struct verdict *v, struct err *e) {
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "train.resume: %s", path);
    if (S_ISREG(st.st_mode)) {
        v->loaded = 1;
        trainer_say(t, "starting from the weights in %s", path);
        return checkpoint_read_model(&t->net, path, e);
    }
    struct arena a = {0};
    bool one = file_exists(file_join(&a, path, "state.safetensors"));
    arena_fini(&a);
    if (!one)
        return load_newest(t, path, v, e);
    v->loaded = 2;
    trainer_say(t, "resuming from %s", path);
    return checkpoint_read(&t->net, &t->optimizer, path, &v->at, t->epochs, e);
}

static int load(struct trainer *t, bool have, struct verdict *v, struct err *e) {
    const char *resume = t->options->resume;
    network_init(&t->net, (uint64_t)t->options->seed);
    t->net.tracked = 0;
    if (str_eq(resume, "never") || (str_eq(resume, "auto") && !have))
        return 0;
    if (str_eq(resume, "auto"))
        return load_newest(t, t->config->state_dir, v, e);
    return load_path(t, resume, v, e);
}

// The lowest rank that sees the newest checkpoint; 0 when none does.
static int find_root(struct trainer *t, bool *have, int *root, struct err *e) {
    *root = 0;
    *have = false;
    if (!str_eq(t->options->resume, "auto"))
        return 0;
    int64_t mine = newest(t->config->state_dir), *all;
    all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, &mine, all, sizeof mine, e);
    for (int i = 1; r == 0 && i < t->world; i++)
        if (all[i] > all[*root])
            *root = i;
    *have = r == 0 && all[*root] != NO_CHECKPOINT;
    free(all);
    return r;
}

static int share(struct trainer *t, int root, struct verdict *v, struct err *e) {
    size_t real = t->net.k->real_bytes, elements = t->model->param_elements;
    if (comm_broadcast(t->comm, t->net.params, elements * real, root, e) < 0 ||
        comm_broadcast(t->comm, t->net.stats, t->model->stat_elements * real, root, e) < 0)
        return -1;
    for (int i = 0; v->loaded == 2 && i < t->net.states; i++)
        if (comm_broadcast(t->comm, t->net.state[i], elements * real, root, e) < 0)
            return -1;
    return v->at.epochs_done == 0
               ? 0
               : comm_broadcast(t->comm, t->epochs, (size_t)v->at.epochs_done * sizeof *t->epochs,
                                root, e);
}

// Whether the position can be taken as it is.
static int accept_position(struct trainer *t, struct err *e) {
    struct train_position *at = &t->at;
    if (at->epoch > t->options->epochs)
        return err_set(e, ERR_CONFIG,
                       "the checkpoint is at epoch %lld, train.epochs is %lld: raise it, or set "
                       "train.resume to \"never\"",
                       (long long)at->epoch, (long long)t->options->epochs);
    bool same_data = at->samples == (int64_t)t->train.samples && at->seed == t->options->seed;
    if (at->consumed > 0 && !same_data) {
        if (t->rank == 0)
            log_warn("checkpoint was made with other data or another seed: its epoch starts again",
                     "epoch=%lld samples=%lld seed=%lld", (long long)at->epoch,
                     (long long)at->samples, (long long)at->seed);
        at->consumed = 0;
        at->epoch_loss_sum = at->epoch_top1_sum = at->epoch_images = at->epoch_seconds = 0;
    }
    at->samples = t->train.samples;
    at->seed = t->options->seed;
    return 0;
}

int trainer_resume(struct trainer *t, struct err *e) {
    struct verdict v = {.at.best_top1 = -1};
    bool have;
    int root;
    if (find_root(t, &have, &root, e) < 0)
        return -1;
    struct err why;
    if (t->rank == root) {
        v.failed = load(t, have, &v, &why) < 0;
        v.at.tracked = t->net.tracked;
        v.optimizer_step = t->optimizer.step;
    }
    if (comm_broadcast(t->comm, &v, sizeof v, root, e) < 0)
        return -1;
    if (v.failed) {
        if (t->rank != root)
            return err_set(e, ERR_FAILED, "rank %d could not read the checkpoint", root);
        *e = why;
        return -1;
    }
    if (share(t, root, &v, e) < 0)
        return -1;
    t->at = v.at;
    t->net.tracked = v.at.tracked;
    t->optimizer.step = v.optimizer_step;
    return accept_position(t, e);
}
