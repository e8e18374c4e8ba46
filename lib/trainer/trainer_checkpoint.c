// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints during training, on the nodes that keep them.
//
// Parameters, optimizer state and position are the same on all ranks, or are collected from those
// that have them. Rank 0's running statistics and clocks are shared before each checkpoint. So the
// first rank of every node (a keeper) writes the same bytes to a folder of its own, and any one
// node may be lost with its copy. Nodes that share rank 0's folders (a network file system) keep
// nothing there: one copy is enough.
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARK_BYTES = 40, FOLDERS = 3 };
enum { NO_KEEPER, KEPT, FAILED };

struct vote { // of a rank, about the last checkpoint
    int64_t kept, report_errno;
};

static const char *mark_path(struct trainer *t, struct arena *a, int folder, const char *mark) {
    const struct trainer_config *c = t->config;
    const char *const folders[FOLDERS] = {c->state_dir, c->model_dir, c->output_dir};
    return file_join(a, folders[folder], mark);
}

// Whether this rank's folders are not those of rank 0: rank 0 leaves a mark in each of its own, and
// the others look for it.
static int look_for_marks(struct trainer *t, bool *apart, struct err *e) {
    struct arena a = {0};
    char mark[MARK_BYTES] = "";
    struct err why = {0};
    int64_t made = 1;
    *apart = true;
    if (t->rank == 0) {
        uint64_t random;
        hash_random(&random, sizeof random);
        snprintf(mark, sizeof mark, ".dttrain-%016llx", (unsigned long long)random);
        for (int i = 0; i < FOLDERS && made; i++)
            made = file_append(mark_path(t, &a, i, mark), "", 0, &why) == 0;
    }
    int r = comm_broadcast(t->comm, &made, sizeof made, 0, e);
    if (r == 0)
        r = comm_broadcast(t->comm, mark, sizeof mark, 0, e);
    for (int i = 0; i < FOLDERS && r == 0 && t->rank != 0; i++)
        *apart = *apart && !file_exists(mark_path(t, &a, i, mark));
    if (r == 0)
        r = comm_barrier(t->comm, e);
    for (int i = 0; i < FOLDERS && t->rank == 0; i++)
        unlink(mark_path(t, &a, i, mark));
    arena_fini(&a);
    if (r == 0 && !made && t->rank == 0)
        *e = why;
    else if (r == 0 && !made)
        err_set(e, ERR_FAILED, "rank 0 cannot write to its folders");
    return r < 0 || !made ? -1 : 0;
}

int trainer_keeper_open(struct trainer *t, struct err *e) {
    const struct trainer_config *c = t->config;
    bool apart = true;
    if (c->comm.nodes > 1 && look_for_marks(t, &apart, e) < 0)
        return err_wrap(e, "looking whether nodes share their folders");
    if (c->comm.local_rank != 0 || (t->rank != 0 && !apart))
        return 0;
    checkpoint_adopt(c->state_dir);
    if (checkpoint_thread_open(&t->writer, t->model, t->states, c->state_dir,
                               (int)t->options->keep_last, &t->allowed, e) < 0)
        return -1;
    struct checkpoint_image *image = checkpoint_thread_image(t->writer);
    snprintf(image->dataset, sizeof image->dataset, "%s", t->train.kind);
    snprintf(image->model_name, sizeof image->model_name, "%s", t->model->text);
    snprintf(image->stem, sizeof image->stem, "%s", model_stem(t->model));
    return 0;
}

// Rank 0's own words may have gone to the same full disk; the first keeper elsewhere passes them
// on.
static void log_reports(struct trainer *t, const struct vote *all) {
    int first = 1;
    while (first < t->world && all[first].kept == NO_KEEPER)
        first++;
    if (all[0].report_errno && t->rank == first && !t->report_errno) {
        t->report_errno = (int)all[0].report_errno;
        log_warn("the node of rank 0 cannot write its metrics; training goes on without them",
                 "errno=%d reason=\"%s\"", t->report_errno, strerror(t->report_errno));
    }
}

