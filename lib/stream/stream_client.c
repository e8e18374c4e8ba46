// SPDX-License-Identifier: Apache-2.0
// One connection: its requests, and answers that go out as the bytes come.
#include "stream/stream_server_impl.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 << 10, TURN_BYTES = 1 << 20, OUT_BYTES_MAX = 1 << 20 };

static void finish(struct stream_client *x) {
    stream_reader_end(&x->server->store, &x->reader);
    x->answers = x->begun = false;
}

static void done(struct stream_client *x) {
    finish(x);
    x->since_ms = clock_mono_ms();
    conn_idle_limit(&x->conn, STREAM_IDLE_MS_MAX);
    if (x->request.keep_alive)
        conn_resume(&x->conn);
    else
        conn_finish(&x->conn);
}

// An answer without an object. Such a connection stays when the request was well formed.
static void refuse(struct stream_client *x, int status, const char *why, bool stays) {
    struct strbuf out = {0};
    size_t len = strlen(why) + 1;
    x->request.keep_alive &= stays;
    strbuf_addf(&out,
                "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: %s\r\n",
                status, stream_status_text(status), len,
                x->request.keep_alive ? "keep-alive" : "close");
    if (status == 416)
        strbuf_addf(&out, "Content-Range: bytes */%" PRIu64 "\r\n", x->len);
    if (status == 405)
        strbuf_adds(&out, "Allow: GET, HEAD\r\n");
    strbuf_addf(&out, "\r\n%s\n", x->request.head ? "" : why);
    if (x->request.head)
        out.len--; // a HEAD has no body
    conn_send(&x->conn, out.data, out.len);
    strbuf_fini(&out);
    done(x);
}

static void send_head(struct stream_client *x, const struct stream_object *o) {
    struct strbuf out = {0};
    char id[HASH_HEX_BYTES];
    hash_hex(id, o->want.id);
    strbuf_addf(&out,
                "HTTP/1.1 %d %s\r\nContent-Type: application/octet-stream\r\n"
                "Content-Length: %" PRIu64 "\r\nAccept-Ranges: bytes\r\nETag: \"%s\"\r\n"
                "Connection: %s\r\n",
                x->status, stream_status_text(x->status), x->len, id,
                x->request.keep_alive ? "keep-alive" : "close");
    if (x->status == 206)
        strbuf_addf(&out, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", x->from,
                    x->from + x->len - 1, o->want.size);
    strbuf_adds(&out, "\r\n");
    conn_send(&x->conn, out.data, out.len);
    strbuf_fini(&out);
    x->begun = true;
}

// ---- an answer ----------------------------------------------------------------------------------

// The bytes will not come: a status if there is still time for it, else a short answer.
static void give_up(struct stream_client *x, int status, const char *why) {
    if (!x->begun) {
        refuse(x, status, why, true);
        return;
    }
    finish(x);
    conn_close(&x->conn);
    x->used = false;
}

static int status_of(const struct err *why) {
    switch (why->code) {
    case ERR_NOT_FOUND: return 404;
    case ERR_HASH: return 409;
    case ERR_LIMIT: return 507;
    case ERR_TIMEOUT: return 504;
    default: return 502;
    }
}

void stream_client_pump(struct stream_client *x) {
    static char buf[PIECE_BYTES];
    struct stream_store *store = &x->server->store;
    struct stream_object *o = x->reader.object;
    uint64_t sent = 0;
    if (!x->used || !x->answers)
        return;
    while (x->reader.at < x->reader.end && sent < TURN_BYTES &&
           conn_unsent(&x->conn) < OUT_BYTES_MAX / 2) {
        struct err e = {0};
        if (stream_reader_ready(store, &x->reader) == 0)
            break;
        ssize_t n = stream_reader_read(store, &x->reader, buf, sizeof buf, &e);
        if (n < 0) {
            give_up(x, 502, e.text);
            return;
        }
        if (n == 0)
            break;
        if (!x->begun)
            send_head(x, o);
        conn_send(&x->conn, buf, (size_t)n);
        stream_server_served(x->server);
        sent += (uint64_t)n;
        x->since_ms = clock_mono_ms();
    }
    if (x->reader.at == x->reader.end) {
        if (!x->begun)
            send_head(x, o);
        done(x);
        stream_client_take(x); // a request that is there already
    } else if (o->why && stream_reader_ready(store, &x->reader) == 0) {
        give_up(x, status_of(o->why), o->why->text);
    }
}

