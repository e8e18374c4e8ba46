// SPDX-License-Identifier: Apache-2.0
// The stages of all-reduce and reduce-scatter. Every element is added up exactly once on a node, by
// one rank, over all local ranks in their order, so all ranks read the same bits.
#include "comm/hier.h"

#include <string.h>

enum { HIER_DIRECT_BYTES = 8 << 10 }; // up to here every rank sums everything itself: one wait

struct slice {
    size_t first, last; // elements
};

// A rank's share of a chunk, cut at cache lines.
static struct slice hier_slice(const struct shm *s, int rank, size_t count, size_t element_bytes) {
    size_t line = 64 / element_bytes, lines = (count + line - 1) / line;
    size_t world = (size_t)s->local_world;
    size_t first = lines * (size_t)rank / world * line;
    size_t last = lines * ((size_t)rank + 1) / world * line;
    return (struct slice){first < count ? first : count, last < count ? last : count};
}

static char *hier_at(const struct comm_work *w, size_t element) {
    return (char *)w->buf + element * w->type->bytes;
}

// own: this rank's source, NULL: in its buffer like the others'.
static void hier_sources(const struct shm *s, uint32_t q, const char *own, size_t at,
                         const void **src) {
    for (int i = 0; i < s->local_world; i++)
        src[i] = i == s->local_rank && own ? own : shm_slot(s, i, q) + at;
}

static int hier_may_fill(struct hier *h, const struct hier_chunk *c, struct err *e) {
    return shm_wait_all(&h->shm, offsetof(struct shm_rank, reduced), c->q - h->shm.depth, e);
}

// All ranks have arrived, and none needs the previous result in this chunk's buffer.
static int hier_may_sum(struct hier *h, const struct hier_chunk *c, struct err *e) {
    struct shm *s = &h->shm;
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), c->q, e) < 0 ||
        hier_agree(h, c->q, e) < 0)
        return -1;
    return shm_wait_all(s, offsetof(struct shm_rank, taken), c->q - s->depth, e);
}

// ---- all-reduce --------------------------------------------------------------------------------

static int sum_in(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                  struct err *e) {
    struct shm *s = &h->shm;
    size_t bytes = w->type->bytes;
    if (hier_may_fill(h, c, e) < 0)
        return -1;
    char *slot = shm_slot(s, s->local_rank, c->q), *data = hier_at(w, c->first);
    struct slice own = hier_slice(s, s->local_rank, c->count, bytes);
    memcpy(slot, data, own.first * bytes); // no other rank reads its own slice
    memcpy(slot + own.last * bytes, data + own.last * bytes, (c->count - own.last) * bytes);
    hier_arrive(h, w, c);
    return 0;
}

static int sum_middle(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                      struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    const void *src[COMM_LOCAL_WORLD_MAX];
    size_t bytes = w->type->bytes;
    if (hier_may_sum(h, c, e) < 0)
        return -1;
    struct slice own = hier_slice(s, s->local_rank, c->count, bytes);
    size_t at = own.first * bytes;
    char *data = hier_at(w, c->first) + at;
    bool last = h->nodes == 1; // the sum is final and is written to the caller's buffer at once
    hier_sources(s, c->q, data, at, src);
    element_reduce(w->type, shm_result(s, c->q) + at, last ? data : NULL, src, s->local_world,
                   own.last - own.first, last ? w->factor : 1);
    shm_set(&me->reduced, c->q);
    if (h->ring.nodes == 0)
        return 0;
    if (shm_wait_all(s, offsetof(struct shm_rank, reduced), c->q, e) < 0)
        return -1;
    if (ring_all_reduce(&h->ring, w->type, shm_result(s, c->q), c->count, w->factor, e) < 0)
        return shm_fault(s, e);
    shm_set(&s->head->final, c->q);
    return 0;
}

static int sum_out(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                   struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    size_t bytes = w->type->bytes;
    const char *result = shm_result(s, c->q);
    char *data = hier_at(w, c->first);
    if (h->nodes > 1) {
        if (shm_wait(s, &s->head->final, c->q, 0, e) < 0)
            return -1;
        memcpy(data, result, c->count * bytes);
    } else {
        if (shm_wait_all(s, offsetof(struct shm_rank, reduced), c->q, e) < 0)
            return -1;
        struct slice own = hier_slice(s, s->local_rank, c->count, bytes);
        memcpy(data, result, own.first * bytes);
        memcpy(data + own.last * bytes, result + own.last * bytes, (c->count - own.last) * bytes);
    }
    shm_set(&me->taken, c->q);
    return 0;
}

