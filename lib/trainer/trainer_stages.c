// SPDX-License-Identifier: Apache-2.0
// The stages of the model on each rank, and the group of all ranks with the same stages.
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

int trainer_stages_open(struct trainer *t, struct err *e) {
    t->data = t->comm;
    t->device_data = t->device;
    if (t->mesh.pipe == 1)
        return 0;
    t->data = NULL;
    t->device_data = NULL;
    if (comm_split(&t->data, t->comm, t->pipe_rank, t->data_rank, e) < 0 ||
        (t->mesh.data > 1 &&
         trainer_device_split(t, &t->device_data, t->pipe_rank, t->data_rank, t->data, e) < 0) ||
        trainer_links_open(t, e) < 0)
        return err_wrap(e, "connecting the stages of the pipeline");
    return 0;
}

void trainer_stages_close(struct trainer *t) {
    trainer_links_close(t);
    if (t->device_data != t->device)
        t->config->device->collectives->close(t->device_data);
    if (t->data != t->comm)
        comm_close(t->data);
    for (int i = 0; i < t->parts; i++) {
        model_free(&t->part[i].model);
        bucket_free(&t->part[i].buckets);
    }
    free(t->part);
}
