// SPDX-License-Identifier: Apache-2.0
// Chooses where training begins: initial weights or a checkpoint, the same on all ranks.
//
// With resume=auto the first rank of every node offers its newest checkpoint; the newest of all is
// read on its node and sent to the other ranks. A damaged checkpoint is not offered again, and the
// next best is tried. A node without the chosen checkpoint writes its copy at once, so that the
// next loss of a node costs no more than this one.
#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RESUME_TRIED_MAX = 16 };

// The message of the root to the other ranks.
struct verdict {
    int64_t failed;    // enum err_code of a failed read on the root
    int64_t loaded;    // 0: fresh weights, 1: weights only, 2: a whole checkpoint
    int64_t same_data; // the checkpoint was made with the root's seed and data
    struct train_position at;
    int64_t optimizer_step;
    int64_t tracked;
};

// A checkpoint that a rank has. Steps say little: after a loss fewer ranks take more of them.
struct offer {
    int64_t have; // enum offer_kind
    int64_t epoch, consumed, step;
};

enum offer_kind { OFFER_NONE, OFFER_DAMAGED /* nothing but */, OFFER_WHOLE };

struct damaged {
    int64_t steps[RESUME_TRIED_MAX];
    int count;
};

static int compare_offers(const struct offer *a, const struct offer *b) {
    const int64_t x[] = {a->have, a->epoch, a->consumed, a->step};
    const int64_t y[] = {b->have, b->epoch, b->consumed, b->step};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static bool is_damaged(const struct damaged *d, int64_t step) {
    for (int i = 0; i < d->count; i++)
        if (d->steps[i] == step)
            return true;
    return false;
}

static void set_aside(struct damaged *d, const char *path, int64_t step, const struct err *why) {
    log_warn("checkpoint cannot be read, trying another one", "path=%s error=\"%s\"", path,
             why->text);
    if (d->count < RESUME_TRIED_MAX)
        d->steps[d->count++] = step;
}

// This node's best checkpoint whose position can be read.
static struct offer find_offer(const struct trainer *t, struct damaged *d) {
    int64_t steps[RESUME_TRIED_MAX];
    struct offer best = {0};
    struct err unreadable;
    int count = t->config->comm.local_rank == 0 && d->count < RESUME_TRIED_MAX
                    ? checkpoint_list(t->config->state_dir, steps, RESUME_TRIED_MAX, &unreadable)
                    : 0;
    if (count < 0) {
        log_warn("checkpoints cannot be read", "error=\"%s\"", unreadable.text);
        best.have = OFFER_DAMAGED;
    }
    for (int i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES_MAX];
        struct train_position at;
        struct err why;
        checkpoint_path(t->config->state_dir, steps[i], path, sizeof path);
        if (is_damaged(d, steps[i]))
            continue;
        if (checkpoint_peek(path, &at, &why) < 0) {
            set_aside(d, path, steps[i], &why);
            continue;
        }
        struct offer o = {OFFER_WHOLE, at.epoch, at.consumed, steps[i]};
        if (compare_offers(&o, &best) > 0)
            best = o;
    }
    if (best.have == OFFER_NONE && d->count > 0)
        best.have = OFFER_DAMAGED;
    return best;
}

static int load_checkpoint(struct trainer *t, const char *path, struct verdict *v, struct err *e) {
    struct optimizer *o = &t->chunk[0].optimizer;
    v->loaded = 2;
    if (checkpoint_read(t->image, o, path, e) < 0)
        return -1;
    v->at = t->image->at;
    v->optimizer_step = o->step;
    memcpy(t->epochs, t->image->epochs, (size_t)v->at.epochs_done * sizeof *t->epochs);
    return 0;
}

static int load_weights(struct trainer *t, const char *path, struct verdict *v, struct err *e) {
    const struct nn_model *m = t->model;
    const struct nn_layer *head = &m->layer[m->layers - 1];
    v->loaded = 1;
    for (int i = head->param; t->options->new_head && i < head->param + head->params; i++)
        model_init_param(m, i, (uint64_t)t->options->seed, t->image->params + m->param[i].begin);
    return checkpoint_read_model(t->image, path, t->options->new_head, e);
}

// A folder of checkpoints, one checkpoint, or a model file.
static int load_path(struct trainer *t, const char *path, struct verdict *v, struct err *e) {
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "train.resume: %s", path);
    if (S_ISREG(st.st_mode))
        return load_weights(t, path, v, e);
    struct arena a = {0};
    bool one = file_exists(file_join(&a, path, "state.safetensors"));
    arena_fini(&a);
    char newest[FILE_PATH_BYTES_MAX];
    int64_t step;
    int count = one ? 1 : checkpoint_list(path, &step, 1, e);
    if (count <= 0)
        return count < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "%s holds no checkpoint", path);
    if (!one)
        checkpoint_path(path, step, newest, sizeof newest);
    return load_checkpoint(t, one ? path : newest, v, e);
}

