// SPDX-License-Identifier: Apache-2.0
// Fetching objects from their servers, and the check of those that have come.
#include "stream/stream_store_impl.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum ranging { UNTRIED, TRYING, RANGED, ALL };

struct stream_coming {
    struct cas_part part;
    enum ranging ranging;
    bool kms, checks;
    uint32_t calls;
    uint64_t units, absent; // absent: units that have not come
    struct object_check check;
    struct stream_object *object;
    unsigned char *have, *asked; // bits by unit; asked: come, or under way
};

static bool bit(const unsigned char *bits, uint64_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

static void set_bit(unsigned char *bits, uint64_t i) {
    bits[i / 8] |= (unsigned char)(1U << (i % 8));
}

struct cas_part *stream_coming_part(struct stream_object *o) {
    return &o->coming->part;
}

bool stream_coming_busy(const struct stream_object *o) {
    return o->coming && (o->coming->calls || o->coming->checks);
}

void stream_coming_close(struct stream_store *s, struct stream_object *o) {
    struct stream_coming *c = o->coming;
    if (!c)
        return;
    s->to_come -= c->absent * CAS_UNIT_BYTES;
    cas_part_close(&c->part);
    free(c->have);
    free(c->asked);
    free(c);
    o->coming = NULL;
}

uint64_t stream_coming_ready(const struct stream_store *s, const struct stream_object *o,
                             uint64_t at) {
    const struct stream_coming *c = o->coming;
    uint64_t unit = at / CAS_UNIT_BYTES, end = unit;
    while (end < c->units && bit(c->have, end))
        end++;
    if (end > unit)
        return (end * CAS_UNIT_BYTES < o->want.size ? end * CAS_UNIT_BYTES : o->want.size) - at;
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++) {
        const struct object_range *r = &s->slots[k].range;
        bool units = s->slots[k].object == o && !s->slots[k].alone; // else not in the part
        uint64_t written = r->from + r->got - r->held;
        if (units && at >= r->from && at < written)
            return written - at;
    }
    return 0;
}

// ---- the check ----------------------------------------------------------------------------------

static void check_begin(struct stream_store *s, struct stream_object *o) {
    struct stream_coming *c = o->coming;
    o->state = STREAM_CHECKING;
    c->checks = true;
    c->check = (struct object_check){
        .http = s->http, .etag = o->want.etag, .kms = c->kms, .part = &c->part, .ctx = c};
    object_check_begin(&s->checks, &c->check);
}

static bool is_wanted(const struct stream_coming *c) {
    const struct object_want *want = &c->object->want;
    return !want->hashed || memcmp(want->hash, c->check.hash, HASH_BYTES) == 0;
}

static void check_end(struct stream_store *s, struct stream_coming *c) {
    struct stream_object *o = c->object;
    const char *path;
    struct err e = c->check.err;
    if (!e.code && !is_wanted(c))
        err_set(&e, ERR_HASH, "its content has changed since it was listed (try again)");
    if (e.code)
        cas_part_discard(&s->cas, &c->part);
    else if (cas_part_adopt(&s->cas, &c->part, &path, &e) == 0 && o->want.etag[0])
        (void)known_add(&s->known, o->want.id, c->check.hash, &e);
    memcpy(o->hash, c->check.hash, HASH_BYTES);
    stream_coming_close(s, o);
    if (!e.code) {
        stream_object_whole(s, o);
        return;
    }
    stream_object_gone(o);
    stream_object_fail(s, o, &e);
}

// ---- one request --------------------------------------------------------------------------------

static void on_answer(struct object_range *r) {
    const struct stream_slot *slot = r->ctx;
    struct stream_coming *c = slot->object->coming;
    c->kms |= r->kms;
    slot->object->input->ranged |= r->ranged;
    slot->object->input->whole_only |= r->whole;
    if (slot->alone)
        return;
    if (c->ranging == TRYING)
        c->ranging = r->whole ? ALL : RANGED;
    if (r->whole)
        memset(c->asked, 0xff, (size_t)(c->units + 7) / 8);
}

