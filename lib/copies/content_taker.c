// SPDX-License-Identifier: Apache-2.0
// The side of a transfer by hash that lacks the content. Pieces come in the order in which they
// were asked for.
#include "copies/content_transfer.h"

#include <stdlib.h>
#include <string.h>

static void end(struct content_taker *t, const struct err *e) {
    struct err copy = *e;
    content_taker_end *on_end = t->on_end;
    content_taker_close(t);
    on_end(t, &copy);
}

static int64_t number_of(const struct pieces *p, size_t k) {
    return (int64_t)container_of(p, struct content_taker, pieces)->wanted[k];
}

static uint64_t size_of(const struct pieces *p, size_t k) {
    const struct content_taker *t = container_of(p, struct content_taker, pieces);
    return t->items[t->wanted[k]].size;
}

// ---- what comes ---------------------------------------------------------------------------------

static int take_have(struct content_taker *t, const struct wire_msg *m, struct err *e) {
    const unsigned char *bits = m->data;
    if (t->wanted || (size_t)m->data_len != (t->count + 7) / 8)
        return err_set(e, ERR_FORMAT, "it answers another question");
    t->wanted = heap_alloc((t->count + 1) * sizeof *t->wanted);
    for (size_t i = 0; i < t->count; i++) {
        bool has = bits[i / 8] >> (i % 8) & 1;
        if (t->holders)
            t->holders[i] += has;
        else if (has && !t->came[i])
            t->wanted[t->wanted_count++] = i;
    }
    t->pieces = (struct pieces){.loop = t->loop,
                                .link = t->link,
                                .max = CONTENT_PIECES,
                                .paced = t->paced,
                                .number = number_of,
                                .size = size_of};
    pieces_begin(&t->pieces, t->wanted_count);
    return 0;
}

static int finish_large(struct content_taker *t, struct err *e) {
    const char *path;
    int rc;
    while ((rc = cas_part_hash(&t->part, UINT64_MAX, e)) == 0)
        ;
    if (rc > 0)
        rc = cas_part_finish(t->cas, &t->part, &path, e);
    cas_part_close(&t->part);
    t->part_open = false;
    cas_forget_paths(t->cas);
    return rc;
}

static int take_large(struct content_taker *t, const struct content_item *item,
                      const struct wire_msg *m, bool last, struct err *e) {
    if (!t->part_open && cas_part_open(t->cas, &t->part, item->hash, item->size, e) < 0)
        return -1;
    t->part_open = true;
    if (cas_part_write(&t->part, (uint64_t)m->offset, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    return last ? finish_large(t, e) : 0;
}

static int take_small(struct content_taker *t, const struct content_item *item,
                      const struct wire_msg *m, struct err *e) {
    unsigned char digest[HASH_BYTES];
    if ((uint64_t)m->data_len != item->size)
        return err_set(e, ERR_FORMAT, "it cuts small content into pieces");
    hash_of(digest, m->data, (size_t)m->data_len);
    if (!hash_equal(digest, item->hash, HASH_BYTES))
        return err_set(e, ERR_HASH, "what came does not match its hash");
    return cas_add_small(t->cas, item->hash, m->data, (size_t)m->data_len, e);
}

static int take_data(struct content_taker *t, const struct wire_msg *m, struct err *e) {
    int last = pieces_take(&t->pieces, m, e);
    if (last < 0)
        return -1;
    size_t at = t->wanted[t->pieces.taken];
    const struct content_item *item = &t->items[at];
    if ((item->size <= CAS_SMALL_BYTES_MAX ? take_small(t, item, m, e)
                                           : take_large(t, item, m, last, e)) < 0)
        return -1;
    t->bytes += (uint64_t)m->data_len;
    t->came[at] |= last;
    pieces_took(&t->pieces, m);
    return 0;
}

void content_taker_message(struct content_taker *t, const struct wire_msg *m) {
    struct err e = {0};
    int rc;
    if (!t->loop)
        return;
    if (m->type == WIRE_CONTENT_HAVE)
        rc = take_have(t, m, &e);
    else if (m->type == WIRE_STATE_DATA)
        rc = take_data(t, m, &e);
    else
        rc = err_set(&e, m->type == WIRE_STATE_END ? ERR_FAILED : ERR_FORMAT, "%s",
                     m->type == WIRE_STATE_END ? m->reason : "it breaks the protocol");
    if (rc < 0 || pieces_are_here(&t->pieces))
        end(t, &e);
    else
        pieces_continue(&t->pieces);
}

void content_taker_open(struct content_taker *t) {
    must(t->count && t->count <= CONTENT_ITEMS_MAX);
    unsigned char *hashes = heap_alloc(t->count * HASH_BYTES);
    for (size_t i = 0; i < t->count; i++)
        memcpy(hashes + i * HASH_BYTES, t->items[i].hash, HASH_BYTES);
    struct wire_msg m = {
        .type = WIRE_CONTENT_ASK, .data = hashes, .data_len = (int64_t)(t->count * HASH_BYTES)};
    t->wanted = NULL;
    t->wanted_count = 0;
    t->bytes = 0;
    t->pieces = (struct pieces){.count = 0};
    t->part_open = false;
    channel_send(t->link, &m);
    free(hashes);
}

void content_taker_close(struct content_taker *t) {
    if (!t->loop)
        return;
    t->loop = NULL;
    pieces_stop(&t->pieces);
    if (t->part_open)
        cas_part_close(&t->part);
    t->part_open = false;
    free(t->wanted);
    t->wanted = NULL;
}
