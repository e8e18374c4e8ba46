// SPDX-License-Identifier: Apache-2.0
// Asks for new addresses, and takes them.
#include "stream/stream_renew.h"

#include "base/json.h"
#include "base/log.h"
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

static void take_object(struct stream_server *s, const struct json *j) {
    struct stream_renew *r = &s->renew;
    const char *id = json_get_str(j, "id", ""), *url = json_get_str(j, "url", NULL);
    struct stream_object *o =
        r->input ? stream_server_named(s, r->input->name, json_get_str(j, "path", "")) : NULL;
    unsigned char wanted[HASH_BYTES];
    struct err ignored;
    // Other nodes have other objects; an object that has changed keeps its address.
    if (!o || !url || !hash_is_hex(id) || str_unhex(wanted, HASH_BYTES, id, &ignored) < 0 ||
        memcmp(wanted, o->want.id, HASH_BYTES) != 0)
        return;
    replace(s, o, url);
    r->count++;
}

static void finish(struct stream_server *s, int64_t ends_ms) {
    struct stream_renew *r = &s->renew;
    struct strbuf line = {0};
    strbuf_addf(&line, "{\"end\":%zu}\n", r->count);
    conn_send(&r->conn, line.data, line.len);
    conn_finish(&r->conn);
    strbuf_fini(&line);
    if (r->input && r->count && ends_ms > r->input->ends_ms) {
        r->input->ends_ms = ends_ms;
        r->input->asked_ms = 0;
        log_info("the addresses of a streamed input are renewed", "input=%s objects=%zu",
                 r->input->name, r->count);
        stream_server_event(s, "renewed", r->input->name, NULL);
    }
    r->input = NULL;
}

static void take_line(struct stream_server *s, const char *line, size_t len) {
    struct arena a = {0};
    struct json *j;
    struct err ignored;
    const char *name;
    if (json_parse(&a, line, len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        if ((name = json_get_str(j, "input", NULL))) {
            s->renew.input = NULL;
            for (size_t i = 0; i < s->store.input_count; i++)
                if (strcmp(s->store.inputs[i].name, name) == 0)
                    s->renew.input = &s->store.inputs[i];
        } else if (json_get(j, "end"))
            finish(s, json_get_int(j, "ends", 0));
        else
            take_object(s, j);
    }
    arena_fini(&a);
}

static void on_data(struct conn *c) {
    struct stream_server *s = container_of(c, struct stream_server, renew.conn);
    for (char *end; (end = memchr(c->in.data, '\n', c->in.len));) {
        size_t len = (size_t)(end - c->in.data);
        take_line(s, c->in.data, len);
        strbuf_consume(&c->in, len + 1);
    }
    if (c->in.len == STREAM_RENEW_LINE_BYTES_MAX) // no object has so long a line
        conn_close(c);
}

static void on_end(struct conn *c, const struct err *e) {
    struct stream_server *s = container_of(c, struct stream_server, renew.conn);
    (void)e;
    s->renew.input = NULL;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    static const struct conn_events events = {.on_data = on_data, .on_end = on_end};
    struct stream_server *s = container_of(l, struct stream_server, renew.door);
    struct err e;
    (void)peer;
    conn_close(&s->renew.conn); // the newest one counts
    s->renew.input = NULL;
    s->renew.count = 0;
    if (conn_open(&s->renew.conn, s->loop, fd, &events, STREAM_RENEW_LINE_BYTES_MAX, 4096, &e) < 0)
        close(fd);
}

// ---- events -------------------------------------------------------------------------------------

void stream_renew_look(struct stream_server *s, int64_t wall_ms) {
    for (size_t i = 0; i < s->store.input_count; i++) {
        struct stream_input *in = &s->store.inputs[i];
        struct strbuf text = {0};
        int64_t left_ms = in->ends_ms - wall_ms;
        if (!in->ends_ms || left_ms > STREAM_RENEW_MS || (!in->missing && !in->cache_max))
            continue;
        if (left_ms > STREAM_RENEW_OVER_MS) {
            if (in->asked_ms && wall_ms - in->asked_ms < STREAM_RENEW_AGAIN_MS)
                continue;
            in->asked_ms = wall_ms;
            stream_server_event(s, "ends", in->name, NULL);
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
        conn_close(&s->renew.conn);
    }
    if (s->renew.listen_fd >= 0)
        close(s->renew.listen_fd);
    if (s->run_dir)
        (void)unlink(file_join(&a, s->run_dir, STREAM_RENEW_SOCKET));
    arena_fini(&a);
}
