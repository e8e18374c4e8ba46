// SPDX-License-Identifier: Apache-2.0
// Reads many objects: the order of ranges, the places of their bytes, and the check of each object.
#include "object/object_get.h"

#include "base/clock.h"
#include "object/object_check.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum {
    PROGRESS_MS = 100,
    LOOK_BYTES = 32 << 20,  // hashed between two calls of on_progress
    SPARE_BYTES = 64 << 20, // of the disk
};

enum ranging { UNTRIED, TRYING, RANGED, WHOLE };

struct object {
    uint64_t next; // where the next range begins
    uint32_t calls;
    enum ranging ranging;
    bool done, kms;
    unsigned char *have; // bits of units from an earlier time
};

// A request for a range, then the check of the object if it has become complete.
struct slot {
    struct object_range range;
    struct cas_part part; // a large object that is checked
    struct object_check check;
    struct work *work;
    size_t i; // of the object
    bool busy, has_part;
};

struct work {
    struct object_get *g;
    struct arena arena;
    struct object *objects;
    size_t first; // all before it have been asked for
    size_t left;  // objects that are not done
    struct slot slots[OBJECT_CALLS_MAX];
    struct object_checks checks;
    uint64_t done, total;
    struct err err; // the first failure
    int64_t told_ms;
};

static void fail(struct work *w, size_t i, const struct err *e) {
    if (w->err.code)
        return;
    w->err = *e;
    err_wrap(&w->err, "'%.300s'", w->g->wants[i].name);
}

// ---- a whole object -----------------------------------------------------------------------------

static int tell(struct work *w, size_t i, const unsigned char hash[HASH_BYTES], struct err *e) {
    struct object_get *g = w->g;
    w->objects[i].done = true;
    w->left--;
    return g->on_object(g->ctx, i, hash, e);
}

// All bytes of the slot's object are here. The slot stays busy, so that transfers wait where
// hashing is slower than they are.
static int check_begin(struct work *w, struct slot *s, struct err *e) {
    const struct object_want *want = &w->g->wants[s->i];
    const struct strbuf *body = &s->range.call.body;
    s->check = (struct object_check){
        .http = w->g->http, .etag = want->etag, .kms = w->objects[s->i].kms, .ctx = s};
    if (want->size <= OBJECT_SMALL_BYTES_MAX) {
        s->check.p = strbuf_cstr(body);
        s->check.len = body->len;
    } else {
        if (cas_part_open(w->g->store, &s->part, want->id, want->size, e) < 0)
            return -1;
        s->has_part = true;
        s->check.part = &s->part;
        if (!cas_part_complete(&s->part))
            return err_set(e, ERR_HASH, "a part of it is missing");
    }
    s->busy = true;
    object_check_begin(&w->checks, &s->check);
    return 0;
}

static int keep(struct work *w, struct slot *s, struct err *e) {
    struct cas *store = w->g->store;
    const struct object_check *k = &s->check;
    const char *path;
    if (s->has_part)
        return cas_part_adopt(store, &s->part, &path, e);
    return cas_has_small(store, k->hash, k->len) ? 0
                                                 : cas_add_small(store, k->hash, k->p, k->len, e);
}

static int check_end(struct work *w, struct slot *s, struct err *e) {
    struct object_get *g = w->g;
    const struct object_want *want = &g->wants[s->i];
    if (s->check.err.code) {
        *e = s->check.err;
        if (s->has_part)
            cas_part_discard(g->store, &s->part);
        s->busy = s->has_part = false;
        return -1;
    }
    if (keep(w, s, e) < 0 || (want->etag[0] && known_add(g->known, want->id, s->check.hash, e) < 0))
        return -1;
    if (s->has_part)
        cas_part_close(&s->part);
    s->busy = s->has_part = false;
    return tell(w, s->i, s->check.hash, e);
}

static int end_checks(struct work *w, struct err *e) {
    for (struct object_check *k; (k = object_check_next(&w->checks));) {
        struct slot *s = k->ctx;
        if (check_end(w, s, e) == 0)
            continue;
        fail(w, s->i, e);
        return -1;
    }
    return 0;
}

// ---- one request --------------------------------------------------------------------------------

static void on_answer(struct object_range *r) {
    struct slot *s = r->ctx;
    struct object *o = &s->work->objects[s->i];
    o->kms |= r->kms;
    if (o->ranging == TRYING)
        o->ranging = r->whole ? WHOLE : RANGED;
    if (r->whole)
        o->next = r->want->size;
}