static void on_bytes(struct object_range *r, int64_t bytes) {
    const struct stream_slot *slot = r->ctx;
    struct stream_coming *c = slot->object->coming;
    if (bytes < 0)
        return;
    slot->store->read += (uint64_t)bytes;
    uint64_t end = r->from + r->got;
    if (slot->alone)
        return;
    for (uint64_t u = (end - (uint64_t)bytes) / CAS_UNIT_BYTES;
         u < c->units && (u * CAS_UNIT_BYTES + CAS_UNIT_BYTES <= end || end == r->want->size); u++)
        if (!bit(c->have, u)) {
            set_bit(c->have, u);
            c->absent--;
            slot->store->to_come -= CAS_UNIT_BYTES;
        }
}

// Gives a reader the bytes of its own request.
static void end_alone(struct stream_slot *slot, const struct err *e) {
    struct stream_reader *x = slot->reader;
    const struct object_range *r = &slot->range;
    if (x && !e->code && x->own_from >= r->from && x->own_end - r->from <= r->call.body.len) {
        size_t len = (size_t)(x->own_end - x->own_from);
        free(x->own);
        x->own = heap_alloc(len);
        memcpy(x->own, r->call.body.data + (x->own_from - r->from), len);
    }
    if (x)
        x->asks = false;
    slot->reader = NULL;
    slot->alone = false;
}

// The request of a slot has ended too early: its units are to be asked for again.
static void give_back(struct stream_slot *slot, const struct err *e) {
    struct stream_object *o = slot->object;
    struct stream_coming *c = o->coming;
    slot->object = NULL;
    end_alone(slot, e);
    c->calls--;
    memcpy(c->asked, c->have, (size_t)(c->units + 7) / 8);
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++) // requests that continue
        if (slot->store->slots[k].object == o && !slot->store->slots[k].alone) {
            const struct object_range *other = &slot->store->slots[k].range;
            for (uint64_t at = other->from; at < other->from + other->len; at += CAS_UNIT_BYTES)
                set_bit(c->asked, at / CAS_UNIT_BYTES);
        }
    c->ranging = c->ranging == TRYING ? UNTRIED : c->ranging == ALL ? UNTRIED : c->ranging;
}

static void on_end(struct object_range *r, const struct err *e) {
    struct stream_slot *slot = r->ctx;
    struct stream_object *o = slot->object;
    struct stream_coming *c = o->coming;
    struct err why = *e;
    if (e->code && (o->changed || o->gone)) // the old address may be over, which is not the reason
        err_set(&why, ERR_HASH,
                o->gone ? "it is not in the source any more"
                        : "it has changed since it was listed (try again)");
    if (e->code) {
        give_back(slot, &why);
        stream_object_fail(slot->store, o, &why);
        return;
    }
    slot->object = NULL;
    end_alone(slot, e);
    c->calls--;
    if (c->absent == 0 && c->calls == 0)
        check_begin(slot->store, o);
}

// ---- bytes of the operator's computer -----------------------------------------------------------

bool stream_source_asks(const struct stream_store *s, size_t slot) {
    return s->slots[slot].object && !s->slots[slot].object->want.url;
}

void stream_source_bytes(struct stream_store *s, size_t slot, const void *p, size_t len) {
    struct object_range *r = &s->slots[slot].range;
    struct err e = {0};
    if (object_range_take(r, p, len, &e) < 0 || r->got == r->len)
        on_end(r, &e);
}

void stream_source_failed(struct stream_store *s, size_t slot, const struct err *e) {
    on_end(&s->slots[slot].range, e);
}

void stream_source_lost(struct stream_store *s) {
    struct err e = {0};
    err_set(&e, ERR_NET, "the connection to the operator's computer was cut");
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        if (stream_source_asks(s, k))
            give_back(&s->slots[k], &e);
}

static bool is_in_reach(const struct stream_store *s, const struct stream_object *o) {
    return o->want.url || s->ask;
}

// ---- asking -------------------------------------------------------------------------------------

