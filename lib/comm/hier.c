// SPDX-License-Identifier: Apache-2.0
// Opens the backend ring, and runs the pipeline of chunks of every operation.
#include "comm/hier.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static int hier_check(void *ctx, struct err *e) {
    struct hier *h = ctx;
    return shm_check(&h->shm, e);
}

static void hier_close(void *impl) {
    struct hier *h = impl;
    if (!h)
        return;
    ring_close(&h->ring);
    shm_close_group(&h->shm);
    free(h->rank_at);
    free(h->first_place);
    free(h->segment);
    free(h->stage);
    free(h);
}

static int hier_run(void *impl, const struct comm_work *w, struct err *e);

// Fills rank_at and first_place from the node and local rank that every rank reports.
static int hier_places(struct hier *h, const struct comm_config *config, struct err *e) {
    struct seat {
        int32_t node, local_rank; // both plus 1: 0 is a rank that said nothing
    } *seat = heap_alloc((size_t)h->world * sizeof *seat);
    int *count = heap_alloc((size_t)h->nodes * sizeof *count), bad;
    seat[h->rank] = (struct seat){config->node + 1, config->local_rank + 1};
    const struct comm_work w = {.kind = COMM_ALL_REDUCE,
                                .type = &element_byte,
                                .buf = seat,
                                .count = (size_t)h->world * sizeof *seat,
                                .factor = 1};
    bad = hier_run(h, &w, e);
    for (int r = 0; r < h->world && bad == 0; r++) {
        if (seat[r].node < 1 || seat[r].node > h->nodes)
            bad = err_set(e, ERR_CONFIG, "rank %d says it is on node %d of %d", r, seat[r].node - 1,
                          h->nodes);
        else
            count[seat[r].node - 1]++;
    }
    for (int n = 0; n < h->nodes && bad == 0; n++)
        h->first_place[n + 1] = h->first_place[n] + count[n];
    for (int p = 0; p < h->world; p++)
        h->rank_at[p] = -1;
    for (int r = 0; r < h->world && bad == 0; r++) {
        int node = seat[r].node - 1, local = seat[r].local_rank - 1;
        int *at = &h->rank_at[h->first_place[node] + local];
        if (local < 0 || local >= count[node] || *at >= 0)
            bad = err_set(e, ERR_CONFIG, "rank %d says it is local rank %d on node %d", r, local,
                          node);
        else
            *at = r;
    }
    free(count);
    free(seat);
    return bad;
}

static int hier_meet(struct hier *h, const struct comm_config *config, int shown,
                     struct comm_watch *watch, struct err *e) {
    if (config->nodes > 1 && config->local_rank == 0 &&
        ring_open(&h->ring, config, shown, watch, e) < 0)
        return -1;
    h->ring.check = hier_check;
    h->ring.check_ctx = h;
    if (config->local_world > 1 && shm_open_group(&h->shm, config, shown, watch, e) < 0)
        return -1;
    h->shm.watch = watch;
    if (config->local_world == 1 && h->chunked)
        h->stage = heap_alloc(SHM_CHUNK_BYTES_NODES);
    if (hier_places(h, config, e) < 0)
        return -1;
    h->place = h->first_place[config->node] + config->local_rank;
    return 0;
}

static int hier_open(void **impl, const struct comm_config *given, int shown,
                     struct comm_watch *watch, struct err *e) {
    struct comm_config config = *given;
    *impl = NULL;
    if (config.world == 1)
        return 0;
    if (!config.prefix)
        config.prefix = "comm";
    struct hier *h = heap_alloc(sizeof *h);
    h->watch = h->shm.watch = watch;
    h->rank = config.rank;
    h->world = config.world;
    h->node = config.node;
    h->nodes = config.nodes;
    h->chunked = config.world > config.nodes;
    h->next = HIER_FIRST_CHUNK;
    h->rank_at = heap_alloc((size_t)h->world * sizeof *h->rank_at);
    h->first_place = heap_alloc(((size_t)h->nodes + 1) * sizeof *h->first_place);
    h->segment = heap_alloc((size_t)h->nodes * sizeof *h->segment);
    if (hier_meet(h, &config, shown, watch, e) < 0) {
        shm_fault(&h->shm, e);
        ring_fault(&h->ring, e);
        hier_close(h);
        return -1;
    }
    *impl = h;
    return 0;
}