const struct hier_stages hier_all_reduce = {false, sum_in, sum_middle, sum_out};

// ---- an all-reduce of a few bytes inside one node ----------------------------------------------

bool hier_is_direct(const struct hier *h, const struct comm_work *w) {
    return w->kind == COMM_ALL_REDUCE && h->nodes == 1 &&
           w->count * w->type->bytes <= HIER_DIRECT_BYTES;
}

int hier_direct(struct hier *h, const struct comm_work *w, struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    const struct hier_chunk c = {.q = h->next++, .count = w->count};
    const void *src[COMM_LOCAL_WORLD_MAX];
    if (hier_may_fill(h, &c, e) < 0)
        return -1;
    memcpy(shm_slot(s, s->local_rank, c.q), w->buf, w->count * w->type->bytes);
    hier_arrive(h, w, &c);
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), c.q, e) < 0 ||
        hier_agree(h, c.q, e) < 0)
        return -1;
    hier_sources(s, c.q, NULL, 0, src);
    element_reduce(w->type, w->buf, NULL, src, s->local_world, w->count, w->factor);
    shm_set(&me->reduced, c.q);
    shm_set(&me->taken, c.q);
    return 0;
}

// ---- reduce-scatter ----------------------------------------------------------------------------

static int scatter_in(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                      struct err *e) {
    struct shm *s = &h->shm;
    if (hier_may_fill(h, c, e) < 0)
        return -1;
    int but = h->nodes == 1 ? h->place : -1; // no other rank reads its own piece
    hier_pack(h, w, c, shm_slot(s, s->local_rank, c->q), 0, h->world, but);
    hier_arrive(h, w, c);
    return 0;
}

// Several nodes: the local sums of all pieces, then their sums over the nodes.
static int scatter_nodes(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                         struct err *e) {
    struct shm *s = &h->shm;
    const void *src[COMM_LOCAL_WORLD_MAX];
    size_t bytes = w->type->bytes;
    struct slice own = hier_slice(s, s->local_rank, (size_t)h->world * c->stride, bytes);
    hier_sources(s, c->q, NULL, own.first * bytes, src);
    element_reduce(w->type, shm_result(s, c->q) + own.first * bytes, NULL, src, s->local_world,
                   own.last - own.first, 1);
    shm_set(&s->ranks[s->local_rank].reduced, c->q);
    if (h->ring.nodes == 0)
        return 0;
    if (shm_wait_all(s, offsetof(struct shm_rank, reduced), c->q, e) < 0)
        return -1;
    if (ring_reduce_scatter(&h->ring, w->type, shm_result(s, c->q), hier_segments(h, c), w->factor,
                            e) < 0)
        return shm_fault(s, e);
    shm_set(&s->head->final, c->q);
    return 0;
}

static int scatter_middle(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                          struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    const void *src[COMM_LOCAL_WORLD_MAX];
    if (hier_may_sum(h, c, e) < 0)
        return -1;
    if (h->nodes > 1)
        return scatter_nodes(h, w, c, e);
    struct ring_segment piece = hier_piece(h, w, c, h->place);
    char *data = hier_at(w, piece.first);
    hier_sources(s, c->q, data, (size_t)h->place * c->stride * w->type->bytes, src);
    element_reduce(w->type, data, NULL, src, s->local_world, piece.count, w->factor);
    shm_set(&me->reduced, c->q);
    return 0;
}

static int scatter_out(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                       struct err *e) {
    struct shm *s = &h->shm;
    if (h->nodes > 1) {
        if (shm_wait(s, &s->head->final, c->q, 0, e) < 0)
            return -1;
        hier_unpack(h, w, c, shm_result(s, c->q), h->place, h->place + 1, -1);
    }
    shm_set(&s->ranks[s->local_rank].taken, c->q);
    return 0;
}

const struct hier_stages hier_reduce_scatter = {true, scatter_in, scatter_middle, scatter_out};
