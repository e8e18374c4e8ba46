// SPDX-License-Identifier: Apache-2.0
// The stages of the model on each rank, and the resulting groups: all ranks with the same stages,
// and for each direction between two neighbours of a pipeline a group of two. A wait in one group
// does not block another.
#include "base/arena.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>

_Static_assert((int)PIPE_GPIPE == (int)TRAIN_PIPE_GPIPE && (int)PIPE_1F1B == (int)TRAIN_PIPE_1F1B &&
                   (int)PIPE_INTERLEAVED == (int)TRAIN_PIPE_INTERLEAVED,
               "the words of conf are the orders of programs");

// Processors of one machine update faster when each rank updates a part: the optimizer moves more
// bytes than the collectives do. Over networks, and between devices, the user chooses.
static bool is_sharded(const struct trainer *t) {
    const struct train_config *o = t->options;
    if (o->zero != TRAIN_ZERO_AUTO)
        return o->zero == TRAIN_ZERO_ON;
    return !t->config->device && t->config->comm.nodes == 1 && t->mesh.data > 1 &&
           t->round.steps == 0 && o->ema <= 0 && o->lookahead <= 0;
}

int trainer_stages_choose(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    struct train_parallel p;
    if (train_parallel(o, t->world, &p, e) < 0)
        return -1;
    t->order = (enum pipe_order)p.order;
    t->chunks = p.chunks;
    t->micros = p.micros;
    t->micro_batch = (int)(o->batch / p.micros);
    t->mesh = (struct mesh){.world = t->world,
                            .pipe = p.pipe,
                            .data = t->world / p.pipe,
                            .spread = o->placement == TRAIN_SPREAD};
    t->data_rank = mesh_data_rank(&t->mesh, t->rank);
    t->pipe_rank = mesh_pipe_rank(&t->mesh, t->rank);
    t->round.steps = o->local_steps > 1 ? o->local_steps : 0;
    t->round.same = true;
    t->zero = is_sharded(t);
    t->apart = t->round.steps || p.pipe > 1 || t->zero || o->wire != TRAIN_WIRE_F32;
    return 0;
}

int trainer_stages_cut(struct trainer *t, struct err *e) {
    const struct train_config *o = t->options;
    int stages = t->mesh.pipe * t->chunks;
    int *first = heap_alloc(((size_t)stages + (size_t)o->cuts.count + 2) * sizeof *first);
    int r = o->cuts.count ? stage_cut_at(t->model, o->cuts.items, (int)o->cuts.count, first, e)
                          : stage_cut(t->model, stages, first, e);
    t->parts = r == 0 ? stages : 0;
    t->part = heap_alloc(((size_t)t->parts + 1) * sizeof *t->part);
    for (int i = 0; i < t->parts; i++) {
        struct part *p = &t->part[i];
        stage_model(&p->model, t->model, first[i], first[i + 1]);
        size_t bytes = (size_t)o->bucket_bytes;
        bucket_cut(&p->buckets, &p->model,
                   bytes < BUCKET_FIRST_BYTES ? bytes : (size_t)BUCKET_FIRST_BYTES, bytes);
        p->states = p->model.param_elements;
        if (t->zero)
            p->states = bucket_part(&p->buckets, t->mesh.data);
    }
    free(first);
    return r;
}

// Neighbours s and s + 1 of a pipeline are a pair. A rank is in two pairs, which are split off in
// different rounds. The pair that closes the circle exists only with several stages per rank.
enum { ROUNDS = 3 };

static int round_of(const struct trainer *t, int pair) {
    int last = t->mesh.pipe - 1;
    if (pair == last && t->chunks == 1)
        return -1;
    return pair == last && last % 2 == 0 ? 2 : pair % 2;
}

// One direction: from the left of each pair to the right, or back.
static int open_links(struct trainer *t, bool forward, struct err *e) {
    int pipe = t->mesh.pipe, left = t->pipe_rank, right = (t->pipe_rank + pipe - 1) % pipe;
    for (int round = 0; round < ROUNDS; round++) {
        bool is_left = round_of(t, left) == round, is_right = round_of(t, right) == round;
        int color = is_left || is_right ? t->data_rank * pipe + (is_left ? left : right) : -1;
        struct comm *link;
        if (comm_split(&link, t->comm, color, is_right, e) < 0)
            return -1;
        if (link && is_left)
            t->link[forward ? STEP_SEND_Y : STEP_RECV_DY] = link;
        else if (link)
            t->link[forward ? STEP_RECV_X : STEP_SEND_DX] = link;
    }
    return 0;
}

int trainer_stages_open(struct trainer *t, struct err *e) {
    t->data = t->comm;
    if (t->mesh.pipe == 1)
        return 0;
    t->data = NULL;
    if (comm_split(&t->data, t->comm, t->pipe_rank, t->data_rank, e) < 0 ||
        open_links(t, true, e) < 0 || open_links(t, false, e) < 0)
        return err_wrap(e, "connecting the stages of the pipeline");
    return 0;
}

void trainer_stages_close(struct trainer *t) {
    for (int i = 0; i < STEP_OPS; i++)
        comm_close(t->link[i]);
    if (t->data != t->comm)
        comm_close(t->data);
    for (int i = 0; i < t->parts; i++) {
        model_free(&t->part[i].model);
        bucket_free(&t->part[i].buckets);
    }
    free(t->part);
}
