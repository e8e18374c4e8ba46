// SPDX-License-Identifier: Apache-2.0
// Splits a client's bytes into requests and executes each by its row of a table.
//
// The fields of a request are parsed as its bytes arrive, and the parser keeps its position (at,
// field, repeats). A request in a thousand pieces is therefore parsed once in total. It is executed
// when complete, on one contiguous piece of memory.
#include "tcpstore/store.h"

#include "tcpstore/store_impl.h"

#include <sys/types.h>

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
