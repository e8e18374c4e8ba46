// SPDX-License-Identifier: Apache-2.0
// A connection to the node's server of streamed inputs, and ranges read over it (RFC 9110, 9112).
// A connection that is lost in the middle is made again, and the read continues where it was.
#include "base/clock.h"
#include "base/str.h"
#include "data/served.h"
#include "sys/net.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct served_link {
    int fd; // -1: not connected
    size_t have;
    char in[SERVED_HEAD_BYTES_MAX]; // an answer's head, and what came with it
};

enum outcome { DONE, LOST, FAILED };

// ---- the head of an answer ----------------------------------------------------------------------

static bool take_number(const char *p, size_t len, uint64_t *out) {
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9' || v > (UINT64_MAX >> 1) / 10)
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = v;
    return len > 0;
}

static bool take_field(const char *line, size_t len, struct served_answer *out, bool *sized) {
    static const char LENGTH[] = "content-length:", CONNECTION[] = "connection:";
    const char *value = memchr(line, ':', len), *end = line + len;
    if (!value)
        return false;
    for (value++; value < end && *value == ' ';)
        value++;
    if (len >= strlen(LENGTH) && strncasecmp(line, LENGTH, strlen(LENGTH)) == 0) {
        *sized = true;
        return take_number(value, (size_t)(end - value), &out->length);
    }
    if (len >= strlen(CONNECTION) && strncasecmp(line, CONNECTION, strlen(CONNECTION)) == 0)
        out->closes = (size_t)(end - value) == 5 && strncasecmp(value, "close", 5) == 0;
    return true;
}

ssize_t served_answer_parse(const char *in, size_t len, struct served_answer *out) {
    static const char FIRST[] = "HTTP/1.1 ";
    enum { STATUS_AT = sizeof FIRST - 1, STATUS_DIGITS = 3 };
    const char *end = memmem(in, len, "\r\n\r\n", 4), *p;
    uint64_t status;
    bool sized = false;
    *out = (struct served_answer){.status = 0};
    if (!end)
        return len < SERVED_HEAD_BYTES_MAX ? 0 : -1;
    p = memmem(in, (size_t)(end + 2 - in), "\r\n", 2);
    if (p - in < STATUS_AT + STATUS_DIGITS || memcmp(in, FIRST, STATUS_AT) != 0 ||
        !take_number(in + STATUS_AT, STATUS_DIGITS, &status) || status < 200)
        return -1;
    out->status = (int)status;
    for (p += 2; p < end;) {
        const char *line = p;
        p = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        if (!take_field(line, (size_t)(p - line), out, &sized))
            return -1;
        p += 2;
    }
    return sized ? end + 4 - in : -1;
}

// ---- bytes --------------------------------------------------------------------------------------

static void disconnect(struct served_link *x) {
    if (x->fd >= 0)
        close(x->fd);
    x->fd = -1;
    x->have = 0;
}

static int connect_to(const struct served *s, struct served_link *x, struct err *e) {
    struct net_address to;
    if (net_resolve("127.0.0.1", s->port, &to, e) < 0)
        return -1;
    x->fd = net_connect(&to, SERVED_CONNECT_MS_MAX, e);
    x->have = 0;
    return x->fd < 0 ? err_wrap(e, "the server of streamed inputs on this node has ended") : 0;
}

// Some bytes; LOST: the connection has ended.
static enum outcome receive(const struct served *s, struct served_link *x, void *to, size_t room,
                            size_t *got, struct err *e) {
    int64_t end = clock_mono_ms() + SERVED_WAIT_MS_MAX;
    for (;;) {
        struct pollfd p = {.fd = x->fd, .events = POLLIN};
        if (__atomic_load_n(&s->cancelled, __ATOMIC_RELAXED)) {
            err_set(e, ERR_INTERRUPTED, "the data set is being closed");
            return FAILED;
        }
        if (s->on_wait && s->on_wait(s->wait_ctx, e) < 0)
            return FAILED;
        int n = poll(&p, 1, SERVED_CANCEL_MS);
        if (n < 0 && errno != EINTR) {
            err_errno(e, ERR_SYS, "waiting for the server of streamed inputs");
            return FAILED;
        }
        if (n > 0)
            break;
        if (clock_mono_ms() > end) {
            err_set(e, ERR_TIMEOUT, "the server of streamed inputs has sent nothing for %d s",
                    SERVED_WAIT_MS_MAX / 1000);
            return FAILED;
        }
    }
    ssize_t n;
    do
        n = recv(x->fd, to, room, 0);
    while (err_interrupted(n));
    if (n <= 0)
        return LOST;
    *got = (size_t)n;
    return DONE;
}