// One copy is enough to continue. failed: this keeper has none, for the reason in why. With a full
// disk a node may not be able to log, so rank 0 reports the failure, too.
static int agree(struct trainer *t, bool failed, const struct err *why, struct err *e) {
    struct vote mine = {!t->writer ? NO_KEEPER : failed ? FAILED : KEPT, t->report_errno};
    struct vote *all = heap_alloc((size_t)t->world * sizeof *all);
    int kept = 0, first_failed = -1;
    int r = comm_all_gather(t->comm, &mine, all, sizeof mine, e);
    for (int i = t->world - 1; i >= 0; i--) {
        kept += all[i].kept == KEPT;
        first_failed = all[i].kept == FAILED ? i : first_failed;
    }
    if (r == 0)
        log_reports(t, all);
    free(all);
    if (r < 0)
        return err_wrap(e, "agreeing on a checkpoint");
    if (first_failed >= 0 && kept == 0) {
        if (!failed)
            return err_set(e, ERR_FAILED, "no node could write the checkpoint");
        *e = *why;
        return -1;
    }
    if (failed)
        log_warn("this node could not keep a checkpoint", "reason=\"%s\"", why->text);
    if (t->rank == 0 && first_failed >= 0 && first_failed != t->copy_missing)
        log_warn("the node of a rank could not keep a checkpoint; other nodes have it",
                 "rank=%d copies=%d", first_failed, kept);
    t->copy_missing = first_failed;
    return 0;
}

int trainer_checkpoint_wait(struct trainer *t, struct err *e) {
    struct err why = {0};
    bool failed = t->writer && checkpoint_thread_wait(t->writer, &why) < 0;
    return agree(t, failed, &why, e);
}

static int share(struct trainer *t, struct err *e) {
    if (trainer_share_stats(t, e) < 0 || comm_broadcast(t->comm, &t->at, sizeof t->at, 0, e) < 0)
        return -1;
    size_t bytes = (size_t)t->at.epochs_done * sizeof *t->epochs;
    return bytes ? comm_broadcast(t->comm, t->epochs, bytes, 0, e) : 0;
}

static double squares_of(struct network *net, size_t count, const char *numbers) {
    network_squares(net, count, numbers);
    return network_squares_sum(net);
}

// A loss may be finite where a moment or a running variance has overflown.
static int check_finite(struct trainer *t, struct err *e) {
    double squares = 0;
    for (int c = 0; c < t->chunks; c++) {
        struct network *net = &t->chunk[c].net;
        const struct nn_model *m = net->model;
        squares += squares_of(net, m->param_elements, net->params) +
                   squares_of(net, m->stat_elements, net->stats);
        for (int i = 0; i < net->states; i++)
            squares += squares_of(net, net->state_elements, net->state[i]);
    }
    if (trainer_device_check(t, e) < 0)
        return -1;
    if (comm_all_reduce_f64(t->comm, &squares, 1, COMM_SUM, e) < 0)
        return err_wrap(e, "looking at the numbers of a checkpoint");
    return isfinite(squares) ? 0
                             : trainer_diverged(t, "a number of the checkpoint is", t->at.step, e);
}

// Collects the parts of all ranks in the image that will be written.
static int hold(struct trainer *t, struct err *e) {
    struct checkpoint_image *image = t->writer ? checkpoint_thread_image(t->writer) : NULL;
    t->at.tracked = t->chunk[0].net.tracked;
    if (trainer_gather(t, image, e) < 0)
        return err_wrap(e, "collecting a checkpoint");
    if (image)
        checkpoint_image_note(image, &t->chunk[0].optimizer, &t->at, t->epochs);
    return 0;
}

int trainer_checkpoint_keep(struct trainer *t, bool wanted, struct err *e) {
    if (hold(t, e) < 0)
        return -1;
    if (t->writer && wanted)
        checkpoint_thread_go(t->writer);
    return 0;
}

static bool is_kept(const struct trainer *t) {
    return t->kept.samples > 0 && t->copy_missing < 0 && t->kept.step == t->at.step &&
           t->kept.epoch == t->at.epoch && t->kept.consumed == t->at.consumed;
}

void trainer_proven(struct trainer *t) {
    t->proven = true;
    if (t->held && t->writer)
        checkpoint_thread_go(t->writer);
    t->held = false;
}

int trainer_checkpoint(struct trainer *t, struct err *e) {
    int64_t since = clock_mono_ns();
    must(t->round.taken == 0);
    if (trainer_checkpoint_wait(t, e) < 0 || trainer_local_steps_share(t, e) < 0)
        return -1;
    t->at.tracked = t->chunk[0].net.tracked;
    // That of a streamed input is not known at the start, since it needs images of all the data.
    if (t->rank == 0 && trainer_data_digest(t, e) < 0)
        return -1;
    t->at.data = t->rank == 0 ? t->data_digest : t->at.data;
    if (t->config->comm.nodes > 1 && share(t, e) < 0)
        return err_wrap(e, "sharing a checkpoint");
    if (check_finite(t, e) < 0 || (t->options->check_every > 0 && trainer_check_ranks(t, e) < 0))
        return -1;
    int r = hold(t, e); // an image that is not written is kept all the same
    t->held = r == 0 && !is_kept(t);
    t->kept = t->at;
    if (t->proven)
        trainer_proven(t);
    trainer_phase(t, PHASE_CHECKPOINT, &since);
    return r;
}