int hier_place_of(const struct hier *h, int rank) {
    int p = 0;
    while (h->rank_at[p] != rank)
        p++;
    return p;
}

int hier_node_of(const struct hier *h, int rank) {
    int place = hier_place_of(h, rank), n = 0;
    while (h->first_place[n + 1] <= place)
        n++;
    return n;
}

// ---- chunks ------------------------------------------------------------------------------------

// Elements of a chunk; with parts, of one piece.
static size_t hier_step(const struct hier *h, const struct comm_work *w, bool parts) {
    size_t bytes = h->nodes == 1 ? SHM_CHUNK_BYTES_LOCAL : SHM_CHUNK_BYTES_NODES;
    if (!parts)
        return bytes / w->type->bytes;
    size_t piece = bytes / (size_t)h->world, unit = piece < 64 ? HIER_UNIT_BYTES : 64;
    return piece / unit * unit / w->type->bytes;
}

size_t hier_chunk_count(const struct hier *h, const struct comm_work *w, bool parts) {
    size_t step = hier_step(h, w, parts), all = parts ? w->each : w->count;
    return (all + step - 1) / step;
}

struct hier_chunk hier_chunk(struct hier *h, const struct comm_work *w, bool parts, size_t i) {
    size_t step = hier_step(h, w, parts), all = parts ? w->each : w->count;
    size_t left = all - i * step, unit = HIER_UNIT_BYTES / w->type->bytes;
    struct hier_chunk c = {.q = h->next++, .first = i * step, .count = left < step ? left : step};
    c.stride = (c.count + unit - 1) / unit * unit;
    return c;
}

struct ring_segment hier_piece(const struct hier *h, const struct comm_work *w,
                               const struct hier_chunk *c, int place) {
    size_t begin = (size_t)h->rank_at[place] * w->each + c->first, end = begin + c->count;
    begin = begin < w->count ? begin : w->count;
    end = end < w->count ? end : w->count;
    return (struct ring_segment){begin, end - begin};
}

void hier_pack(const struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
               char *chunk, int from, int to, int but) {
    size_t bytes = w->type->bytes;
    for (int p = from; p < to; p++) {
        struct ring_segment piece = hier_piece(h, w, c, p);
        if (p != but)
            memcpy(chunk + (size_t)p * c->stride * bytes,
                   (const char *)w->buf + piece.first * bytes, piece.count * bytes);
    }
}

void hier_unpack(const struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                 const char *chunk, int from, int to, int but) {
    size_t bytes = w->type->bytes;
    for (int p = from; p < to; p++) {
        struct ring_segment piece = hier_piece(h, w, c, p);
        if (p != but)
            memcpy((char *)w->buf + piece.first * bytes, chunk + (size_t)p * c->stride * bytes,
                   piece.count * bytes);
    }
}

const struct ring_segment *hier_segments(struct hier *h, const struct hier_chunk *c) {
    for (int n = 0; n < h->nodes; n++) {
        size_t first = (size_t)h->first_place[n] * c->stride;
        size_t end = (size_t)h->first_place[n + 1] * c->stride;
        h->segment[n] = (struct ring_segment){first, end - first};
    }
    return h->segment;
}

