// SPDX-License-Identifier: Apache-2.0
// Asks for new addresses, and takes them.
#include "stream/stream_renew.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "protocol/source_frames.h"
#include "stream/stream_server_impl.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- addresses that come ------------------------------------------------------------------------

// A request for the object that is under way gets the new address with its next try.
static void replace(struct stream_server *s, struct stream_object *o, const char *url) {
    char *copy = heap_strdup(url);
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        if (s->store.slots[k].object == o)
            s->store.slots[k].range.call.url = copy;
    free(o->url);
    o->url = copy;
    o->want.url = copy;
}

static void take_object(struct stream_renew_conn *c, const struct json *j) {
    struct stream_server *s = c->server;
    const char *id = json_get_str(j, "id", ""), *url = json_get_str(j, "url", NULL);
    struct stream_object *o =
        c->input ? stream_server_named(s, c->input->name, json_get_str(j, "path", "")) : NULL;
    unsigned char wanted[HASH_BYTES];
    struct err ignored;
    // Other nodes have other objects; an object that has changed keeps its address.
    if (!o || !url || !hash_is_hex(id) || str_unhex(wanted, HASH_BYTES, id, &ignored) < 0)
        return;
    o->listed_ms = clock_mono_ms();
    o->changed = memcmp(wanted, o->want.id, HASH_BYTES) != 0;
    if (o->changed)
        return;
    replace(s, o, url);
    c->count++;
}

struct stream_clock stream_clock_of(const struct json *line) {
    return (struct stream_clock){json_get_int(line, "now", 0), clock_mono_ms()};
}

int64_t stream_clock_end(const struct stream_clock *c, int64_t ends_ms) {
    const int64_t far_ms = (int64_t)1 << 40; // decades
    int64_t now_ms = c->now_ms ? c->now_ms : clock_wall_ms(), left_ms;
    int64_t at_ms = c->now_ms ? c->at_ms : clock_mono_ms();
    if (ends_ms == 0)
        return 0;
    if (__builtin_sub_overflow(ends_ms, now_ms, &left_ms))
        left_ms = ends_ms < 0 ? 0 : far_ms;
    return at_ms + (left_ms < 0 ? 0 : left_ms < far_ms ? left_ms : far_ms);
}

static void note_gone(const struct stream_renew_conn *c) {
    struct stream_store *s = &c->server->store;
    for (size_t i = c->input->first; i < c->input->first + c->input->count; i++)
        s->objects[i].gone = s->objects[i].listed_ms < c->began_ms;
}

static void finish(struct stream_renew_conn *c, const struct json *j) {
    struct stream_input *in = c->input;
    struct strbuf line = {0};
    int64_t ends_ms = stream_clock_end(&c->clock, json_get_int(j, "ends", -1));
    strbuf_addf(&line, "{\"end\":%zu}\n", c->count);
    conn_send(&c->conn, line.data, line.len);
    conn_finish(&c->conn);
    strbuf_fini(&line);
    if (in && c->count)
        note_gone(c);
    if (in && c->count && in->ends_ms &&
        (ends_ms == 0 || ends_ms - in->ends_ms > SOURCE_RENEW_GAIN_MS)) {
        in->ends_ms = ends_ms;
        in->asked_ms = 0;
        log_info("the addresses of a streamed input are renewed", "input=%s objects=%zu", in->name,
                 c->count);
        stream_server_event(c->server, "renewed", in->name, NULL);
    }
    c->input = NULL;
}

