// SPDX-License-Identifier: Apache-2.0
// Runs operations on a rank that is alone on its node. This rank uses the ring itself, in the
// chunks of nodes with several ranks.
#include "comm/hier.h"

static int alone_flat(struct hier *h, const struct comm_work *w, void *buf, size_t count,
                      struct err *e) {
    if (w->kind == COMM_ALL_REDUCE)
        return ring_all_reduce(&h->ring, w->type, buf, count, w->factor, e);
    return ring_broadcast(&h->ring, buf, count * w->type->bytes, hier_node_of(h, w->root), e);
}

static int alone_parts(struct hier *h, const struct comm_work *w, void *buf,
                       const struct ring_segment *segment, struct err *e) {
    return w->kind == COMM_REDUCE_SCATTER
               ? ring_reduce_scatter(&h->ring, w->type, buf, segment, w->factor, e)
               : ring_all_gather(&h->ring, w->type, buf, segment, e);
}

// One rank on every node: parts are segments where they lie.
static int alone_whole(struct hier *h, const struct comm_work *w, struct err *e) {
    const struct hier_chunk all = {.count = w->each};
    for (int n = 0; n < h->nodes; n++)
        h->segment[n] = hier_piece(h, w, &all, n);
    return alone_parts(h, w, w->buf, h->segment, e);
}

static int alone_piece(struct hier *h, const struct comm_work *w, const struct hier_chunk *c,
                       struct err *e) {
    bool scatter = w->kind == COMM_REDUCE_SCATTER;
    int from = scatter ? 0 : h->place, to = scatter ? h->world : h->place + 1;
    hier_pack(h, w, c, h->stage, from, to, -1);
    if (alone_parts(h, w, h->stage, hier_segments(h, c), e) < 0)
        return -1;
    if (scatter)
        hier_unpack(h, w, c, h->stage, h->place, h->place + 1, -1);
    else
        hier_unpack(h, w, c, h->stage, 0, h->world, h->place);
    return 0;
}

int hier_alone(struct hier *h, const struct comm_work *w, struct err *e) {
    bool parts = w->kind == COMM_REDUCE_SCATTER || w->kind == COMM_ALL_GATHER;
    if (!h->chunked)
        return parts ? alone_whole(h, w, e) : alone_flat(h, w, w->buf, w->count, e);
    size_t chunks = hier_chunk_count(h, w, parts);
    for (size_t i = 0; i < chunks; i++) {
        const struct hier_chunk c = hier_chunk(h, w, parts, i);
        char *data = (char *)w->buf + c.first * w->type->bytes;
        if ((parts ? alone_piece(h, w, &c, e) : alone_flat(h, w, data, c.count, e)) < 0)
            return -1;
    }
    return 0;
}