static bool names_a_place(const char *resume) {
    return !str_eq(resume, "auto") && !str_eq(resume, "never");
}

static int load(struct trainer *t, const struct offer *o, struct verdict *v, struct err *e) {
    const char *resume = t->options->resume;
    char path[FILE_PATH_BYTES_MAX];
    t->image->at.tracked = 0;
    if (names_a_place(resume))
        return load_path(t, resume, v, e);
    if (o->have == OFFER_NONE)
        return t->config->weights ? load_weights(t, t->config->weights, v, e) : 0;
    checkpoint_path(t->config->state_dir, o->step, path, sizeof path);
    return load_checkpoint(t, path, v, e);
}

// The lowest rank with the best offer, and what it offers; rank 0 when there is none.
static int find_root(struct trainer *t, const struct offer *mine, struct offer *best, int *root,
                     struct err *e) {
    struct offer *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, mine, all, sizeof *mine, e);
    *root = 0;
    for (int i = 1; r == 0 && i < t->world; i++)
        if (compare_offers(&all[i], &all[*root]) > 0)
            *root = i;
    *best = all[*root];
    free(all);
    return r;
}

// Initial weights are a function of the seed, and every rank makes its own.
static int share(struct trainer *t, int root, struct verdict *v, struct err *e) {
    for (int c = 0; c < t->chunks && !v->loaded; c++)
        network_init(&t->chunk[c].net, (uint64_t)t->options->seed);
    if (!v->loaded && trainer_whiten(t, e) < 0)
        return -1;
    if (v->loaded && trainer_scatter(t, t->image, root, v->loaded == 2, e) < 0)
        return -1;
    return v->at.epochs_done == 0
               ? 0
               : comm_broadcast(t->comm, t->epochs, (size_t)v->at.epochs_done * sizeof *t->epochs,
                                root, e);
}

// Whether the checkpoint was made with this seed and this data. The rank that reads it decides for
// all.
static bool is_of_this_data(const struct trainer *t, const struct train_position *at) {
    return at->samples == t->shares[DATASET_TRAIN].images && at->seed == t->options->seed &&
           (!at->data || at->data == t->data_digest);
}

// Whether the position can be taken as it is.
static int accept_position(struct trainer *t, bool whole, bool same_data, struct err *e) {
    struct train_position *at = &t->at;
    if (at->epoch > t->options->epochs)
        return err_set(e, ERR_CONFIG,
                       "the checkpoint is at epoch %lld, train.epochs is %lld: raise it, or set "
                       "train.resume to \"never\"",
                       (long long)at->epoch, (long long)t->options->epochs);
    if (whole && !same_data && !t->options->resume_other)
        return err_set(e, ERR_CONFIG,
                       "the checkpoint is of another experiment: %lld images%s and seed %lld, here "
                       "%lld images and seed %lld (try: train.resume \"never\", or "
                       "train.resume_other true to go on from it all the same)",
                       (long long)at->samples,
                       at->samples == t->shares[DATASET_TRAIN].images &&
                               at->seed == t->options->seed
                           ? " of other content"
                           : "",
                       (long long)at->seed, (long long)t->shares[DATASET_TRAIN].images,
                       (long long)t->options->seed);
    if (at->consumed > 0 && !same_data) {
        if (t->rank == 0)
            log_warn("checkpoint was made with other data or another seed: its epoch starts again",
                     "epoch=%lld samples=%lld seed=%lld", (long long)at->epoch,
                     (long long)at->samples, (long long)at->seed);
        at->consumed = 0;
        at->epoch_loss_sum = at->epoch_top1_sum = at->epoch_images = at->epoch_seconds = 0;
    }
    at->samples = t->shares[DATASET_TRAIN].images;
    at->seed = t->options->seed;
    at->data = t->data_digest;
    return 0;
}

// One attempt: the root reads, and all ranks learn the result.
static int try_load(struct trainer *t, int root, const struct offer *best, struct verdict *v,
                    struct err *why, struct err *e) {
    *v = (struct verdict){.at.best_top1 = -1};
    if (t->rank == root) {
        v->failed = load(t, best, v, why) < 0 ? (int64_t)why->code : 0;
        v->tracked = t->image->at.tracked;
        if (!v->failed && v->at.data && trainer_data_digest(t, e) < 0)
            return -1;
        v->same_data = is_of_this_data(t, &v->at);
    }
    return comm_broadcast(t->comm, v, sizeof *v, root, e);
}