static enum outcome receive_head(const struct served *s, struct served_link *x,
                                 struct served_answer *out, struct err *e) {
    for (;;) {
        size_t got;
        ssize_t n = served_answer_parse(x->in, x->have, out);
        if (n < 0) {
            err_set(e, ERR_NET, "the server of streamed inputs sends no answer of HTTP");
            return FAILED;
        }
        if (n > 0) {
            x->have -= (size_t)n;
            memmove(x->in, x->in + n, x->have);
            return DONE;
        }
        enum outcome r = receive(s, x, x->in + x->have, sizeof x->in - x->have, &got, e);
        if (r != DONE)
            return r;
        x->have += got;
    }
}

// Adds to *done.
static enum outcome receive_body(const struct served *s, struct served_link *x, char *to,
                                 size_t len, size_t *done, struct err *e) {
    size_t at = x->have < len ? x->have : len;
    memcpy(to, x->in, at);
    x->have -= at;
    memmove(x->in, x->in + at, x->have);
    *done += at;
    while (at < len) {
        size_t got;
        enum outcome r = receive(s, x, to + at, len - at, &got, e);
        if (r != DONE)
            return r;
        at += got;
        *done += got;
    }
    return DONE;
}

// ---- a range ------------------------------------------------------------------------------------

// The server's sentence. Neither ERR_FORMAT nor ERR_LIMIT: those are faults of a sample.
static enum outcome refuse(const struct served *s, struct served_link *x,
                           const struct served_answer *answer, struct err *e) {
    char why[SERVED_WHY_BYTES_MAX];
    size_t got = 0;
    size_t len = answer->length < sizeof why ? (size_t)answer->length : sizeof why;
    enum outcome r = receive_body(s, x, why, len, &got, e);
    if (r == FAILED)
        return r;
    while (got > 0 && why[got - 1] == '\n')
        got--;
    err_set(e,
            answer->status == 404   ? ERR_NOT_FOUND
            : answer->status == 409 ? ERR_HASH
            : answer->status == 504 ? ERR_TIMEOUT
            : answer->status == 507 ? ERR_SYS
                                    : ERR_NET,
            "%.*s", (int)got, why);
    disconnect(x);
    return FAILED;
}

// One request for what is left of the range.
static enum outcome request(const struct served *s, struct served_link *x,
                            const struct served_object *o, uint64_t from, size_t len, char *to,
                            size_t *done, struct err *e) {
    struct served_answer answer;
    struct strbuf line = {0};
    if (x->fd < 0 && connect_to(s, x, e) < 0)
        return FAILED;
    strbuf_addf(&line,
                "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nRange: bytes=%" PRIu64 "-%" PRIu64
                "\r\n\r\n",
                o->target, s->port, from, from + len - 1);
    int sent = net_send_all(x->fd, line.data, line.len, SERVED_SEND_MS_MAX, e);
    strbuf_fini(&line);
    if (sent < 0)
        return LOST;
    enum outcome r = receive_head(s, x, &answer, e);
    if (r != DONE)
        return r;
    if (answer.status >= 300)
        return refuse(s, x, &answer, e);
    if (answer.length != len) {
        err_set(e, ERR_NET, "the server of streamed inputs sends %" PRIu64 " bytes in place of %zu",
                answer.length, len);
        return FAILED;
    }
    r = receive_body(s, x, to, len, done, e);
    if (r == DONE && answer.closes)
        disconnect(x);
    return r;
}

int served_read(const struct served *s, struct served_link **link, const struct served_object *o,
                uint64_t from, size_t len, void *to, struct err *e) {
    size_t done = 0;
    if (from > o->bytes || len > o->bytes - from)
        return err_set(e, ERR_HASH, "'%s' has %" PRIu64 " bytes, and ends before byte %" PRIu64,
                       o->path, o->bytes, from + len);
    if (!*link) {
        *link = heap_alloc(sizeof **link);
        (*link)->fd = -1;
    }
    for (int tries = 0; done < len;) {
        size_t before = done;
        enum outcome r = request(s, *link, o, from + done, len - done, (char *)to + done, &done, e);
        if (r == DONE)
            break;
        disconnect(*link);
        if (r == FAILED)
            return err_wrap(e, "'%s'", o->path);
        tries = done > before ? 0 : tries + 1;
        if (tries == SERVED_TRIES_MAX)
            return err_set(e, ERR_NET,
                           "'%s': the server of streamed inputs on this node has cut the read off "
                           "%d times",
                           o->path, tries);
    }
    return 0;
}

void served_link_close(struct served_link *link) {
    if (!link)
        return;
    disconnect(link);
    free(link);
}