static void send_range(struct stream_store *s, struct stream_slot *slot, struct stream_object *o,
                       uint64_t from, uint64_t len) {
    struct stream_coming *c = o->coming;
    if (c->ranging == UNTRIED && !slot->alone)
        c->ranging = len < o->want.size ? TRYING : ALL;
    c->calls++;
    object_range_close(&slot->range);
    slot->store = s;
    slot->object = o;
    slot->range = (struct object_range){
        .want = &o->want,
        .from = from,
        .len = len,
        .may_be_whole = slot->alone ? o->want.size <= STREAM_ALONE_WHOLE_MAX : c->ranging == TRYING,
        .in_memory = slot->alone,
        .part = c->part,
        .on_answer = on_answer,
        .on_bytes = on_bytes,
        .on_end = on_end,
        .ctx = slot};
    if (o->want.url) {
        object_range_begin(&slot->range, s->http);
        return;
    }
    object_range_expect(&slot->range);
    s->ask(s->ask_ctx, (size_t)(slot - s->slots), slot);
}

// Asks for units from `unit` on, up to byte `to`.
static void begin_range(struct stream_store *s, struct stream_slot *slot, struct stream_object *o,
                        uint64_t unit, uint64_t to) {
    struct stream_coming *c = o->coming;
    uint64_t from = unit * CAS_UNIT_BYTES, len = 0;
    if (o->want.etag[0]) {
        for (; len < OBJECT_RANGE_BYTES && unit < c->units && unit * CAS_UNIT_BYTES < to &&
               !bit(c->asked, unit);
             unit++) {
            set_bit(c->asked, unit);
            len += CAS_UNIT_BYTES;
        }
        len = len < o->want.size - from ? len : o->want.size - from;
    } else { // no request for a part could be sure to find the same object
        from = 0;
        len = o->want.size;
        memset(c->asked, 0xff, (size_t)(c->units + 7) / 8);
    }
    send_range(s, slot, o, from, len);
}

// ---- an object begins to come -------------------------------------------------------------------

static int coming_open(struct stream_store *s, struct stream_object *o, struct err *e) {
    struct arena a = {0};
    uint64_t units = cas_unit_count(o->want.size);
    size_t bytes = (size_t)(units + 7) / 8;
    uint32_t count = 0;
    struct stream_coming *c = o->coming = heap_alloc(sizeof *c);
    *c = (struct stream_coming){.units = units, .absent = units, .object = o};
    c->have = heap_alloc(bytes);
    c->asked = heap_alloc(bytes);
    unsigned char *have =
        o->want.etag[0] ? cas_part_have(&s->cas, &a, o->want.id, o->want.size, &count) : NULL;
    if (have) {
        memcpy(c->have, have, bytes);
        memcpy(c->asked, have, bytes);
        c->absent -= count;
    }
    arena_fini(&a);
    s->to_come += c->absent * CAS_UNIT_BYTES;
    c->part.fd = c->part.map_fd = -1;
    if (cas_part_open(&s->cas, &c->part, o->want.id, o->want.size, e) < 0) {
        stream_coming_close(s, o);
        return -1;
    }
    o->input->kept += o->want.size;
    o->state = STREAM_COMING;
    stream_object_use(o);
    if (c->absent == 0)
        check_begin(s, o);
    return 0;
}

// 1: it comes; 0: not now. Failures are the object's.
static int want_object(struct stream_store *s, struct stream_object *o, bool for_reader) {
    struct err e = {0};
    if (o->state != STREAM_ABSENT)
        return o->state == STREAM_COMING;
    int room = stream_make_room(s, o, for_reader, &e);
    if (room < 0 || (room > 0 && coming_open(s, o, &e) < 0))
        stream_object_fail(s, o, &e);
    return o->state == STREAM_COMING;
}

// The first unit in a part of the object without a request; false: there is none now.
static bool find_unit(const struct stream_object *o, uint64_t from, uint64_t to, uint64_t *unit) {
    const struct stream_coming *c = o->coming;
    if (c->ranging == TRYING || c->ranging == ALL || (!o->want.etag[0] && c->calls))
        return false;
    if (!o->want.etag[0])
        from = 0;
    for (*unit = from / CAS_UNIT_BYTES; *unit < c->units && *unit * CAS_UNIT_BYTES < to; ++*unit)
        if (!bit(c->asked, *unit))
            return true;
    return false;
}