// Ends all ranks with the reason of the root, since any of them may be the one that is reported.
static int refuse_all(struct trainer *t, int root, const struct err *why, struct err *e) {
    char text[ERR_TEXT_BYTES_MAX];
    memcpy(text, why->text, sizeof text);
    if (comm_broadcast(t->comm, text, sizeof text, root, e) < 0)
        return -1;
    text[sizeof text - 1] = 0;
    if (t->rank != root)
        return err_set(e, ERR_FAILED, "rank %d cannot resume: %s", root, text);
    *e = *why;
    return -1;
}

// Reads the best checkpoint on the rank that has it; *root: that rank, *best: its offer.
static int load_best(struct trainer *t, int *root, struct offer *best, struct verdict *v,
                     struct err *e) {
    struct damaged damaged = {0};
    struct err why = {0};
    bool may_try = str_eq(t->options->resume, "auto");
    for (;;) {
        struct offer mine = may_try ? find_offer(t, &damaged) : (struct offer){0};
        if (find_root(t, &mine, best, root, e) < 0)
            return -1;
        if (best->have == OFFER_DAMAGED)
            return err_set(e, ERR_FAILED,
                           "no checkpoint can be read, on no node%s%s (to start afresh, set "
                           "train.resume to \"never\")",
                           why.code ? "; the last: " : "", why.code ? why.text : "");
        if (try_load(t, *root, best, v, &why, e) < 0)
            return -1;
        if (!v->failed)
            return 0;
        if (best->have == OFFER_NONE || v->failed == ERR_CONFIG)
            break;
        if (t->rank == *root) {
            char path[FILE_PATH_BYTES_MAX];
            checkpoint_path(t->config->state_dir, best->step, path, sizeof path);
            set_aside(&damaged, path, best->step, &why);
        }
    }
    return refuse_all(t, *root, &why, e);
}

// Checkpoints newer than the one we resume from are discarded: they belong to an abandoned group. A
// missing one is written here.
static int keep_loaded(struct trainer *t, const struct offer *best, struct err *e) {
    struct damaged none = {0};
    struct offer mine = find_offer(t, &none);
    if (t->writer)
        checkpoint_remove_above(t->config->state_dir, best->step);
    return trainer_checkpoint_keep(t, compare_offers(&mine, best) != 0, e);
}

static void say_start(struct trainer *t, int root, const struct offer *best,
                      const struct verdict *v) {
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(t->config->state_dir, best->step, path, sizeof path);
    if (v->loaded == 1)
        trainer_say(t, "starting from the weights in %s%s",
                    names_a_place(t->options->resume) ? t->options->resume : t->config->weights,
                    t->options->new_head ? ", with a last layer of its own" : "");
    else if (v->loaded == 2 && root != 0)
        trainer_say(t, "resuming from rank %d's %s: epoch %lld, step %lld", root, file_base(path),
                    (long long)v->at.epoch, (long long)v->at.step);
    else if (v->loaded == 2)
        trainer_say(t, "resuming from %s: epoch %lld, step %lld",
                    best->have == OFFER_WHOLE ? path : t->options->resume, (long long)v->at.epoch,
                    (long long)v->at.step);
}

static int resume(struct trainer *t, struct err *e) {
    struct verdict v;
    struct offer best;
    int root;
    if (load_best(t, &root, &best, &v, e) < 0)
        return -1;
    say_start(t, root, &best, &v);
    if (share(t, root, &v, e) < 0)
        return -1;
    for (int c = 0; c < t->chunks && v.loaded != 2; c++)
        optimizer_begin_averages(&t->chunk[c].optimizer, &t->chunk[c].net);
    for (int c = 0; c < t->chunks;
         c++) // a checkpoint has no slow statistics: of use to evaluations
        optimizer_begin_stats(&t->chunk[c].net);
    for (int c = 0; c < t->chunks; c++)
        optimizer_begin_round(&t->chunk[c].optimizer, &t->chunk[c].net);
    t->at = v.at;
    t->at.tracked = v.tracked;
    for (int c = 0; c < t->chunks; c++) {
        t->chunk[c].net.tracked = v.tracked;
        t->chunk[c].optimizer.step = v.optimizer_step;
    }
    t->proven = true;
    if (accept_position(t, v.loaded == 2, v.same_data, e) < 0)
        return -1;
    if (best.have == OFFER_WHOLE && t->at.consumed == v.at.consumed)
        t->kept = t->at;
    return best.have == OFFER_WHOLE && t->config->comm.nodes > 1 ? keep_loaded(t, &best, e) : 0;
}

// A checkpoint is read into the writer's image, or into one of its own.
int trainer_resume(struct trainer *t, struct err *e) {
    struct checkpoint_image own = {0};
    t->image = t->writer ? checkpoint_thread_image(t->writer) : &own;
    if (!t->writer && t->config->comm.local_rank == 0)
        checkpoint_image_init(&own, t->model, t->states);
    int r = resume(t, e);
    checkpoint_image_fini(&own);
    t->image = NULL;
    return r;
}