static void on_bytes(struct object_range *r, int64_t bytes) {
    struct slot *s = r->ctx;
    s->work->done += (uint64_t)bytes; // wraps back for a try that begins anew
    if (bytes > 0)
        s->work->g->bytes_read += (uint64_t)bytes;
}

static int end_range(struct work *w, struct slot *s, struct err *e) {
    const struct object *o = &w->objects[s->i];
    bool complete = o->next == w->g->wants[s->i].size && o->calls == 0;
    return complete ? check_begin(w, s, e) : 0;
}

static void on_end(struct object_range *r, const struct err *e) {
    struct slot *s = r->ctx;
    struct work *w = s->work;
    struct err why = *e;
    w->objects[s->i].calls--;
    s->busy = false;
    if (!r->in_memory)
        cas_part_close(&r->part);
    if (why.code || end_range(w, s, &why) < 0)
        fail(w, s->i, &why);
}

static int begin(struct work *w, struct slot *s, size_t i, uint64_t from, uint64_t len,
                 struct err *e) {
    const struct object_want *want = &w->g->wants[i];
    struct object_range *r = &s->range;
    object_range_reset(r);
    r->want = want;
    r->from = from;
    r->len = len;
    r->may_be_whole = w->objects[i].ranging == TRYING;
    r->in_memory = want->size <= OBJECT_SMALL_BYTES_MAX;
    r->on_answer = on_answer;
    r->on_bytes = on_bytes;
    r->on_end = on_end;
    r->ctx = s;
    if (!r->in_memory && cas_part_open(w->g->store, &r->part, want->id, want->size, e) < 0)
        return -1;
    s->i = i;
    s->busy = true;
    w->objects[i].calls++;
    object_range_begin(r, w->g->http);
    return 0;
}

// ---- the order of ranges ------------------------------------------------------------------------

static bool has_unit(const struct object *o, uint64_t unit) {
    return o->have && o->have[unit / 8] >> (unit % 8) & 1;
}

// Passes over the units that are there; false: none is missing from o->next on.
static bool next_range(const struct object_want *want, struct object *o, uint64_t *from,
                       uint64_t *len) {
    while (o->next < want->size && has_unit(o, o->next / CAS_UNIT_BYTES))
        o->next += CAS_UNIT_BYTES;
    if (o->next >= want->size) {
        o->next = want->size;
        return false;
    }
    *from = o->next;
    *len = want->size - o->next;
    if (want->etag[0] && want->size > OBJECT_SMALL_BYTES_MAX && *len > OBJECT_RANGE_BYTES)
        *len = OBJECT_RANGE_BYTES;
    o->next += *len;
    return true;
}

// Gives the slot a request, or leaves it idle.
static int fill(struct work *w, struct slot *s, struct err *e) {
    struct object_get *g = w->g;
    uint64_t from, len;
    while (w->first < g->count &&
           (w->objects[w->first].done || (w->objects[w->first].ranging != UNTRIED &&
                                          w->objects[w->first].next == g->wants[w->first].size)))
        w->first++;
    for (size_t i = w->first; i < g->count; i++) {
        struct object *o = &w->objects[i];
        if (o->done || o->ranging == TRYING || o->ranging == WHOLE ||
            (o->ranging == RANGED && o->next == g->wants[i].size))
            continue;
        bool first = o->ranging == UNTRIED;
        if (g->wants[i].size == 0)
            from = len = o->next = 0;
        else if (!next_range(&g->wants[i], o, &from, &len)) {
            o->ranging = WHOLE; // an earlier time had stopped before the end
            s->i = i;
            return o->calls || check_begin(w, s, e) == 0 ? 0 : (fail(w, i, e), -1);
        }
        if (first)
            o->ranging = len < g->wants[i].size ? TRYING : WHOLE;
        return begin(w, s, i, from, len, e) < 0 ? (fail(w, i, e), -1) : 0;
    }
    return 0;
}

// ---- before and around --------------------------------------------------------------------------

// An object may have to be hashed again, which takes long: on_progress is called meanwhile.
static int has_object(struct work *w, const unsigned char *hash, uint64_t size, struct err *e) {
    struct object_get *g = w->g;
    struct cas_check k = {0};
    enum cas_found found;
    for (;;) {
        uint64_t most = LOOK_BYTES;
        found = cas_check_object(g->store, &k, hash, size, &most);
        if (found != CAS_FOUND_LATER)
            return found == CAS_PRESENT;
        if (g->on_progress(g->ctx, w->done, w->total, e) < 0)
            break;
    }
    cas_check_close(&k);
    return -1;
}

