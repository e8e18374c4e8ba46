// SPDX-License-Identifier: Apache-2.0
// The stages of all-gather and broadcast, which only copy: the ranks that have a chunk write it
// directly into the result.
#include "comm/hier.h"

#include <string.h>

// Everyone has copied what lay in this chunk's place, so it may be overwritten.
static int hier_may_write(struct hier *h, const struct hier_chunk *c, struct err *e) {
    return shm_wait_all(&h->shm, offsetof(struct shm_rank, taken), c->q - h->shm.depth, e);
}

// Both counters at once: until now this rank may have read the claims of the others.
static void hier_taken(struct hier *h, const struct hier_chunk *c) {
    struct shm_rank *me = &h->shm.ranks[h->shm.local_rank];
    shm_set(&me->reduced, c->q);
    shm_set(&me->taken, c->q);
}

// ---- all-gather --------------------------------------------------------------------------------

static int gather_in(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                     struct err *e) {
    if (hier_may_write(h, c, e) < 0)
        return -1;
    hier_pack(h, w, c, shm_result(&h->shm, c->q), h->place, h->place + 1, -1);
    hier_arrive(h, w, c);
    return 0;
}

static int gather_middle(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                         struct err *e) {
    struct shm *s = &h->shm;
    if (h->ring.nodes == 0)
        return 0;
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), c->q, e) < 0 ||
        hier_agree(h, c->q, e) < 0)
        return -1;
    if (ring_all_gather(&h->ring, w->type, shm_result(s, c->q), hier_segments(h, c), e) < 0)
        return shm_fault(s, e);
    shm_set(&s->head->final, c->q);
    return 0;
}

static int gather_out(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                      struct err *e) {
    struct shm *s = &h->shm;
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), c->q, e) < 0 ||
        hier_agree(h, c->q, e) < 0 ||
        (h->nodes > 1 && shm_wait(s, &s->head->final, c->q, 0, e) < 0))
        return -1;
    hier_unpack(h, w, c, shm_result(s, c->q), 0, h->world, h->place);
    hier_taken(h, c);
    return 0;
}

const struct hier_stages hier_all_gather = {true, gather_in, gather_middle, gather_out};

// ---- broadcast ---------------------------------------------------------------------------------

static int broadcast_in(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                        struct err *e) {
    if (hier_may_write(h, c, e) < 0)
        return -1;
    if (h->rank == w->root)
        memcpy(shm_result(&h->shm, c->q), (const char *)w->buf + c->first * w->type->bytes,
               c->count * w->type->bytes);
    hier_arrive(h, w, c);
    return 0;
}

// Waits for the root, where it is on this node.
static int broadcast_root(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                          struct err *e) {
    struct shm *s = &h->shm;
    int local = hier_place_of(h, w->root) - h->first_place[h->node];
    if (local < 0 || local >= s->local_world || local == s->local_rank)
        return 0;
    return shm_wait(s, &s->ranks[local].arrived, c->q, local, e) < 0
               ? -1
               : hier_agree_with(h, c->q, local, e);
}

static int broadcast_middle(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                            struct err *e) {
    struct shm *s = &h->shm;
    if (h->ring.nodes == 0)
        return 0;
    if (broadcast_root(h, w, c, e) < 0)
        return -1;
    if (ring_broadcast(&h->ring, shm_result(s, c->q), c->count * w->type->bytes,
                       hier_node_of(h, w->root), e) < 0)
        return shm_fault(s, e);
    shm_set(&s->head->final, c->q);
    return 0;
}

static int broadcast_out(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                         struct err *e) {
    struct shm *s = &h->shm;
    if (broadcast_root(h, w, c, e) < 0 ||
        (h->nodes > 1 && shm_wait(s, &s->head->final, c->q, 0, e) < 0))
        return -1;
    if (h->rank != w->root)
        memcpy((char *)w->buf + c->first * w->type->bytes, shm_result(s, c->q),
               c->count * w->type->bytes);
    hier_taken(h, c);
    return 0;
}

const struct hier_stages hier_broadcast = {false, broadcast_in, broadcast_middle, broadcast_out};
