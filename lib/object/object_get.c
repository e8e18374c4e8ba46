// SPDX-License-Identifier: Apache-2.0
// Reads many objects: the order of ranges, the places of their bytes, and the check of each object.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_get.h"

#include "base/clock.h"
#include "sys/file.h"

#include <errno.h>
#include <openssl/md5.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROGRESS_MS = 100,
    SPARE_BYTES = 64 << 20, // of the disk
    CHECK_BYTES = 4 << 20,  // hashed at a time, between two turns of the transfers
};

enum ranging { UNTRIED, TRYING, RANGED, WHOLE };

struct object {
    uint64_t next; // where the next range begins
    uint32_t calls;
    enum ranging ranging;
    bool done, kms;
    unsigned char *have; // bits of units from an earlier time
};

struct slot {
    struct object_range range;
    struct work *work;
    size_t i; // of the object
    bool busy;
};

// A large object whose bytes are all here. Its hashes are computed a piece at a time.
struct check {
    bool busy;
    size_t i;
    struct cas_part part;
    bool has_md5; // to compare with its ETag
    MD5_CTX md5;
    uint64_t summed; // bytes in md5
};

struct work {
    struct object_get *g;
    struct arena arena;
    struct object *objects;
    size_t first; // all before it have been asked for
    size_t left;  // objects that are not done
    struct slot slots[OBJECT_CALLS_MAX];
    struct check check;
    size_t *complete; // large objects to be checked, in turn
    size_t complete_begin, complete_end;
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

static int check_md5(const char *etag, MD5_CTX *md5, struct err *e) {
    unsigned char digest[MD5_DIGEST_LENGTH];
    MD5_Final(digest, md5);
    return object_check_md5(etag, digest, e);
}

// 1: all bytes are in the MD5.
static int add_md5(struct check *c, struct err *e) {
    static unsigned char buf[CAS_PIECE_BYTES];
    for (uint64_t most = CHECK_BYTES; most && c->summed < c->part.size;) {
        ssize_t n = pread(c->part.fd, buf, sizeof buf, (off_t)c->summed);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_errno(e, ERR_SYS, "cannot read the received bytes");
        MD5_Update(&c->md5, buf, (size_t)n);
        c->summed += (uint64_t)n;
        most -= (uint64_t)n < most ? (uint64_t)n : most;
    }
    return c->summed >= c->part.size;
}

static int tell(struct work *w, size_t i, const unsigned char hash[HASH_BYTES], struct err *e) {
    struct object_get *g = w->g;
    w->objects[i].done = true;
    w->left--;
    return g->on_object(g->ctx, i, hash, e);
}

static int check_begin(struct work *w, size_t i, struct err *e) {
    const struct object_want *want = &w->g->wants[i];
    struct check *c = &w->check;
    *c = (struct check){.i = i, .has_md5 = object_etag_is_md5(want->etag) && !w->objects[i].kms};
    if (cas_part_open(w->g->store, &c->part, want->id, want->size, e) < 0)
        return -1;
    c->busy = true;
    MD5_Init(&c->md5);
    return cas_part_complete(&c->part) ? 0 : err_set(e, ERR_HASH, "a part of it is missing");
}

// 1: the bytes are those of the object, as far as its ETag says; 0: not all of them are hashed.
static int check_more(struct work *w, struct err *e) {
    struct check *c = &w->check;
    int result = c->busy ? 0 : check_begin(w, w->complete[w->complete_begin++], e);
    if (result == 0)
        result = cas_part_hash(&c->part, CHECK_BYTES, e);
    if (result > 0 && c->has_md5)
        result = add_md5(c, e);
    return result > 0 && c->has_md5 && check_md5(w->g->wants[c->i].etag, &c->md5, e) < 0 ? -1
                                                                                         : result;
}

static int check_end(struct work *w, struct err *e) {
    struct object_get *g = w->g;
    struct check *c = &w->check;
    const struct object_want *want = &g->wants[c->i];
    const char *path;
    int result = cas_part_adopt(g->store, &c->part, &path, e);
    cas_part_close(&c->part);
    c->busy = false;
    if (result < 0 || (want->etag[0] && known_add(g->known, want->id, c->part.hash, e) < 0))
        return -1;
    return tell(w, c->i, c->part.hash, e);
}

static bool has_checks(const struct work *w) {
    return w->check.busy || w->complete_begin < w->complete_end;
}

static int check_step(struct work *w, struct err *e) {
    int result = check_more(w, e);
    if (result < 0 && w->check.busy)
        cas_part_discard(w->g->store, &w->check.part);
    if (result < 0)
        w->check.busy = false;
    if (result < 0 || (result > 0 && check_end(w, e) < 0)) {
        fail(w, w->check.i, e);
        return -1;
    }
    return 0;
}

static int finish_small(struct work *w, struct slot *s, struct err *e) {
    struct object_get *g = w->g;
    const struct object_want *want = &g->wants[s->i];
    const struct strbuf *body = &s->range.call.body;
    const void *p = strbuf_cstr(body);
    unsigned char hash[HASH_BYTES];
    if (object_etag_is_md5(want->etag) && !s->range.kms) {
        MD5_CTX md5;
        MD5_Init(&md5);
        MD5_Update(&md5, p, body->len);
        if (check_md5(want->etag, &md5, e) < 0)
            return -1;
    }
    hash_of(hash, p, body->len);
    if ((!cas_has_small(g->store, hash, want->size) &&
         cas_add_small(g->store, hash, p, body->len, e) < 0) ||
        (want->etag[0] && known_add(g->known, want->id, hash, e) < 0))
        return -1;
    return tell(w, s->i, hash, e);
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
    struct object *o = &w->objects[s->i];
    if (s->range.in_memory)
        return finish_small(w, s, e);
    if (o->next == w->g->wants[s->i].size && o->calls == 0)
        w->complete[w->complete_end++] = s->i;
    return 0;
}

static void on_end(struct object_range *r, const struct err *e) {
    struct slot *s = r->ctx;
    struct work *w = s->work;
    struct err why = *e;
    w->objects[s->i].calls--;
    if (!r->in_memory)
        cas_part_close(&r->part);
    if (why.code || end_range(w, s, &why) < 0)
        fail(w, s->i, &why);
    s->busy = false;
}

static int begin(struct work *w, struct slot *s, size_t i, uint64_t from, uint64_t len,
                 struct err *e) {
    const struct object_want *want = &w->g->wants[i];
    object_range_close(&s->range);
    *s = (struct slot){.work = w, .i = i, .busy = true};
    s->range = (struct object_range){.want = want,
                                     .from = from,
                                     .len = len,
                                     .may_be_whole = w->objects[i].ranging == TRYING,
                                     .in_memory = want->size <= OBJECT_SMALL_BYTES_MAX,
                                     .on_answer = on_answer,
                                     .on_bytes = on_bytes,
                                     .on_end = on_end,
                                     .ctx = s};
    if (!s->range.in_memory &&
        cas_part_open(w->g->store, &s->range.part, want->id, want->size, e) < 0)
        return -1;
    w->objects[i].calls++;
    object_range_begin(&s->range, w->g->http);
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
            if (!o->calls)
                w->complete[w->complete_end++] = i;
            return 0;
        }
        if (first)
            o->ranging = len < g->wants[i].size ? TRYING : WHOLE;
        return begin(w, s, i, from, len, e) < 0 ? (fail(w, i, e), -1) : 0;
    }
    return 0;
}

