// SPDX-License-Identifier: Apache-2.0
// Converts between distributed parameters, statistics and optimizer state, which are on the ranks
// that compute with them, and checkpoints of the whole model. All ranks process the same ranges in
// order; the owner of a piece sends it to all others.
#include "base/arena.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 18 };
enum { KIND_PARAMS, KIND_STATS, KIND_STATE }; // and the states behind the first

// Numbers of one kind that one rank of a stage has, or all of them.
struct range {
    int stage, kind;
    int data_rank;     // that has it
    bool alone;        // and no other rank of the stage
    size_t begin, end; // elements of the stage
    size_t at;         // of that rank's buffer
};

typedef int range_fn(struct trainer *t, const struct range *r, void *ctx, struct err *e);

static int each_state(struct trainer *t, int stage, int kind, range_fn *fn, void *ctx,
                      struct err *e) {
    const struct bucket_list *list = &t->part[stage].buckets;
    int owners = t->zero ? t->mesh.data : 1;
    for (int b = 0; b < list->count; b++)
        for (int i = 0; i < owners; i++) {
            struct range r = {.stage = stage,
                              .kind = kind,
                              .data_rank = i,
                              .alone = owners > 1,
                              .at = list->bucket[b].state};
            bucket_own(&list->bucket[b], i, &r.begin, &r.end);
            if (fn(t, &r, ctx, e) < 0)
                return -1;
        }
    return 0;
}

static int each_range(struct trainer *t, bool states, range_fn *fn, void *ctx, struct err *e) {
    for (int s = 0; s < t->parts; s++) {
        const struct nn_model *m = &t->part[s].model;
        const struct range whole[] = {{.stage = s, .kind = KIND_PARAMS, .end = m->param_elements},
                                      {.stage = s, .kind = KIND_STATS, .end = m->stat_elements}};
        if (fn(t, &whole[0], ctx, e) < 0 || fn(t, &whole[1], ctx, e) < 0)
            return -1;
        for (int i = 0; states && i < t->states; i++)
            if (each_state(t, s, KIND_STATE + i, fn, ctx, e) < 0)
                return -1;
    }
    return 0;
}

static int owner(const struct trainer *t, const struct range *r) {
    return mesh_rank(&t->mesh, r->data_rank, r->stage % t->mesh.pipe);
}

static bool has(const struct trainer *t, const struct range *r) {
    return r->stage % t->mesh.pipe == t->pipe_rank && (!r->alone || r->data_rank == t->data_rank);
}

static char *buffer_of(struct trainer *t, const struct range *r) {
    struct network *net = &t->chunk[r->stage / t->mesh.pipe].net;
    return r->kind == KIND_PARAMS  ? net->params
           : r->kind == KIND_STATS ? net->stats
                                   : net->state[r->kind - KIND_STATE];
}

static float *image_of(const struct trainer *t, const struct checkpoint_image *c,
                       const struct range *r) {
    const struct nn_model *m = &t->part[r->stage].model;
    if (r->kind == KIND_STATS)
        return c->stats + m->stat_begin + r->begin;
    return (r->kind == KIND_PARAMS ? c->params : c->state[r->kind - KIND_STATE]) + m->param_begin +
           r->begin;
}

struct transfer {
    struct checkpoint_image *to;         // gather: NULL where nothing is kept
    const struct checkpoint_image *from; // scatter: at the root
    int root;
    float *piece;
};

static int gather_range(struct trainer *t, const struct range *r, void *ctx, struct err *e) {
    struct transfer *x = ctx;
    int from = owner(t, r);
    for (size_t done = 0, all = r->end - r->begin; done < all; done += PIECE_ELEMENTS) {
        size_t n = all - done < PIECE_ELEMENTS ? all - done : PIECE_ELEMENTS;
        if (t->rank == from)
            network_get(&t->chunk[r->stage / t->mesh.pipe].net, buffer_of(t, r), r->at + done, n,
                        x->piece);
        if (comm_broadcast(t->comm, x->piece, n * sizeof *x->piece, from, e) < 0)
            return -1;
        if (x->to)
            memcpy(image_of(t, x->to, r) + done, x->piece, n * sizeof *x->piece);
    }
    return 0;
}

static int scatter_range(struct trainer *t, const struct range *r, void *ctx, struct err *e) {
    struct transfer *x = ctx;
    for (size_t done = 0, all = r->end - r->begin; done < all; done += PIECE_ELEMENTS) {
        size_t n = all - done < PIECE_ELEMENTS ? all - done : PIECE_ELEMENTS;
        if (t->rank == x->root)
            memcpy(x->piece, image_of(t, x->from, r) + done, n * sizeof *x->piece);
        if (comm_broadcast(t->comm, x->piece, n * sizeof *x->piece, x->root, e) < 0)
            return -1;
        if (has(t, r))
            network_set(&t->chunk[r->stage / t->mesh.pipe].net, buffer_of(t, r), r->at + done, n,
                        x->piece);
    }
    return 0;
}

int trainer_gather(struct trainer *t, struct checkpoint_image *to, struct err *e) {
    if (t->parts == 1 && !t->zero) { // every rank has everything
        if (to)
            checkpoint_image_take(to, &t->chunk[0].net);
        return 0;
    }
    struct transfer x = {.to = to, .piece = heap_alloc(PIECE_ELEMENTS * sizeof(float))};
    int r = each_range(t, true, gather_range, &x, e);
    free(x.piece);
    return r;
}

int trainer_scatter(struct trainer *t, const struct checkpoint_image *from, int root, bool states,
                    struct err *e) {
    struct transfer x = {
        .from = from, .root = root, .piece = heap_alloc(PIECE_ELEMENTS * sizeof(float))};
    int r = each_range(t, states, scatter_range, &x, e);
    free(x.piece);
    return r;
}

int trainer_share_stats(struct trainer *t, struct err *e) {
    for (int c = 0; c < t->chunks; c++) {
        const struct network *net = &t->chunk[c].net;
        size_t bytes = net->model->stat_elements * net->k->real_bytes;
        void *stats = heap_alloc(bytes);
        net->k->mem_read(net->ctx, stats, net->stats, bytes);
        int r = comm_broadcast(t->data, stats, bytes, 0, e);
        if (r == 0)
            net->k->mem_write(net->ctx, net->stats, stats, bytes);
        free(stats);
        if (r < 0)
            return err_wrap(e, "sharing the running statistics");
    }
    return 0;
}