static void take_line(struct stream_renew_conn *c, const char *line, size_t len) {
    struct stream_store *store = &c->server->store;
    struct arena a = {0};
    struct json *j;
    struct err ignored;
    const char *name;
    if (json_parse(&a, line, len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        if (json_get(j, "now"))
            c->clock = stream_clock_of(j);
        else if ((name = json_get_str(j, "input", NULL))) {
            c->input = NULL;
            for (size_t i = 0; i < store->input_count; i++)
                if (strcmp(store->inputs[i].name, name) == 0)
                    c->input = &store->inputs[i];
        } else if (json_get(j, "end"))
            finish(c, j);
        else
            take_object(c, j);
    }
    arena_fini(&a);
}

static void on_data(struct conn *conn) {
    struct stream_renew_conn *c = container_of(conn, struct stream_renew_conn, conn);
    for (char *end; (end = memchr(conn->in.data, '\n', conn->in.len));) {
        size_t len = (size_t)(end - conn->in.data);
        take_line(c, conn->in.data, len);
        strbuf_consume(&conn->in, len + 1);
    }
    if (conn->in.len == STREAM_RENEW_LINE_BYTES_MAX) // no object has so long a line
        conn_close(conn);
}

static void on_end(struct conn *conn, const struct err *e) {
    (void)conn; // its place is free
    (void)e;
}

void stream_renew_accept(struct stream_server *s, int fd) {
    static const struct conn_events events = {.on_data = on_data, .on_end = on_end};
    struct stream_renew_conn *c = &s->renew.conns[0];
    struct err e;
    for (size_t i = 1; i < STREAM_RENEW_CONNS_MAX && conn_is_open(&c->conn); i++) {
        struct stream_renew_conn *other = &s->renew.conns[i];
        if (!conn_is_open(&other->conn) || other->number < c->number)
            c = other;
    }
    conn_close(&c->conn);
    *c = (struct stream_renew_conn){
        .server = s, .began_ms = clock_mono_ms(), .number = ++s->renew.number};
    if (conn_open(&c->conn, s->loop, fd, &events, STREAM_RENEW_LINE_BYTES_MAX, 4096, &e) < 0)
        close(fd);
    else
        conn_idle_limit(&c->conn, STREAM_RENEW_IDLE_MS_MAX);
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    (void)peer;
    stream_renew_accept(container_of(l, struct stream_server, renew.door), fd);
}

// ---- events -------------------------------------------------------------------------------------

void stream_renew_look(struct stream_server *s) {
    int64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < s->store.input_count; i++) {
        struct stream_input *in = &s->store.inputs[i];
        struct strbuf text = {0};
        int64_t left_ms = in->ends_ms - now_ms;
        if (!in->ends_ms || left_ms > STREAM_RENEW_MS || (!in->missing && !in->cache_max))
            continue;
        if (left_ms > STREAM_RENEW_OVER_MS) {
            if (in->asked_ms && now_ms - in->asked_ms < STREAM_RENEW_AGAIN_MS)
                continue;
            in->asked_ms = now_ms;
            stream_server_ends(s, in->name, left_ms);
        } else if (!in->sent_over) {
            in->sent_over = true;
            strbuf_addf(&text,
                        "the signed addresses of input '%s' end within %d s, and no dtctl that "
                        "follows the run has renewed them (try: leave dtctl train attached, or "
                        "deliver = copy)",
                        in->name, STREAM_RENEW_OVER_MS / 1000);
            stream_server_event(s, "over", in->name, strbuf_cstr(&text));
        }
        strbuf_fini(&text);
    }
}

// ---- opening ------------------------------------------------------------------------------------

int stream_renew_open(struct stream_server *s, const char *run_dir, struct err *e) {
    struct arena a = {0};
    s->renew.listen_fd = net_unix_listen(file_join(&a, run_dir, STREAM_RENEW_SOCKET), e);
    arena_fini(&a);
    return s->renew.listen_fd < 0 ? -1 : 0;
}

int stream_renew_start(struct stream_server *s, struct err *e) {
    int fd = s->renew.listen_fd;
    s->renew.listen_fd = -1;
    return listener_open(&s->renew.door, s->loop, fd, "new addresses", on_accept, e);
}

void stream_renew_close(struct stream_server *s) {
    struct arena a = {0};
    if (s->loop) {
        listener_close(&s->renew.door);
        for (size_t i = 0; i < STREAM_RENEW_CONNS_MAX; i++)
            conn_close(&s->renew.conns[i].conn);
    }
    if (s->renew.listen_fd >= 0)
        close(s->renew.listen_fd);
    if (s->run_dir)
        (void)unlink(file_join(&a, s->run_dir, STREAM_RENEW_SOCKET));
    arena_fini(&a);
}