// ---- before and around --------------------------------------------------------------------------

static bool has_content(const struct object_get *g, const unsigned char *hash, uint64_t size) {
    return size <= OBJECT_SMALL_BYTES_MAX ? cas_has_small(g->store, hash, size)
                                          : cas_has_object(g->store, hash, size);
}

// 1: the store has the object, 0: it has not. Content that another node has read and given to this
// one becomes known.
static int is_there(struct work *w, size_t i, unsigned char hash[HASH_BYTES], struct err *e) {
    struct object_get *g = w->g;
    const struct object_want *want = &g->wants[i];
    const unsigned char *found = want->etag[0] ? known_find(g->known, want->id) : NULL;
    if (want->hashed && has_content(g, want->hash, want->size)) {
        memcpy(hash, want->hash, HASH_BYTES);
        bool known = !want->etag[0] || (found && memcmp(found, hash, HASH_BYTES) == 0);
        return known || known_add(g->known, want->id, hash, e) == 0 ? 1 : -1;
    }
    if (!found)
        return 0;
    memcpy(hash, found, HASH_BYTES);
    return has_content(g, hash, want->size);
}

static int look(struct work *w, struct err *e) {
    struct object_get *g = w->g;
    unsigned char hash[HASH_BYTES];
    char need[STR_HUMAN_BYTES_MAX], has[STR_HUMAN_BYTES_MAX];
    uint64_t missing = 0, free_bytes;
    for (size_t i = 0; i < g->count; i++) {
        const struct object_want *want = &g->wants[i];
        uint32_t units = 0;
        w->total += want->size;
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
    if (http_step(g->http, has_checks(w) ? 0 : PROGRESS_MS, e) < 0 ||
        (has_checks(w) && check_step(w, e) < 0))
        return -1;
    int64_t now = clock_mono_ms();
    if (now - w->told_ms < PROGRESS_MS)
        return 0;
    w->told_ms = now;
    return g->on_progress(g->ctx, w->done, w->total, e);
}

int object_get_all(struct object_get *g, struct err *e) {
    struct work *w = heap_alloc(sizeof *w);
    w->g = g;
    w->left = g->count;
    w->objects = arena_new(&w->arena, struct object, g->count + 1);
    w->complete = arena_new(&w->arena, size_t, g->count + 1);
    int result = cas_load(g->store, e);
    if (result == 0)
        result = look(w, e);
    while (result == 0 && w->left && !w->err.code)
        result = step(w, e);
    if (w->err.code) {
        *e = w->err;
        result = -1;
    }
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++) {
        if (w->slots[k].busy && !w->slots[k].range.in_memory)
            cas_part_close(&w->slots[k].range.part);
        object_range_close(&w->slots[k].range);
    }
    if (w->check.busy)
        cas_part_close(&w->check.part);
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
