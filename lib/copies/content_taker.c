// SPDX-License-Identifier: Apache-2.0
// The side of a transfer by hash that lacks the content. Pieces come in the order in which they
// were asked for.
#include "copies/content_transfer.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static void end(struct content_taker *t, const struct err *e) {
    struct err copy = *e;
    content_taker_end *on_end = t->on_end;
    content_taker_close(t);
    on_end(t, &copy);
}

static const struct content_item *item_of(const struct content_taker *t, size_t k) {
    return &t->items[t->wanted[k]];
}

static void ask(struct content_taker *t) {
    uint64_t left = item_of(t, t->asked)->size - t->asked_at;
    struct wire_msg m = {.type = WIRE_STATE_GET,
                         .file = (int64_t)t->wanted[t->asked],
                         .offset = (int64_t)t->asked_at,
                         .bytes =
                             (int64_t)(left < WIRE_DATA_BYTES_MAX ? left : WIRE_DATA_BYTES_MAX)};
    t->pieces++;
    t->asked_at += (uint64_t)m.bytes;
    if (t->asked_at == item_of(t, t->asked)->size) {
        t->asked++;
        t->asked_at = 0;
    }
    channel_send(t->link, &m);
}

static void ask_on(struct content_taker *t) {
    t->burst_ms = clock_mono_ms();
    while (t->pieces < CONTENT_PIECES && t->asked < t->wanted_count)
        ask(t);
}

static void on_pace(struct timer *timer) {
    ask_on(container_of(timer, struct content_taker, pace));
}

// Without a pace, further pieces are asked for while the others come.
static void go_on(struct content_taker *t) {
    int64_t took = clock_mono_ms() - t->burst_ms;
    if (!t->paced && t->pieces <= CONTENT_PIECES / 2)
        ask_on(t);
    else if (!t->pieces && took > 0)
        timer_start(t->loop, &t->pace, took, on_pace);
    else if (!t->pieces)
        ask_on(t);
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
                      const struct wire_msg *m, struct err *e) {
    if (!t->part_open && cas_part_open(t->cas, &t->part, item->hash, item->size, e) < 0)
        return -1;
    t->part_open = true;
    if (cas_part_write(&t->part, (uint64_t)m->offset, m->data, (size_t)m->data_len, e) < 0)
        return -1;
    return t->taken_at + (uint64_t)m->data_len == item->size ? finish_large(t, e) : 0;
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
    if (!t->pieces || t->taken >= t->wanted_count || m->file != (int64_t)t->wanted[t->taken] ||
        m->offset != (int64_t)t->taken_at || m->data_len < 1 ||
        (uint64_t)m->data_len > item_of(t, t->taken)->size - t->taken_at)
        return err_set(e, ERR_FORMAT, "a piece comes out of turn");
    const struct content_item *item = item_of(t, t->taken);
    t->pieces--;
    if ((item->size <= CAS_SMALL_BYTES_MAX ? take_small(t, item, m, e)
                                           : take_large(t, item, m, e)) < 0)
        return -1;
    t->bytes += (uint64_t)m->data_len;
    t->taken_at += (uint64_t)m->data_len;
    if (t->taken_at < item->size)
        return 0;
    t->came[t->wanted[t->taken++]] = true;
    t->taken_at = 0;
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
    if (rc < 0 || t->taken == t->wanted_count)
        end(t, &e);
    else
        go_on(t);
}

void content_taker_open(struct content_taker *t) {
    must(t->count && t->count <= CONTENT_ITEMS_MAX);
    unsigned char *hashes = heap_alloc(t->count * HASH_BYTES);
    for (size_t i = 0; i < t->count; i++)
        memcpy(hashes + i * HASH_BYTES, t->items[i].hash, HASH_BYTES);
    struct wire_msg m = {
        .type = WIRE_CONTENT_ASK, .data = hashes, .data_len = (int64_t)(t->count * HASH_BYTES)};
    t->wanted = NULL;
    t->wanted_count = t->asked = t->taken = 0;
    t->asked_at = t->taken_at = t->bytes = 0;
    t->pieces = 0;
    t->part_open = false;
    t->burst_ms = clock_mono_ms();
    channel_send(t->link, &m);
    free(hashes);
}

void content_taker_close(struct content_taker *t) {
    if (!t->loop)
        return;
    t->loop = NULL;
    timer_stop(&t->pace);
    if (t->part_open)
        cas_part_close(&t->part);
    t->part_open = false;
    free(t->wanted);
    t->wanted = NULL;
}
