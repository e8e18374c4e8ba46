// SPDX-License-Identifier: Apache-2.0
// bulk_store.c: cp.async.bulk and cp.async.bulk.tensor from shared memory to that of the device. A
// copy belongs to a bulk group of its thread. It reads when the thread waits for the reads of its
// group, and writes when the thread waits for all of it, or at the end of the block.
#include "bulk.h"

#include <stdlib.h>
#include <string.h>

struct bulk_store {
    struct bulk copy;
    u32 lane, group; // number of its commit_group
    u8 *bytes;       // that it has read; NULL: none
};

static void begin(struct warp *w, struct bulk c, u32 lane) {
    struct block *b = w->b;
    u32 fenced = shared_fenced(w);
    bulk_count(&c);
    for (u32 row = 0; row < c.rows; row++)
        for (u32 byte = 0; byte < c.row_bytes; byte += CHUNK)
            shared_product_begins(w, "read by a bulk copy", fenced, bulk_chunk_at(&c, row, byte),
                                  CHUNK);
    b->bulk_store =
        grown(b->bulk_store, b->n_bulk_stores, &b->bulk_stores_cap, sizeof *b->bulk_store);
    b->bulk_store[b->n_bulk_stores++] =
        (struct bulk_store){.copy = c, .lane = lane, .group = w->bulk_committed[lane]};
}

static void read_all(struct bulk_store *s) {
    const struct bulk *c = &s->copy;
    if (s->bytes)
        return;
    s->bytes = malloc((size_t)c->rows * c->row_bytes);
    if (!s->bytes)
        abort();
    for (u32 row = 0; row < c->rows; row++)
        for (u32 byte = 0; byte < c->row_bytes; byte += CHUNK) {
            u32 at = bulk_chunk_at(c, row, byte);
            memcpy(s->bytes + row * c->row_bytes + byte, c->w->b->shared + at, CHUNK);
            shared_product_ends(c->w, at, CHUNK);
        }
}

// Writes what exists of each chunk in parts that are aligned.
static void write_all(struct bulk_store *s) {
    const struct bulk *c = &s->copy;
    for (u32 row = 0; row < c->rows; row++)
        for (u32 byte = 0; byte < c->row_bytes; byte += CHUNK) {
            u32 from = byte, n = bulk_there(c, row, byte, &from);
            u64 address = c->global + row * c->pitch + from;
            u32 whole = (u32)((address | n) & -(address | n)) & (2 * CHUNK - 1);
            whole = whole && whole < CHUNK ? whole : CHUNK;
            for (u32 at = 0; at < n; at += whole)
                memcpy(global_write(c->w, address + at, whole),
                       s->bytes + row * c->row_bytes + from + at, whole);
        }
    free(s->bytes);
    s->bytes = NULL;
}

static bool is_waited_for(const struct warp *w, const struct bulk_store *s, u32 mask,
                          u32 may_stay) {
    return s->copy.w == w && (mask >> s->lane & 1) &&
           s->group + may_stay < w->bulk_committed[s->lane];
}

void bulk_store_end(struct block *b) {
    for (u32 n = 0; n < b->n_bulk_stores; n++)
        if (!b->bulk_store[n].bytes)
            fault("block (%u, %u, %u) of '%s' ends with bulk copies that still read its shared "
                  "memory",
                  b->index[0], b->index[1], b->index[2], b->k->name);
    for (u32 n = 0; n < b->n_bulk_stores; n++)
        write_all(&b->bulk_store[n]);
    b->n_bulk_stores = 0;
}

void bulk_store_free(struct block *b) {
    for (u32 n = 0; n < b->n_bulk_stores; n++)
        free(b->bulk_store[n].bytes);
    free(b->bulk_store);
}

// ---- instructions ------------------------------------------------------------------------------
static void store(struct warp *w, const struct insn *i, u32 mask) {
    EACH(begin(w, bulk_of_bytes(w, i, 1, 0, l), (u32)l));
}
static void store_box(struct warp *w, const struct insn *i, u32 mask) {
    EACH(begin(w, bulk_of_box(w, i, 2, 0, l), (u32)l));
}

static void commit_group(struct warp *w, const struct insn *i, u32 mask) {
    (void)i;
    EACH(w->bulk_committed[l]++);
}

static void wait_group(struct warp *w, const struct insn *i, u32 mask) {
    struct block *b = w->b;
    u32 kept = 0;
    for (u32 n = 0; n < b->n_bulk_stores; n++) {
        struct bulk_store *s = &b->bulk_store[n];
        bool done = is_waited_for(w, s, mask, (u32)i->op[0].imm);
        if (done)
            read_all(s);
        if (done && !HAS(READ))
            write_all(s);
        else
            b->bulk_store[kept++] = *s;
    }
    b->n_bulk_stores = kept;
}

#define FROM_SHARED (MOD(ASYNC) | MOD(SHARED) | MOD(GLOBAL) | MOD(BULK))
const struct op ops_bulk_store[] = {
    {"cp", 0, 0, FROM_SHARED, "mmw", store, 0, MOD(BULK_GROUP)},
    {"cp", 0, 0, FROM_SHARED | MOD(TENSOR) | MOD(D2), "acm", store_box, 0, MOD(BULK_GROUP)},
    {"cp", 0, 0, MOD(ASYNC) | MOD(BULK), "", commit_group, 0, MOD(COMMIT_GROUP)},
    {"cp", 0, 0, MOD(ASYNC) | MOD(BULK) | MOD(READ), "i", wait_group, 0, MOD(WAIT_GROUP)},
    {0},
};
