// SPDX-License-Identifier: Apache-2.0
// The connection to the operator's computer, and its frames.
#include "stream/stream_source.h"

#include "base/bytes.h"
#include "base/log.h"
#include "protocol/source_frames.h"
#include "stream/stream_store_impl.h"
#include "sys/file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    IN_BYTES_MAX = 2 * (SOURCE_HEAD_BYTES + SOURCE_ANSWER_BYTES_MAX),
    OUT_BYTES_MAX = OBJECT_CALLS_MAX * SOURCE_ASK_BYTES * 4,
    CARRY_BYTES = 64 << 10,
};

// ---- frames -------------------------------------------------------------------------------------

static void ask(void *ctx, size_t slot, const struct stream_slot *x) {
    struct stream_source *s = ctx;
    unsigned char frame[SOURCE_ASK_BYTES];
    bytes_store(frame, slot | (x->urgent ? SOURCE_ASK_URGENT : 0), 4);
    bytes_store(frame + 4, x->object->want.file, 8);
    bytes_store(frame + 12, x->range.from, 8);
    bytes_store(frame + 20, x->range.len, 8);
    conn_send(&s->conn, frame, sizeof frame);
}

// A frame with its whole content: -1 when it is none.
static int take_frame(struct stream_source *s, int kind, size_t slot, const char *p, size_t len,
                      struct err *e) {
    struct err why = {0};
    if (slot >= OBJECT_CALLS_MAX || !stream_source_asks(s->store, slot))
        return err_set(e, ERR_FORMAT, "an answer that was not asked for");
    if (kind == SOURCE_BYTES) {
        stream_source_bytes(s->store, slot, p, len);
        return 0;
    }
    if (kind != SOURCE_CHANGED && kind != SOURCE_FAILED)
        return err_set(e, ERR_FORMAT, "an answer of an unknown kind");
    err_set(&why, kind == SOURCE_CHANGED ? ERR_HASH : ERR_SYS, "%.*s",
            (int)(len < ERR_TEXT_BYTES_MAX ? len : ERR_TEXT_BYTES_MAX), p);
    stream_source_failed(s->store, slot, &why);
    return 0;
}

static void lose(struct stream_source *s) {
    s->store->ask = NULL;
    stream_source_lost(s->store);
}

static void on_data(struct conn *c) {
    struct stream_source *s = container_of(c, struct stream_source, conn);
    struct err e = {0};
    size_t used = 0;
    while (c->in.len - used >= SOURCE_HEAD_BYTES) {
        const unsigned char *head = (const unsigned char *)c->in.data + used;
        size_t len = (size_t)bytes_load(head + 5, 4);
        if (len > SOURCE_ANSWER_BYTES_MAX)
            err_set(&e, ERR_FORMAT, "a frame of %zu bytes", len);
        if (e.code || c->in.len - used < SOURCE_HEAD_BYTES + len)
            break;
        if (take_frame(s, head[0], (size_t)bytes_load(head + 1, 4),
                       (const char *)head + SOURCE_HEAD_BYTES, len, &e) < 0)
            break;
        used += SOURCE_HEAD_BYTES + len;
    }
    strbuf_consume(&c->in, used);
    if (!e.code)
        return;
    log_error("the source of streamed files sent what it must not", "reason=\"%s\"", e.text);
    conn_close(&s->conn);
    lose(s);
}

static void on_end(struct conn *c, const struct err *e) {
    (void)e;
    lose(container_of(c, struct stream_source, conn));
}

// A newer connection takes the place of one that may hang.
void stream_source_accept(struct stream_source *s, struct loop *loop, int fd) {
    static const struct conn_events events = {.on_data = on_data, .on_end = on_end};
    struct err e;
    if (conn_is_open(&s->conn)) {
        conn_close(&s->conn);
        lose(s);
    }
    if (conn_open(&s->conn, loop, fd, &events, IN_BYTES_MAX, OUT_BYTES_MAX, &e) < 0) {
        close(fd);
        return;
    }
    s->store->ask = ask;
    s->store->ask_ctx = s;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    (void)peer;
    stream_source_accept(container_of(l, struct stream_source, door), l->watch.loop, fd);
}

// ---- opening ------------------------------------------------------------------------------------

static bool is_needed(const struct stream_store *store) {
    for (size_t i = 0; i < store->count; i++)
        if (!store->objects[i].want.url)
            return true;
    return false;
}

int stream_source_listen(struct stream_source *s, struct stream_store *store, const char *run_dir,
                         struct err *e) {
    struct arena a = {0};
    *s = (struct stream_source){.store = store, .listen_fd = -1};
    int rc = 0;
    if (is_needed(store)) {
        s->listen_fd = net_unix_listen(file_join(&a, run_dir, STREAM_SOURCE_SOCKET), e);
        rc = s->listen_fd < 0 ? -1 : 0;
    }
    arena_fini(&a);
    return rc;
}

int stream_source_open(struct stream_source *s, struct loop *loop, struct err *e) {
    int fd = s->listen_fd;
    s->listen_fd = -1;
    return fd < 0 ? 0
                  : listener_open(&s->door, loop, fd, "the source of streamed files", on_accept, e);
}

void stream_source_close(struct stream_source *s, const char *run_dir) {
    struct arena a = {0};
    listener_close(&s->door);
    conn_close(&s->conn);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    s->listen_fd = -1;
    (void)unlink(file_join(&a, run_dir, STREAM_SOURCE_SOCKET));
    arena_fini(&a);
}

// ---- the other end ------------------------------------------------------------------------------

// 1: bytes were carried, 0: the end, -1: a failure.
static int carry(int from, int to, struct err *e) {
    static char buf[CARRY_BYTES];
    ssize_t n = read(from, buf, sizeof buf);
    if (err_interrupted(n))
        return 1;
    if (n < 0)
        return err_errno(e, ERR_NET, "the connection was cut");
    return n == 0 ? 0 : file_write_all(to, buf, (size_t)n, e) < 0 ? -1 : 1;
}

int stream_source_carry(const char *run_dir, struct err *e) {
    struct arena a = {0};
    auto_close int fd = net_unix_connect(file_join(&a, run_dir, STREAM_SOURCE_SOCKET), e);
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int rc = fd < 0 ? -1 : 1;
    arena_fini(&a);
    while (rc > 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            rc = err_errno(e, ERR_SYS, "cannot wait for bytes");
        if (rc > 0 && fds[0].revents)
            rc = carry(STDIN_FILENO, fd, e);
        if (rc > 0 && fds[1].revents)
            rc = carry(fd, STDOUT_FILENO, e);
    }
    return rc;
}
