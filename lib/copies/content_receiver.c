// SPDX-License-Identifier: Apache-2.0
// The side of a transfer by hash that lacks the content. Pieces come in the order in which they
// were asked for.
#include "copies/content_transfer.h"

#include <stdlib.h>
#include <string.h>

static void end(struct content_receiver *r, const struct err *e) {
    struct err copy = *e;
    content_receiver_end *on_end = r->on_end;
    content_receiver_close(r);
    on_end(r, &copy);
}

static int64_t number_of(const struct transfer_window *p, size_t k) {
    return (int64_t)container_of(p, struct content_receiver, window)->wanted[k];
}

static uint64_t size_of(const struct transfer_window *p, size_t k) {
    const struct content_receiver *r = container_of(p, struct content_receiver, window);
    return r->items[r->wanted[k]].size;
}

// ---- what comes ---------------------------------------------------------------------------------

static int take_have(struct content_receiver *r, const struct wire_msg *m, struct err *e) {
    const unsigned char *bits = m->data;
    if (!r->wanted && m->data_len == 0)
        return 0; // the sender still looks
    if (r->wanted || (size_t)m->data_len != (r->count + 7) / 8)
        return err_set(e, ERR_FORMAT, "it answers another question");
    r->wanted = heap_alloc((r->count + 1) * sizeof *r->wanted);
    for (size_t i = 0; i < r->count; i++) {
        bool has = bits[i / 8] >> (i % 8) & 1;
        if (r->holders)
            r->holders[i] += has;
        else if (has && !r->came[i])
            r->wanted[r->wanted_count++] = i;
    }
    r->window = (struct transfer_window){.loop = r->loop,
                                         .link = r->link,
                                         .max = CONTENT_PIECES,
                                         .paced = r->paced,
                                         .number = number_of,
                                         .size = size_of};
    transfer_window_begin(&r->window, r->wanted_count);
    return 0;
}

// Its bytes were hashed as they came.
static int finish_large(struct content_receiver *r, struct err *e) {
    const char *path;
    int rc = cas_part_finish(r->cas, &r->part, &path, e);
    cas_part_close(&r->part);
    r->part_open = false;
    cas_forget_paths(r->cas);
    return rc;
}

static int take_large(struct content_receiver *r, const struct content_item *item,
                      const struct wire_msg *m, bool last, struct err *e) {
    if (!r->part_open && cas_part_open(r->cas, &r->part, item->hash, item->size, e) < 0)
        return -1;
    r->part_open = true;
    if (cas_part_write(&r->part, (uint64_t)m->offset, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    return last ? finish_large(r, e) : 0;
}

static int take_small(struct content_receiver *r, const struct content_item *item,
                      const struct wire_msg *m, struct err *e) {
    unsigned char digest[HASH_BYTES];
    if ((uint64_t)m->data_len != item->size)
        return err_set(e, ERR_FORMAT, "it cuts small content into pieces");
    hash_of(digest, m->data, (size_t)m->data_len);
    if (!hash_equal(digest, item->hash, HASH_BYTES))
        return err_set(e, ERR_HASH, "what came does not match its hash");
    return cas_add_small(r->cas, item->hash, m->data, (size_t)m->data_len, e);
}

static int take_data(struct content_receiver *r, const struct wire_msg *m, struct err *e) {
    int last = transfer_window_take(&r->window, m, e);
    if (last < 0)
        return -1;
    size_t at = r->wanted[r->window.taken];
    const struct content_item *item = &r->items[at];
    if ((item->size <= CAS_SMALL_BYTES_MAX ? take_small(r, item, m, e)
                                           : take_large(r, item, m, last, e)) < 0)
        return -1;
    r->bytes += (uint64_t)m->data_len;
    r->came[at] |= last;
    transfer_window_took(&r->window, m);
    return 0;
}

void content_receiver_message(struct content_receiver *r, const struct wire_msg *m) {
    struct err e = {0};
    int rc;
    if (!r->loop)
        return;
    if (m->type == WIRE_CONTENT_HAVE)
        rc = take_have(r, m, &e);
    else if (m->type == WIRE_STATE_DATA)
        rc = take_data(r, m, &e);
    else
        rc = err_set(&e, m->type == WIRE_STATE_END ? ERR_FAILED : ERR_FORMAT, "%s",
                     m->type == WIRE_STATE_END ? m->reason : "it breaks the protocol");
    if (rc < 0 || (r->wanted && transfer_window_is_complete(&r->window)))
        end(r, &e);
    else if (r->wanted)
        transfer_window_continue(&r->window);
}

void content_receiver_open(struct content_receiver *r) {
    must(r->count && r->count <= CONTENT_ITEMS_MAX);
    unsigned char *hashes = heap_alloc(r->count * HASH_BYTES);
    for (size_t i = 0; i < r->count; i++)
        memcpy(hashes + i * HASH_BYTES, r->items[i].hash, HASH_BYTES);
    struct wire_msg m = {
        .type = WIRE_CONTENT_ASK, .data = hashes, .data_len = (int64_t)(r->count * HASH_BYTES)};
    r->wanted = NULL;
    r->wanted_count = 0;
    r->bytes = 0;
    r->window = (struct transfer_window){.count = 0};
    r->part_open = false;
    channel_send(r->link, &m);
    free(hashes);
}

void content_receiver_close(struct content_receiver *r) {
    if (!r->loop)
        return;
    r->loop = NULL;
    transfer_window_stop(&r->window);
    if (r->part_open)
        cas_part_close(&r->part);
    r->part_open = false;
    free(r->wanted);
    r->wanted = NULL;
}
