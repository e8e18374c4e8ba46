// SPDX-License-Identifier: Apache-2.0
// Sessions of the store: splits a client's bytes into requests and executes each by its row of a
// table.
//
// The fields of a request are parsed as its bytes arrive, and the parser keeps its position (at,
// field, repeats). A request in a thousand pieces is therefore parsed once in total. It is executed
// when complete, on one contiguous piece of memory.
#include "tcpstore/store.h"

#include "base/arena.h"
#include "tcpstore/store_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static void limit_default(size_t *limit, size_t absent) {
    if (*limit == 0)
        *limit = absent;
}

struct store *store_open(const struct store_limits *limits) {
    struct store *s = heap_alloc(sizeof *s);
    if (limits)
        s->limits = *limits;
    limit_default(&s->limits.key_bytes_max, STORE_KEY_BYTES_MAX);
    limit_default(&s->limits.value_bytes_max, STORE_VALUE_BYTES_MAX);
    limit_default(&s->limits.request_bytes_max, STORE_REQUEST_BYTES_MAX);
    limit_default(&s->limits.request_keys_max, STORE_REQUEST_KEYS_MAX);
    limit_default(&s->limits.total_bytes_max, STORE_TOTAL_BYTES_MAX);
    limit_default(&s->limits.reply_bytes_max, STORE_REPLY_BYTES_MAX);
    limit_default(&s->limits.sessions_max, STORE_SESSIONS_MAX);
    return s;
}

void store_close(struct store *s) {
    if (!s)
        return;
    must(s->session_count == 0);
    store_map_fini(s);
    free(s);
}

struct store_session *store_session_open(struct store *s, void *ctx, struct err *e) {
    if (s->session_count >= s->limits.sessions_max) {
        err_set(e, ERR_LIMIT, "the store has sessions_max = %zu clients already",
                s->limits.sessions_max);
        return NULL;
    }
    struct store_session *c = heap_alloc(sizeof *c);
    c->store = s;
    c->ctx = ctx;
    s->session_count++;
    s->silent_count++;
    return c;
}

static void ready_remove(struct store *s, struct store_session *c) {
    if (!c->ready)
        return;
    struct store_session *before = NULL;
    for (struct store_session *i = s->ready; i != c; i = i->ready_next)
        before = i;
    *(before ? &before->ready_next : &s->ready) = c->ready_next;
    if (s->ready_last == c)
        s->ready_last = before;
    c->ready = false;
}

void store_session_close(struct store_session *c) {
    if (!c)
        return;
    struct store *s = c->store;
    store_wait_cancel_all(c);
    ready_remove(s, c);
    s->bytes -= c->charged;
    s->session_count--;
    s->silent_count -= !c->heard;
    strbuf_fini(&c->in);
    strbuf_fini(&c->out);
    free(c);
}

void store_mark_ready(struct store_session *c) {
    if (c->ready)
        return;
    struct store *s = c->store;
    c->ready = true;
    c->ready_next = NULL;
    *(s->ready_last ? &s->ready_last->ready_next : &s->ready) = c;
    s->ready_last = c;
}

struct store_session *store_ready(struct store *s) {
    struct store_session *c = s->ready;
    if (!c)
        return NULL;
    s->ready = c->ready_next;
    if (!s->ready)
        s->ready_last = NULL;
    c->ready = false;
    return c;
}

// A client that reads its replies may get a long one, such as a value that grew by APPEND.
static int reply_room(const struct store_session *c, size_t len, struct err *e) {
    const struct store *s = c->store;
    size_t max = c->out.len ? s->limits.reply_bytes_max : s->limits.total_bytes_max;
    if (len > max || c->out.len > max - len)
        return err_set(e, ERR_LIMIT, "unread replies are longer than %s = %zu",
                       c->out.len ? "reply_bytes_max" : "total_bytes_max", max);
    if (len > s->limits.reply_bytes_max && s->bytes > s->limits.total_bytes_max - len)
        return err_set(e, ERR_LIMIT, "the store is full: total_bytes_max is %zu",
                       s->limits.total_bytes_max);
    return 0;
}

int store_reply(struct store_session *c, const void *p, size_t len, struct err *e) {
    if (reply_room(c, len, e) < 0)
        return -1;
    strbuf_add(&c->out, p, len);
    store_mark_ready(c);
    return 0;
}

int store_reply_uint(struct store_session *c, uint64_t v, size_t width, struct err *e) {
    unsigned char bytes[8];
    bytes_store(bytes, v, sizeof bytes);
    return store_reply(c, bytes, width, e);
}

int store_reply_bytes(struct store_session *c, struct store_slice v, struct err *e) {
    unsigned char len[8];
    bytes_store(len, v.len, sizeof len);
    if (reply_room(c, sizeof len + v.len, e) < 0)
        return -1;
    strbuf_add(&c->out, len, sizeof len);
    if (v.len)
        strbuf_add(&c->out, v.p, v.len);
    store_mark_ready(c);
    return 0;
}

struct store_figures store_figures(const struct store *s) {
    return (struct store_figures){s->requests, s->present_count, s->session_count, s->wait_count,
                                  s->bytes};
}

enum walk { WALK_MORE, WALK_DONE, WALK_BAD };