bool stream_client_waits(const struct stream_client *x) {
    return x->used && x->answers && conn_unsent(&x->conn) < OUT_BYTES_MAX / 2;
}

void stream_client_late(struct stream_client *x, int64_t now_ms) {
    if (!x->used)
        return;
    if (x->answers && stream_client_waits(x) && now_ms - x->since_ms > STREAM_WAIT_MS_MAX)
        give_up(x, 504, "the object has not come within the time limit");
    else if (!x->answers && x->head_ms && now_ms - x->head_ms > STREAM_HEAD_MS_MAX)
        stream_client_close(x);
}

// ---- a request ----------------------------------------------------------------------------------

static bool same_etag(const struct stream_request *r, const struct stream_object *o) {
    char id[HASH_HEX_BYTES];
    hash_hex(id, o->want.id);
    return r->if_range_len == HASH_HEX_BYTES + 1 && r->if_range[0] == '"' &&
           memcmp(r->if_range + 1, id, HASH_HEX_BYTES - 1) == 0;
}

static void answer(struct stream_client *x) {
    struct stream_request *r = &x->request;
    struct stream_object *o = stream_server_find(x->server, r->target, r->target_len);
    if (!o) {
        refuse(x, 404, "there is no such object", true);
        return;
    }
    if (r->if_range && !same_etag(r, o))
        r->range = STREAM_RANGE_NONE;
    x->status = stream_request_part(r, o->want.size, &x->from, &x->len);
    if (x->status == 416) {
        x->len = o->want.size;
        refuse(x, 416, "the object has no such bytes", true);
        return;
    }
    if (r->head) {
        send_head(x, o);
        done(x);
        return;
    }
    x->answers = true;
    x->begun = false;
    x->since_ms = clock_mono_ms();
    conn_idle_limit(&x->conn, 0); // a reader may take its time
    stream_reader_begin(&x->server->store, &x->reader, o, x->from, x->len);
}

// Takes the requests that have come, until one has to wait.
void stream_client_take(struct stream_client *x) {
    struct conn *c = &x->conn;
    while (x->used && !x->answers && c->in.len && !c->closing) {
        int status = 400;
        ssize_t n = stream_request_parse(c->in.data, c->in.len, &x->request, &status);
        if (n == 0) {
            x->head_ms = x->head_ms ? x->head_ms : clock_mono_ms();
            return;
        }
        x->head_ms = 0;
        if (n < 0) {
            strbuf_consume(&c->in, c->in.len);
            x->request.keep_alive = false;
            refuse(x, status, stream_status_text(status), false);
            return;
        }
        answer(x);
        if (!x->used)
            return;
        x->request.target = x->request.if_range = NULL; // they lie in what is consumed now
        strbuf_consume(&c->in, (size_t)n);
    }
}

// ---- the connection -----------------------------------------------------------------------------

static void on_data(struct conn *c) {
    struct stream_client *x = container_of(c, struct stream_client, conn);
    stream_client_take(x);
    stream_client_pump(x);
}

static void on_drain(struct conn *c) {
    stream_client_pump(container_of(c, struct stream_client, conn));
}

static void on_end(struct conn *c, const struct err *e) {
    struct stream_client *x = container_of(c, struct stream_client, conn);
    (void)e;
    finish(x);
    x->used = false;
}

void stream_client_close(struct stream_client *x) {
    if (!x->used)
        return;
    finish(x);
    conn_close(&x->conn);
    x->used = false;
}

int stream_client_open(struct stream_client *x, struct stream_server *s, int fd, struct err *e) {
    static const struct conn_events events = {
        .on_data = on_data, .on_drain = on_drain, .on_end = on_end};
    *x = (struct stream_client){.server = s, .reader.fd = -1};
    if (conn_open(&x->conn, s->loop, fd, &events, STREAM_REQUEST_BYTES_MAX,
                  OUT_BYTES_MAX + PIECE_BYTES, e) < 0)
        return -1;
    x->used = true;
    x->since_ms = clock_mono_ms();
    conn_idle_limit(&x->conn, STREAM_IDLE_MS_MAX);
    return 0;
}
