// SPDX-License-Identifier: Apache-2.0
// Gives content from the store of a node to the next node of a chain.
#include "xfer/xfer_give.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct give {
    struct receive *r;
    struct relay *relay;
    struct strbuf batch; // the open frame of small files
    size_t begin;
    bool lost;
    struct err *why; // why the node behind was lost
};

static void send_frame(struct give *g, struct strbuf *frame, size_t begin) {
    struct xfer_packer plain = {0};
    xfer_wire_end(&plain, frame, begin, false);
    g->lost = g->lost || xfer_relay_send(g->relay, frame->data, frame->len, g->why) < 0;
    strbuf_clear(frame);
}

static bool read_at(int fd, void *to, size_t len, uint64_t offset) {
    for (char *p = to; len;) {
        ssize_t n = pread(fd, p, len, (off_t)offset);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return false;
        p += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

// ---- small files --------------------------------------------------------------------------------

static bool read_small(struct give *g, const struct manifest_entry *n, void *to) {
    struct err ignored;
    if (cas_load(&g->r->cas, &ignored) == 0 && cas_has_small(&g->r->cas, n->hash, n->size) &&
        cas_read_small(&g->r->cas, n->hash, to, n->size, &ignored) == 0)
        return true;
    auto_close int fd = tree_open_existing(&g->r->place, n->path);
    return fd >= 0 && read_at(fd, to, n->size, 0);
}

static void give_small(struct give *g, const struct manifest_entry *n) {
    if (g->batch.len == 0)
        g->begin = xfer_wire_begin(&g->batch, XFER_BATCH);
    size_t start = g->batch.len;
    strbuf_add(&g->batch, n->hash, HASH_BYTES);
    xfer_put_uint(&g->batch, n->size, 4);
    if (read_small(g, n, strbuf_reserve(&g->batch, n->size)))
        g->batch.len += n->size;
    else
        g->batch.len = start;
    if (g->batch.len >= XFER_BATCH_BYTES)
        send_frame(g, &g->batch, g->begin);
}

// ---- large files --------------------------------------------------------------------------------

// A file that this transfer has compared comes first: the store may have to hash its object again.
static int open_large(struct give *g, uint32_t index) {
    const struct manifest_entry *n = &g->r->m->entries[index];
    bool compared = g->r->states[index] == ENTRY_SAME || g->r->states[index] == ENTRY_MODE;
    int fd = compared ? tree_open_existing(&g->r->place, n->path) : -1;
    if (fd >= 0)
        return fd;
    if (cas_has_object(&g->r->cas, n->hash, n->size))
        return open(cas_object_path(&g->r->cas, n->hash), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return tree_open_existing(&g->r->place, n->path);
}

// Sends the bytes from `at` to `end`; false when they cannot be read.
static bool give_unit(struct give *g, const struct manifest_entry *n, int fd, uint64_t at,
                      uint64_t end, struct strbuf *frame) {
    while (at < end && !g->lost) {
        size_t len = end - at < CAS_PIECE_BYTES ? (size_t)(end - at) : CAS_PIECE_BYTES;
        size_t begin = xfer_wire_begin(frame, XFER_CHUNK);
        strbuf_add(frame, n->hash, HASH_BYTES);
        xfer_put_uint(frame, n->size, 8);
        xfer_put_uint(frame, at, 8);
        if (!read_at(fd, strbuf_reserve(frame, len), len, at)) {
            strbuf_clear(frame);
            return false;
        }
        frame->len += len;
        send_frame(g, frame, begin);
        at += len;
    }
    return true;
}

static void give_large(struct give *g, const struct manifest_entry *n,
                       const struct xfer_need *need) {
    struct strbuf frame = {0};
    auto_close int fd = open_large(g, need->index);
    bool good = fd >= 0;
    for (uint32_t u = 0; good && u < need->units && !g->lost; u++) {
        uint64_t at = (uint64_t)u * CAS_UNIT_BYTES, end = at + CAS_UNIT_BYTES;
        if (!need->have || !(need->have[u / 8] >> (u % 8) & 1))
            good = give_unit(g, n, fd, at, end < n->size ? end : n->size, &frame);
    }
    strbuf_fini(&frame);
}

int xfer_give(struct receive *r, struct relay *relay, const struct xfer_frame *f, bool *lost,
              struct err *why, struct err *e) {
    struct bytes_reader b = bytes_reader(f->data, f->len);
    struct give g = {.r = r, .relay = relay, .why = why};
    struct xfer_need need;
    int rc = 0;
    *lost = false;
    if (r->phase != RECEIVE_CONTENT || !r->config.peers)
        return xfer_wire_unexpected(f, e);
    while (relay->to_fd >= 0 && !g.lost && (rc = xfer_get_need(&b, r->m, &need, e)) > 0) {
        const struct manifest_entry *n = &r->m->entries[need.index];
        if (need.units)
            give_large(&g, n, &need);
        else if (n->size)
            give_small(&g, n);
    }
    if (rc >= 0 && !g.lost && g.batch.len)
        send_frame(&g, &g.batch, g.begin);
    strbuf_fini(&g.batch);
    *lost = g.lost;
    return rc < 0 ? -1 : 0;
}
