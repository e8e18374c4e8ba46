// SPDX-License-Identifier: Apache-2.0
// Backend ring: sums inside the node through shared memory, between nodes on the ring of first
// ranks, and back. Chunks overlap: while one is summed, the next is copied in and the last is
// copied out.
//
// Every rank sums its own slice of a chunk over all local ranks in rank order, so each element is
// added up exactly once, by one rank, and all ranks read the same bits.
#include "comm/ring.h"
#include "comm/shm.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    HIER_DIRECT_BYTES = 8 << 10, // up to here every rank sums everything itself: one wait, not two
    HIER_FIRST_CHUNK = 3         // 1 and 2 were used to meet
};

struct hier {
    struct shm shm;   // map NULL: one rank on this node
    struct ring ring; // nodes 0: not the first rank, or one node
    struct comm_watch *watch;
    int nodes;
    bool chunked;  // some node has several ranks, so all use its chunks on the ring
    uint32_t next; // chunk number
};

static int hier_check(void *ctx, struct err *e) {
    struct hier *h = ctx;
    return shm_check(&h->shm, e);
}

static void hier_close(void *impl) {
    struct hier *h = impl;
    ring_close(&h->ring);
    shm_close_group(&h->shm);
    free(h);
}

static int hier_open(void **impl, const struct comm_config *given, struct comm_watch *watch,
                     struct err *e) {
    struct comm_config config = *given;
    *impl = NULL;
    if (config.world == 1)
        return 0;
    if (!config.prefix)
        config.prefix = "comm";
    if (config.connect_timeout_ms_max <= 0)
        config.connect_timeout_ms_max = COMM_CONNECT_TIMEOUT_MS;
    struct hier *h = heap_alloc(sizeof *h);
    h->watch = h->shm.watch = watch;
    h->nodes = config.nodes;
    h->chunked = config.world > config.nodes;
    h->next = HIER_FIRST_CHUNK;
    int bad = 0;
    if (config.nodes > 1 && config.local_rank == 0)
        bad = ring_open(&h->ring, &config, watch, e);
    h->ring.check = hier_check;
    h->ring.check_ctx = h;
    if (bad == 0 && config.local_world > 1)
        bad = shm_open_group(&h->shm, &config, watch, e);
    if (bad) {
        shm_fault(&h->shm, e);
        ring_fault(&h->ring, e);
        hier_close(h);
        return -1;
    }
    h->shm.watch = watch;
    *impl = h;
    return 0;
}

// ---- stages of a chunk -------------------------------------------------------------------------

struct chunk {
    uint32_t q;
    char *data; // in the caller's buffer
    size_t count;
};

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

static int hier_in(struct hier *h, const struct comm_work *w, const struct chunk *c, bool all,
                   struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    size_t bytes = w->type->bytes;
    if (shm_wait_all(s, offsetof(struct shm_rank, reduced), c->q - s->depth, e) < 0)
        return -1;
    char *slot = shm_slot(s, s->local_rank, c->q);
    struct slice own = all ? (struct slice){0, 0} : hier_slice(s, s->local_rank, c->count, bytes);
    memcpy(slot, c->data, own.first * bytes); // its own slice nobody else reads
    memcpy(slot + own.last * bytes, c->data + own.last * bytes, (c->count - own.last) * bytes);
    me->claim[c->q % s->depth] = (struct shm_claim){(uint32_t)(unsigned char)w->type->name[0],
                                                    (uint32_t)w->count, c->count * bytes};
    shm_set(&me->arrived, c->q);
    return 0;
}

// Everyone must be in the same chunk of the same operation.
static int hier_agree(struct hier *h, uint32_t q, struct err *e) {
    struct shm *s = &h->shm;
    const struct shm_claim *mine = &s->ranks[s->local_rank].claim[q % s->depth];
    for (int i = 0; i < s->local_world; i++) {
        const struct shm_claim *other = &s->ranks[i].claim[q % s->depth];
        if (other->element == mine->element && other->total_low == mine->total_low &&
            other->bytes == mine->bytes)
            continue;
        err_set(e, ERR_FAILED,
                "rank %d gave %u elements to a collective where rank %d gave %u: all ranks must "
                "make the same calls",
                atomic_load(&s->ranks[i].rank), other->total_low,
                atomic_load(&s->ranks[s->local_rank].rank), mine->total_low);
        return shm_fault(s, e);
    }
    return 0;
}

static void hier_sources(const struct shm *s, uint32_t q, const char *own, size_t at,
                         const void **src) {
    for (int i = 0; i < s->local_world; i++)
        src[i] = (i == s->local_rank && own ? own : shm_slot(s, i, q)) + at;
}