static int hier_chunks(struct hier *h, const struct comm_work *w, const struct hier_stages *stages,
                       struct err *e) {
    size_t chunks = hier_chunk_count(h, w, stages->parts), lead = h->shm.lead;
    struct hier_chunk flight[SHM_DEPTH_MAX];
    for (size_t t = 0; t < chunks + 2 * lead; t++) {
        if (t < chunks) {
            struct hier_chunk *c = &flight[t % SHM_DEPTH_MAX];
            *c = hier_chunk(h, w, stages->parts, t);
            if (stages->in(h, w, c, e) < 0)
                return -1;
        }
        if (t >= lead && t - lead < chunks &&
            stages->middle(h, w, &flight[(t - lead) % SHM_DEPTH_MAX], e) < 0)
            return -1;
        if (t >= 2 * lead && stages->out(h, w, &flight[(t - 2 * lead) % SHM_DEPTH_MAX], e) < 0)
            return -1;
    }
    return 0;
}

// ---- agreement ---------------------------------------------------------------------------------

void hier_arrive(struct hier *h, const struct comm_work *w, const struct hier_chunk *c) {
    struct shm_rank *me = &h->shm.ranks[h->shm.local_rank];
    uint32_t what = (uint32_t)w->kind << 28 | (uint32_t)(w->root & 0xfffff) << 8 |
                    (uint32_t)(unsigned char)w->type->name[0];
    me->claim[c->q % h->shm.depth] =
        (struct shm_claim){what, (uint32_t)w->count, c->count * w->type->bytes};
    shm_set(&me->arrived, c->q);
}

int hier_agree_with(struct hier *h, uint32_t q, int local_rank, struct err *e) {
    struct shm *s = &h->shm;
    const struct shm_claim *mine = &s->ranks[s->local_rank].claim[q % s->depth];
    const struct shm_claim *other = &s->ranks[local_rank].claim[q % s->depth];
    if (other->what == mine->what && other->total_low == mine->total_low &&
        other->bytes == mine->bytes)
        return 0;
    err_set(e, ERR_FAILED,
            "rank %d gave %u elements to a collective where rank %d gave %u%s: all ranks must make "
            "the same calls",
            atomic_load(&s->ranks[local_rank].rank), other->total_low,
            atomic_load(&s->ranks[s->local_rank].rank), mine->total_low,
            other->what == mine->what ? "" : " to one of another kind");
    return shm_fault(s, e);
}

int hier_agree(struct hier *h, uint32_t q, struct err *e) {
    for (int i = 0; i < h->shm.local_world; i++)
        if (hier_agree_with(h, q, i, e) < 0)
            return -1;
    return 0;
}

static void hier_fail(void *impl, const struct err *e) {
    struct hier *h = impl;
    if (!h)
        return;
    shm_fault(&h->shm, e);
    ring_fault(&h->ring, e);
}

static int hier_run(void *impl, const struct comm_work *w, struct err *e) {
    static const struct hier_stages *const stages[] = {[COMM_ALL_REDUCE] = &hier_all_reduce,
                                                       [COMM_REDUCE_SCATTER] = &hier_reduce_scatter,
                                                       [COMM_ALL_GATHER] = &hier_all_gather,
                                                       [COMM_BROADCAST] = &hier_broadcast};
    struct hier *h = impl;
    int bad;
    if (!h)
        return 0; // one rank
    if (!h->shm.map)
        bad = hier_alone(h, w, e);
    else if (hier_is_direct(h, w))
        bad = hier_direct(h, w, e);
    else
        bad = hier_chunks(h, w, stages[w->kind], e);
    if (bad)
        hier_fail(h, e);
    return bad;
}

static int hier_look(void *impl, struct err *e) {
    struct hier *h = impl;
    if (!h || (shm_check(&h->shm, e) == 0 && ring_check(&h->ring, e) == 0))
        return 0;
    hier_fail(h, e);
    return -1;
}

const struct comm_backend comm_ring = {.name = "ring",
                                       .open = hier_open,
                                       .run = hier_run,
                                       .close = hier_close,
                                       .check = hier_look,
                                       .fail = hier_fail};
