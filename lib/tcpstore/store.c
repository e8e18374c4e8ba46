// SPDX-License-Identifier: Apache-2.0
// The store: its limits, its sessions, and the replies that wait for their clients. store_parse.c
// reads requests and store_requests.c answers them.
#include "tcpstore/store.h"

#include "base/arena.h"
#include "tcpstore/store_impl.h"

#include <stdlib.h>
#include <string.h>

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