// No store has content of no bytes, and nothing has to be read of it.
static int has_content(struct work *w, const unsigned char *hash, uint64_t size, struct err *e) {
    if (size == 0)
        return 1;
    return size <= OBJECT_SMALL_BYTES_MAX ? cas_has_small(w->g->store, hash, size)
                                          : has_object(w, hash, size, e);
}

// 1: the store has the object, 0: it has not. Content that another node has read and given to this
// one becomes known.
static int is_there(struct work *w, size_t i, unsigned char hash[HASH_BYTES], struct err *e) {
    struct object_get *g = w->g;
    const struct object_want *want = &g->wants[i];
    const unsigned char *found = want->etag[0] ? known_find(g->known, want->id) : NULL;
    int has = want->hashed ? has_content(w, want->hash, want->size, e) : 0;
    if (has < 0)
        return -1;
    if (has) {
        memcpy(hash, want->hash, HASH_BYTES);
        bool known = !want->etag[0] || (found && memcmp(found, hash, HASH_BYTES) == 0);
        return known || known_add(g->known, want->id, hash, e) == 0 ? 1 : -1;
    }
    if (!found)
        return 0;
    memcpy(hash, found, HASH_BYTES);
    return has_content(w, hash, want->size, e);
}

static int look(struct work *w, struct err *e) {
    struct object_get *g = w->g;
    unsigned char hash[HASH_BYTES];
    char need[STR_HUMAN_BYTES_MAX], has[STR_HUMAN_BYTES_MAX];
    uint64_t missing = 0, free_bytes;
    for (size_t i = 0; i < g->count; i++)
        w->total += g->wants[i].size;
    for (size_t i = 0; i < g->count; i++) {
        const struct object_want *want = &g->wants[i];
        uint32_t units = 0;
        int there = is_there(w, i, hash, e);
        if (there < 0)
            return -1;
        if (there) {
            w->done += want->size;
            if (tell(w, i, hash, e) < 0)
                return -1;
            continue;
        }
        if (want->etag[0] && want->size > OBJECT_SMALL_BYTES_MAX)
            w->objects[i].have = cas_part_have(g->store, &w->arena, want->id, want->size, &units);
        uint64_t begun = (uint64_t)units * CAS_UNIT_BYTES;
        begun = begun < want->size ? begun : want->size;
        w->done += begun;
        // A small one is in a pack of the store, and in its folder as well.
        missing += (want->size - begun) * (want->size <= OBJECT_SMALL_BYTES_MAX ? 2 : 1);
    }
    if (missing == 0)
        return 0;
    if (file_disk_free(g->store->dir, &free_bytes, e) < 0)
        return -1;
    return missing + SPARE_BYTES <= free_bytes
               ? 0
               : err_set(e, ERR_LIMIT, "the disk has %s free, and the input needs %s",
                         str_human_bytes(has, free_bytes), str_human_bytes(need, missing));
}

static int step(struct work *w, struct err *e) {
    struct object_get *g = w->g;
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        if (!w->slots[k].busy && fill(w, &w->slots[k], e) < 0)
            return -1;
    if (w->left == 0)
        return 0;
    if (http_step(g->http, PROGRESS_MS, e) < 0 || end_checks(w, e) < 0)
        return -1;
    int64_t now = clock_mono_ms();
    if (now - w->told_ms < PROGRESS_MS)
        return 0;
    w->told_ms = now;
    return g->on_progress(g->ctx, w->done, w->total, e);
}

static void slot_close(struct slot *s) {
    if (s->has_part)
        cas_part_close(&s->part);
    else if (s->busy && !s->range.in_memory)
        cas_part_close(&s->range.part);
    object_range_close(&s->range);
}

int object_get_all(struct object_get *g, struct err *e) {
    struct work *w = heap_alloc(sizeof *w);
    w->g = g;
    w->left = g->count;
    w->objects = arena_new(&w->arena, struct object, g->count + 1);
    object_checks_open(&w->checks);
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        w->slots[k].work = w;
    int result = cas_load(g->store, e);
    if (result == 0)
        result = look(w, e);
    while (result == 0 && w->left && !w->err.code)
        result = step(w, e);
    if (w->err.code) {
        *e = w->err;
        result = -1;
    }
    object_checks_close(&w->checks);
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        slot_close(&w->slots[k]);
    struct err second = {0};
    if (cas_flush(g->store, &second) < 0 && result == 0) {
        *e = second;
        result = -1;
    }
    if (result == 0)
        result = g->on_progress(g->ctx, w->total, w->total, e);
    arena_fini(&w->arena);
    free(w);
    return result;
}