// ---- what comes next ----------------------------------------------------------------------------

static void to_the_end(struct stream_store *s, struct stream_reader *r) {
    if (!r->after)
        return;
    *(r->before ? &r->before->after : &s->first) = r->after;
    r->after->before = r->before;
    r->before = s->last;
    r->after = NULL;
    s->last->after = r;
    s->last = r;
}

// Whether a reader's bytes are worth a request of their own.
static bool may_ask_alone(struct stream_store *s, struct stream_reader *r) {
    const struct stream_object *o = r->object;
    const struct stream_input *in = o->input;
    uint64_t len = r->end - r->at;
    bool known = in->ranged || o->want.size <= STREAM_ALONE_WHOLE_MAX;
    return known && !in->whole_only && o->want.etag[0] && len <= STREAM_ALONE_BYTES_MAX &&
           r->end < o->want.size && o->want.size > CAS_UNIT_BYTES &&
           in->alone + len <= in->bytes / STREAM_ALONE_PART && stream_reader_ready(s, r) == 0;
}

static bool fetch_for_reader(struct stream_store *s, struct stream_slot *slot) {
    for (struct stream_reader *r = s->first; r; r = r->after) {
        struct stream_object *o = r->object;
        uint64_t unit;
        if (o->why || r->asks || !is_in_reach(s, o) || !want_object(s, o, true))
            continue;
        slot->urgent = true;
        if (may_ask_alone(s, r)) {
            o->input->alone += r->end - r->at;
            slot->alone = r->asks = true;
            slot->reader = r;
            r->own_from = r->at;
            r->own_end = r->end;
            send_range(s, slot, o, r->at, r->end - r->at);
        } else if (find_unit(o, r->at, r->end, &unit)) {
            begin_range(s, slot, o, unit, r->end);
        } else {
            continue;
        }
        to_the_end(s, r);
        return true;
    }
    return false;
}

static bool fetch_ahead(struct stream_store *s, struct stream_slot *slot, struct stream_input *in) {
    for (size_t k = 0; in->missing && k < in->count; k++) {
        size_t i = (in->next + k) % in->count;
        struct stream_object *o = &s->objects[in->first + i];
        uint64_t unit;
        if (o->why || o->state == STREAM_WHOLE || o->state == STREAM_CHECKING || !is_in_reach(s, o))
            continue;
        bool begins = o->state == STREAM_ABSENT;
        if (begins && in->unread && in->unread + o->want.size > in->window)
            return false;
        if (!want_object(s, o, false)) {
            if (o->why || o->state != STREAM_ABSENT)
                continue;
            return false; // no room
        }
        slot->urgent = false;
        if (begins) {
            o->unread = true;
            in->unread += o->want.size;
        }
        if (!find_unit(o, 0, o->want.size, &unit))
            continue;
        begin_range(s, slot, o, unit, o->want.size);
        return true;
    }
    return false;
}

static void fill(struct stream_store *s, struct stream_slot *slot) {
    size_t busy = 0;
    if (fetch_for_reader(s, slot))
        return;
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        busy += s->slots[k].object != NULL;
    for (size_t i = 0; i < s->input_count && busy < STREAM_AHEAD_CALLS_MAX; i++)
        if (fetch_ahead(s, slot, &s->inputs[i]))
            return;
}

int stream_store_step(struct stream_store *s, int fd, int timeout_ms, struct err *e) {
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++) {
        if (s->slots[k].object)
            continue;
        fill(s, &s->slots[k]);
        if (!s->slots[k].object)
            break; // nothing is left to ask for
    }
    for (struct object_check *k; (k = object_check_next(&s->checks));)
        check_end(s, k->ctx);
    cas_forget_paths(&s->cas);
    return http_step_or(s->http, fd, timeout_ms, e) < 0 ? -1 : 0;
}
