// SPDX-License-Identifier: Apache-2.0
// The side of a transfer by hash that has the content.
#include "base/clock.h"
#include "copies/content_transfer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int content_order(const void *x, const void *y) {
    return memcmp(((const struct content_item *)x)->hash, ((const struct content_item *)y)->hash,
                  HASH_BYTES);
}

bool content_is_here(struct cas *c, const struct content_item *item) {
    bool here = item->size <= CAS_SMALL_BYTES_MAX ? cas_has_small(c, item->hash, item->size)
                                                  : cas_has_object(c, item->hash, item->size);
    cas_forget_paths(c);
    return here;
}

static void shut(struct content_sender *s) {
    if (s->open && s->fd >= 0)
        close(s->fd);
    free(s->small);
    s->small = NULL;
    s->open = 0;
}

void content_sender_close(struct content_sender *s) {
    shut(s);
    timer_stop(&s->step);
    if (s->look && s->look->by == s) {
        cas_check_close(&s->look->check);
        s->look->by = NULL;
    }
    free(s->asked);
    s->asked = NULL;
    s->asked_count = s->looked = 0;
}

// ---- what is here -------------------------------------------------------------------------------

bool content_sender_looks(const struct content_sender *s) {
    return s->looked < s->asked_count;
}

static void send_have(struct content_sender *s, const void *bits, size_t len) {
    struct wire_msg r = {.type = WIRE_CONTENT_HAVE, .data = bits, .data_len = (int64_t)len};
    s->said_ms = clock_mono_ms();
    channel_send(s->link, &r);
}

static void answer(struct content_sender *s) {
    unsigned char bits[(CONTENT_ITEMS_MAX + 7) / 8] = {0};
    struct err ignored; // of the cache: content is hashed again
    for (size_t i = 0; i < s->asked_count; i++)
        if (s->asked[i].size)
            bits[i / 8] |= (unsigned char)(1U << (i % 8));
    (void)hash_cache_save(s->cas->hashes, &ignored);
    send_have(s, bits, (s->asked_count + 7) / 8);
}

// Hashes up to *most bytes, unless another sender hashes one.
static enum cas_found find(struct content_sender *s, const struct content_item *item,
                           uint64_t *most) {
    struct content_look *l = s->look;
    struct cas_check closed = {0};
    uint64_t none = 0;
    bool waits = l->by && l->by != s;
    enum cas_found found = CAS_ABSENT;
    if (item->size > CAS_SMALL_BYTES_MAX)
        found = cas_check_object(s->cas, waits ? &closed : &l->check, item->hash, item->size,
                                 waits ? &none : most);
    else if (item->size && cas_has_small(s->cas, item->hash, item->size))
        found = CAS_PRESENT;
    if (!waits)
        l->by = l->check.open ? s : NULL;
    cas_forget_paths(s->cas);
    return found;
}

static void on_step(struct timer *t);

static void look(struct content_sender *s, uint64_t most) {
    while (s->looked < s->asked_count) {
        struct content_item *item = &s->asked[s->looked];
        enum cas_found found = find(s, item, &most);
        if (found == CAS_FOUND_LATER) {
            if (clock_mono_ms() - s->said_ms >= CONTENT_LOOKS_MS)
                send_have(s, NULL, 0);
            bool waits = s->look->by && s->look->by != s;
            timer_start(s->loop, &s->step, waits ? CONTENT_TURN_MS : 0, on_step);
            return;
        }
        if (found == CAS_ABSENT)
            item->size = 0;
        s->looked++;
    }
    answer(s);
}

static void on_step(struct timer *t) {
    look(container_of(t, struct content_sender, step), CONTENT_STEP_BYTES);
}

int content_sender_ask(struct content_sender *s, struct channel *l, const struct wire_msg *m,
                       struct err *e) {
    size_t count = (size_t)m->data_len / HASH_BYTES;
    const unsigned char *hashes = m->data;
    if (count == 0 || count > CONTENT_ITEMS_MAX || (size_t)m->data_len != count * HASH_BYTES)
        return err_set(e, ERR_FORMAT, "a question for content has a wrong length");
    content_sender_close(s);
    hash_cache_renew(s->cas->hashes); // other processes add content
    if (cas_load(s->cas, e) < 0 || cas_reload(s->cas, e) < 0)
        return -1;
    s->asked = heap_alloc(count * sizeof *s->asked);
    s->asked_count = count;
    s->link = l;
    s->said_ms = clock_mono_ms();
    for (size_t i = 0; i < count; i++) {
        const struct content_item *known =
            s->known_count ? bsearch(hashes + i * HASH_BYTES, s->known, s->known_count,
                                     sizeof *s->known, content_order)
                           : NULL;
        if (known)
            s->asked[i] = *known;
    }
    look(s, 0);
    return 0;
}

// ---- what is sent -------------------------------------------------------------------------------

static int open_item(struct content_sender *s, size_t i, struct err *e) {
    const struct content_item *item = &s->asked[i];
    char hex[HASH_HEX_BYTES];
    shut(s);
    s->fd = -1;
    s->open = i + 1;
    if (item->size <= CAS_SMALL_BYTES_MAX) {
        s->small = heap_alloc((size_t)item->size);
        return cas_read_small(s->cas, item->hash, s->small, (size_t)item->size, e);
    }
    s->fd = cas_object_open(s->cas, item->hash);
    cas_forget_paths(s->cas);
    hash_hex(hex, item->hash);
    return s->fd < 0 ? err_errno(e, ERR_SYS, "cannot read the content %s", hex) : 0;
}

int content_sender_get(struct content_sender *s, struct channel *l, const struct wire_msg *m,
                       struct err *e) {
    char piece[WIRE_DATA_BYTES_MAX];
    size_t i = (size_t)m->file;
    if (m->file < 0 || i >= s->looked || !transfer_window_is_request(m, s->asked[i].size))
        return err_set(e, ERR_FORMAT, "bytes are asked for that this node lacks");
    if (s->open != i + 1 && open_item(s, i, e) < 0)
        return -1;
    struct wire_msg r = {.type = WIRE_STATE_DATA,
                         .file = m->file,
                         .offset = m->offset,
                         .data = piece,
                         .data_len = m->bytes};
    if (s->small)
        r.data = s->small + m->offset;
    else if (pread(s->fd, piece, (size_t)m->bytes, m->offset) != m->bytes)
        return err_set(e, ERR_HASH, "content in the store is shorter than it was");
    channel_send(l, &r);
    return 0;
}