// Parses one length-prefixed field at c->at.
static enum walk walk_slice(struct store_session *c, const char *p, size_t len, size_t max,
                            const char *what, struct err *e) {
    if (len - c->at < 8)
        return WALK_MORE;
    uint64_t size = bytes_load(p + c->at, 8);
    if (size > max) {
        err_set(e, ERR_LIMIT, "a %s of %llu bytes is longer than %zu", what,
                (unsigned long long)size, max);
        return WALK_BAD;
    }
    if (len - c->at - 8 < size)
        return WALK_MORE;
    c->at += 8 + (size_t)size;
    return WALK_DONE;
}

static enum walk walk_fixed(struct store_session *c, size_t len, size_t width) {
    if (len - c->at < width)
        return WALK_MORE;
    c->at += width;
    return WALK_DONE;
}

static enum walk walk_count(struct store_session *c, const char *p, size_t len, struct err *e) {
    if (len - c->at < 8)
        return WALK_MORE;
    c->repeats = bytes_load(p + c->at, 8);
    if (c->repeats > c->store->limits.request_keys_max) {
        err_set(e, ERR_LIMIT, "a request for %llu keys, more than %zu",
                (unsigned long long)c->repeats, c->store->limits.request_keys_max);
        return WALK_BAD;
    }
    c->at += 8;
    return WALK_DONE;
}

// Parses the request at p (opcode p[0]) as far as its bytes are available.
static enum walk walk_request(struct store_session *c, const char *shape, const char *p, size_t len,
                              struct err *e) {
    const struct store_limits *limits = &c->store->limits;
    bool grouped = shape[0] == 'n'; // all fields after a count are repeated
    if (c->at == 0)
        c->at = 1;
    while (shape[c->field]) {
        enum walk w = WALK_BAD;
        switch (shape[c->field]) {
        case 'k': w = walk_slice(c, p, len, limits->key_bytes_max, "key", e); break;
        case 'v': w = walk_slice(c, p, len, limits->value_bytes_max, "value", e); break;
        case 'i': w = walk_fixed(c, len, 8); break;
        case 'u': w = walk_fixed(c, len, 4); break;
        case 'n': w = walk_count(c, p, len, e); break;
        default: err_bug(__FILE__, __LINE__, "a letter of the table of requests");
        }
        if (w != WALK_DONE)
            return w;
        c->field++;
        if (grouped && c->field == 1 && c->repeats == 0)
            break;
        if (grouped && !shape[c->field] && --c->repeats > 0)
            c->field = 1;
        if (c->at > limits->request_bytes_max) {
            err_set(e, ERR_LIMIT, "a request is longer than request_bytes_max = %zu",
                    limits->request_bytes_max);
            return WALK_BAD;
        }
    }
    return WALK_DONE;
}

static const struct store_op_row *row_of(struct store_session *c, unsigned op, struct err *e) {
    if (!c->dialect || op >= 7)
        c->dialect = store_dialect_choose(c, op);
    if (op >= c->dialect->op_count || !c->dialect->ops[op]) {
        err_set(e, ERR_FORMAT, "unknown request %u of protocol %s", op, c->dialect->name);
        return NULL;
    }
    return c->dialect->ops[op];
}

// The first request determines the dialect; opcode 0 with the magic number needs five bytes.
static bool first_is_short(const struct store_session *c, const char *p, size_t len) {
    return !c->dialect && p[0] == 0 && len < 5;
}

// Executes every complete request in p; returns the number of bytes used, or -1.
static ssize_t feed_requests(struct store_session *c, const char *p, size_t len, struct err *e) {
    size_t done = 0;
    while (done < len) {
        const char *q = p + done;
        if (first_is_short(c, q, len - done))
            break;
        if (!c->dialect && q[0] == 0 && bytes_load(q + 1, 4) == STORE_WIRE_MAGIC)
            c->dialect = &store_dialect_modern;
        const struct store_op_row *row = row_of(c, (unsigned char)q[0], e);
        if (!row)
            return -1;
        enum walk w = walk_request(c, row->shape, q, len - done, e);
        if (w == WALK_BAD)
            return err_wrap(e, "%s", row->name);
        if (w == WALK_MORE)
            break;
        struct bytes_reader r = bytes_reader(q + 1, c->at - 1);
        done += c->at;
        c->at = 0;
        c->field = 0;
        c->store->requests++;
        if (row->run(c, &r, e) < 0)
            return err_wrap(e, "%s", row->name);
    }
    return (ssize_t)done;
}

// Counts the bytes buffered for this client in both directions against the store's limit.
static int session_charge(struct store_session *c, struct err *e) {
    size_t held = c->in.len + c->out.len;
    c->store->bytes -= c->charged;
    c->charged = 0;
    if (store_map_charge(c->store, held, e) < 0)
        return -1;
    c->charged = held;
    return 0;
}

int store_feed(struct store_session *c, const void *p, size_t len, struct err *e) {
    if (len == 0)
        return 0;
    if (!c->heard) {
        c->heard = true;
        c->store->silent_count--;
    }
    if (c->in.len == 0) {
        ssize_t done = feed_requests(c, p, len, e);
        if (done < 0)
            return -1;
        if ((size_t)done < len)
            strbuf_add(&c->in, (const char *)p + done, len - (size_t)done);
        return session_charge(c, e);
    }
    strbuf_add(&c->in, p, len);
    ssize_t done = feed_requests(c, c->in.data, c->in.len, e);
    if (done < 0)
        return -1;
    strbuf_consume(&c->in, (size_t)done);
    if (c->in.len == 0)
        strbuf_fini(&c->in); // most clients never need it again
    return session_charge(c, e);
}
