// SPDX-License-Identifier: Apache-2.0
// Theory of operation: reading fills `in` until its cap and calls on_data once per readiness;
// sending tries the socket at once and queues the rest. Errors found inside conn_send are delivered
// by the `kick` timer, never re-entrantly. Each callback may close the conn: every step after a
// callback checks that it is still the same open one.
#include "sys/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

bool conn_is_open(const struct conn *c) {
    return c->loop != NULL;
}

void conn_close(struct conn *c) {
    if (!c->loop)
        return;
    int fd = c->watch.fd;
    watch_stop(&c->watch);
    timer_stop(&c->idle);
    timer_stop(&c->kick);
    strbuf_fini(&c->in);
    strbuf_fini(&c->out);
    close(fd);
    c->loop = NULL;
}

static void end(struct conn *c, const struct err *e) {
    conn_close(c);
    c->events->on_end(c, e);
}

static void end_clean(struct conn *c) {
    struct err none = {0};
    end(c, &none);
}

static void end_errno(struct conn *c, const char *what) {
    struct err e;
    c->error = errno;
    err_errno(&e, ERR_NET, "%s", what);
    end(c, &e);
}

static void on_idle(struct timer *t) {
    struct conn *c = container_of(t, struct conn, idle);
    struct err e;
    if (c->connecting)
        err_set(&e, ERR_TIMEOUT, "no answer to the connection request");
    else
        err_set(&e, ERR_TIMEOUT, "no data for %lld ms", (long long)c->idle_ms_max);
    end(c, &e);
}

static void note_traffic(struct conn *c) {
    if (c->idle_ms_max > 0)
        timer_start(c->loop, &c->idle, c->idle_ms_max, on_idle);
}

static void update_watch(struct conn *c) {
    unsigned events = 0;
    if (c->connecting || c->out.len > c->out_sent)
        events |= LOOP_WRITE;
    if (!c->connecting && !c->eof && c->in.len < c->in_bytes_max)
        events |= LOOP_READ;
    watch_modify(&c->watch, events);
}

// Writes what it can. -1: the conn is broken (errno).
static int flush(struct conn *c) {
    while (c->out_sent < c->out.len) {
        ssize_t n =
            send(c->watch.fd, c->out.data + c->out_sent, c->out.len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK)
            n = write(c->watch.fd, c->out.data + c->out_sent, c->out.len - c->out_sent);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        c->out_sent += (size_t)n;
        note_traffic(c);
    }
    strbuf_clear(&c->out);
    c->out_sent = 0;
    return 0;
}

// True when the conn survived.
static bool write_ready(struct conn *c) {
    bool drained = c->drain_due || c->out.len > 0;
    c->drain_due = false;
    if (flush(c) < 0) {
        end_errno(c, "cannot send");
        return false;
    }
    if (c->out.len == 0 && c->closing)
        shutdown(c->watch.fd, SHUT_WR);
    if (drained && c->out.len == 0 && c->events->on_drain)
        c->events->on_drain(c);
    return c->loop != NULL;
}

static bool deliver(struct conn *c) {
    if (c->in.len > 0)
        c->events->on_data(c);
    if (!c->loop)
        return false;
    if (c->eof) {
        end_clean(c);
        return false;
    }
    return true;
}

static bool read_ready(struct conn *c) {
    char buf[READ_BYTES];
    size_t room = c->in_bytes_max - c->in.len;
    if (room == 0)
        return true;
    ssize_t n = read(c->watch.fd, buf, room < sizeof buf ? room : sizeof buf);
    if (err_not_yet(n))
        return true;
    if (n < 0) {
        end_errno(c, "cannot receive");
        return false;
    }
    if (n == 0)
        c->eof = true;
    else
        note_traffic(c);
    strbuf_add(&c->in, buf, (size_t)n);
    return deliver(c);
}

static bool finish_connect(struct conn *c) {
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(c->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) {
        errno = error;
        end_errno(c, "cannot connect");
        return false;
    }
    c->connecting = false;
    timer_stop(&c->idle);
    note_traffic(c);
    if (c->events->on_open)
        c->events->on_open(c);
    return c->loop != NULL;
}