static int hier_sum(struct hier *h, const struct comm_work *w, const struct chunk *c,
                    struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    const void *src[COMM_LOCAL_WORLD_MAX];
    size_t bytes = w->type->bytes;
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), c->q, e) < 0 ||
        hier_agree(h, c->q, e) < 0 ||
        shm_wait_all(s, offsetof(struct shm_rank, taken), c->q - s->depth, e) < 0)
        return -1;
    struct slice own = hier_slice(s, s->local_rank, c->count, bytes);
    size_t at = own.first * bytes;
    bool last = h->nodes == 1; // the sum is final and goes to the caller's buffer at once
    hier_sources(s, c->q, c->data, at, src);
    element_reduce(w->type, shm_result(s, c->q) + at, last ? c->data + at : NULL, src,
                   s->local_world, own.last - own.first, last ? w->factor : 1);
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

static int hier_out(struct hier *h, const struct comm_work *w, const struct chunk *c,
                    struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    size_t bytes = w->type->bytes;
    const char *result = shm_result(s, c->q);
    if (h->nodes > 1) {
        if (shm_wait(s, &s->head->final, c->q, 0, e) < 0)
            return -1;
        memcpy(c->data, result, c->count * bytes);
    } else {
        if (shm_wait_all(s, offsetof(struct shm_rank, reduced), c->q, e) < 0)
            return -1;
        struct slice own = hier_slice(s, s->local_rank, c->count, bytes);
        memcpy(c->data, result, own.first * bytes);
        memcpy(c->data + own.last * bytes, result + own.last * bytes,
               (c->count - own.last) * bytes);
    }
    shm_set(&me->taken, c->q);
    return 0;
}

// A few bytes inside one node.
static int hier_direct(struct hier *h, const struct comm_work *w, struct err *e) {
    struct shm *s = &h->shm;
    struct shm_rank *me = &s->ranks[s->local_rank];
    const struct chunk c = {h->next++, w->buf, w->count};
    const void *src[COMM_LOCAL_WORLD_MAX];
    if (hier_in(h, w, &c, true, e) < 0 ||
        shm_wait_all(s, offsetof(struct shm_rank, arrived), c.q, e) < 0 ||
        hier_agree(h, c.q, e) < 0)
        return -1;
    hier_sources(s, c.q, NULL, 0, src);
    element_reduce(w->type, w->buf, NULL, src, s->local_world, w->count, w->factor);
    shm_set(&me->reduced, c.q);
    shm_set(&me->taken, c.q);
    return 0;
}

static int hier_chunks(struct hier *h, const struct comm_work *w, struct err *e) {
    size_t step = h->shm.chunk_bytes / w->type->bytes;
    size_t chunks = (w->count + step - 1) / step;
    size_t lead = h->shm.lead;
    struct chunk flight[SHM_DEPTH_MAX];
    for (size_t t = 0; t < chunks + 2 * lead; t++) {
        if (t < chunks) {
            size_t at = t * step, left = w->count - at;
            struct chunk *c = &flight[t % SHM_DEPTH_MAX];
            *c = (struct chunk){h->next++, (char *)w->buf + at * w->type->bytes,
                                left < step ? left : step};
            if (hier_in(h, w, c, false, e) < 0)
                return -1;
        }
        if (t >= lead && t - lead < chunks &&
            hier_sum(h, w, &flight[(t - lead) % SHM_DEPTH_MAX], e) < 0)
            return -1;
        if (t >= 2 * lead && hier_out(h, w, &flight[(t - 2 * lead) % SHM_DEPTH_MAX], e) < 0)
            return -1;
    }
    return 0;
}

// The only rank of its node: no shared memory.
static int hier_alone(struct hier *h, const struct comm_work *w, struct err *e) {
    size_t step = h->chunked ? SHM_CHUNK_BYTES_NODES / w->type->bytes : w->count;
    for (size_t at = 0; at < w->count; at += step) {
        size_t left = w->count - at;
        if (ring_all_reduce(&h->ring, w->type, (char *)w->buf + at * w->type->bytes,
                            left < step ? left : step, w->factor, e) < 0)
            return -1;
    }
    return 0;
}

static int hier_run(void *impl, const struct comm_work *w, struct err *e) {
    struct hier *h = impl;
    int bad;
    if (!h)
        return 0; // one rank
    if (!h->shm.map)
        bad = hier_alone(h, w, e);
    else if (h->nodes == 1 && w->count * w->type->bytes <= HIER_DIRECT_BYTES)
        bad = hier_direct(h, w, e);
    else
        bad = hier_chunks(h, w, e);
    if (bad == 0)
        return 0;
    shm_fault(&h->shm, e);
    ring_fault(&h->ring, e);
    return -1;
}

const struct comm_backend comm_ring = {"ring", hier_open, hier_run, hier_close};