static void on_ready(struct watch *w, unsigned events) {
    struct conn *c = container_of(w, struct conn, watch);
    if (c->connecting && !finish_connect(c))
        return;
    if ((events & LOOP_WRITE) && !write_ready(c))
        return;
    if ((events & LOOP_READ) && !c->eof && !read_ready(c))
        return;
    // A hang-up while input is paused would spin (it cannot be masked): end when nothing more fits.
    if ((events & LOOP_HANGUP) && (c->in.len >= c->in_bytes_max || c->eof)) {
        end_clean(c);
        return;
    }
    update_watch(c);
}

static int open_any(struct conn *c, struct loop *loop, int fd, const struct conn_events *events,
                    size_t in_bytes_max, size_t out_bytes_max, bool connecting, struct err *e) {
    *c = (struct conn){
        .events = events, .in_bytes_max = in_bytes_max, .connecting = connecting, .ctx = c->ctx};
    strbuf_init(&c->in, 0);
    strbuf_init(&c->out, out_bytes_max);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_errno(e, ERR_SYS, "cannot make descriptor %d non-blocking", fd);
    if (watch_start(loop, &c->watch, fd, connecting ? LOOP_WRITE : LOOP_READ, on_ready, e) < 0)
        return -1;
    c->loop = loop;
    return 0;
}

int conn_open(struct conn *c, struct loop *loop, int fd, const struct conn_events *events,
              size_t in_bytes_max, size_t out_bytes_max, struct err *e) {
    return open_any(c, loop, fd, events, in_bytes_max, out_bytes_max, false, e);
}

int conn_open_connecting(struct conn *c, struct loop *loop, int fd,
                         const struct conn_events *events, size_t in_bytes_max,
                         size_t out_bytes_max, int64_t connect_timeout_ms_max, struct err *e) {
    if (open_any(c, loop, fd, events, in_bytes_max, out_bytes_max, true, e) < 0)
        return -1;
    if (connect_timeout_ms_max > 0)
        timer_start(loop, &c->idle, connect_timeout_ms_max, on_idle);
    return 0;
}

static void on_kick(struct timer *t) {
    struct conn *c = container_of(t, struct conn, kick);
    if (c->out.overflow) {
        struct err e;
        err_set(&e, ERR_LIMIT, "the peer does not take its data: %zu bytes wait, limit %zu",
                c->out.len - c->out_sent, c->out.cap_max);
        end(c, &e);
        return;
    }
    if (!c->connecting && !write_ready(c))
        return;
    if (!c->connecting && !deliver(c))
        return;
    update_watch(c);
}

void conn_send(struct conn *c, const void *p, size_t len) {
    if (!c->loop || c->closing)
        return;
    bool tight = c->out.cap_max && len > c->out.cap_max - c->out.len;
    if (c->out_sent > 0 && (tight || c->out_sent >= c->out.len / 2)) {
        strbuf_consume(&c->out, c->out_sent);
        c->out_sent = 0;
    }
    bool was_empty = c->out.len == 0;
    strbuf_add(&c->out, p, len);
    if (c->connecting)
        return;
    if (c->out.overflow || (was_empty && flush(c) < 0)) {
        timer_start(c->loop, &c->kick, 0, on_kick); // on_end must not run inside the caller
    } else if (c->out.len == 0 && c->events->on_drain) {
        c->drain_due = true;
        timer_start(c->loop, &c->kick, 0, on_kick);
    }
    update_watch(c);
}

void conn_finish(struct conn *c) {
    if (!c->loop || c->closing)
        return;
    c->closing = true;
    if (c->out.len == 0 && !c->connecting)
        shutdown(c->watch.fd, SHUT_WR);
}

void conn_idle_limit(struct conn *c, int64_t idle_ms_max) {
    c->idle_ms_max = idle_ms_max;
    timer_stop(&c->idle);
    if (c->loop)
        note_traffic(c);
}

void conn_resume(struct conn *c) {
    if (c->loop)
        timer_start(c->loop, &c->kick, 0, on_kick);
}

size_t conn_unsent(const struct conn *c) {
    return c->out.len - c->out_sent;
}
