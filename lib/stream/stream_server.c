// SPDX-License-Identifier: Apache-2.0
// The server: its ports, its files for readers, the connection of the run's agent, and its loop.
#include "stream/stream_server_impl.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "object/uri.h"
#include "protocol/job_spec.h"
#include "sys/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MS_MAX = 500, AGENT_IN_BYTES_MAX = 4096, AGENT_OUT_BYTES_MAX = 4 << 20 };

// ---- events for the agent -----------------------------------------------------------------------

static void event_begin(const struct stream_server *s, struct strbuf *line, struct json_out *j,
                        const char *what) {
    json_open(j, line);
    json_object(j, NULL);
    json_str(j, "what", what);
    json_int(j, "ms", clock_mono_ms() - s->started_ms);
}

static void event_end(struct stream_server *s, struct strbuf *line, struct json_out *j) {
    json_end(j);
    strbuf_addc(line, '\n');
    if (conn_is_open(&s->agent))
        conn_send(&s->agent, line->data, line->len);
    else if (s->event_count++ < STREAM_EVENTS_MAX)
        strbuf_add(&s->events, line->data, line->len);
    strbuf_fini(line);
}

void stream_server_event(struct stream_server *s, const char *what, const char *input,
                         const char *text) {
    struct strbuf line = {0};
    struct json_out j;
    event_begin(s, &line, &j, what);
    json_str(&j, "input", input);
    if (text)
        json_str(&j, "text", text);
    event_end(s, &line, &j);
}

void stream_server_ends(struct stream_server *s, const char *input, int64_t left_ms) {
    struct strbuf line = {0};
    struct json_out j;
    event_begin(s, &line, &j, "ends");
    json_str(&j, "input", input);
    json_int(&j, "left_ms", left_ms);
    event_end(s, &line, &j);
}

static void on_failed(void *ctx, const struct stream_object *o) {
    stream_server_event(ctx, "failed", o->input->name, o->why->text);
}

static void on_whole(void *ctx, const struct stream_input *in) {
    struct stream_server *s = ctx;
    struct strbuf line = {0};
    struct json_out j;
    event_begin(s, &line, &j, "whole");
    json_str(&j, "input", in->name);
    json_int(&j, "bytes", (int64_t)in->bytes);
    event_end(s, &line, &j);
}

void stream_server_served(struct stream_server *s) {
    struct strbuf line = {0};
    struct json_out j;
    if (s->first_served)
        return;
    s->first_served = true;
    event_begin(s, &line, &j, "first");
    json_int(&j, "bytes", (int64_t)s->store.read);
    event_end(s, &line, &j);
}

// ---- the list of objects ------------------------------------------------------------------------

static int compare_names(const struct stream_object *a, const char *input, const char *path) {
    int order = strcmp(a->input->name, input);
    return order ? order : strcmp(a->path, path);
}

static int by_name(const void *x, const void *y) {
    const struct stream_object *a = *(struct stream_object *const *)x;
    const struct stream_object *b = *(struct stream_object *const *)y;
    return compare_names(a, b->input->name, b->path);
}

static void sort(struct stream_server *s) {
    size_t count = s->store.count;
    s->sorted = heap_alloc((count + 1) * sizeof *s->sorted);
    for (size_t i = 0; i < count; i++)
        s->sorted[i] = &s->store.objects[i];
    qsort(s->sorted, count, sizeof *s->sorted, by_name);
}

struct stream_object *stream_server_named(struct stream_server *s, const char *input,
                                          const char *path) {
    size_t low = 0, high = s->store.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_names(s->sorted[middle], input, path);
        if (order == 0)
            return s->sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct stream_object *stream_server_find(struct stream_server *s, const char *target, size_t len) {
    char path[STREAM_PATH_BYTES_MAX];
    if (!stream_request_path(target, len, path, sizeof path) ||
        strlen(path) <= STREAM_SECRET_DIGITS + 2 ||
        !hash_equal(path + 1, s->secret, STREAM_SECRET_DIGITS) ||
        path[STREAM_SECRET_DIGITS + 1] != '/')
        return NULL;
    char *input = path + STREAM_SECRET_DIGITS + 2, *slash = strchr(input, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return stream_server_named(s, input, slash + 1);
}

// One line for each object, as dtctl documents it.
static int write_list(struct stream_server *s, const struct stream_input *in, const char *dir,
                      struct err *e) {
    struct strbuf urls = {0}, list = {0};
    struct arena a = {0};
    for (size_t i = in->first; i < in->first + in->count; i++) {
        const struct stream_object *o = &s->store.objects[i];
        char hex[HASH_HEX_BYTES] = "";
        struct json_out j;
        strbuf_addf(&urls, "http://127.0.0.1:%d/%s/%s/", s->port, s->secret, in->name);
        uri_encode(&urls, o->path, strlen(o->path), false);
        strbuf_addc(&urls, '\n');
        if (o->state == STREAM_WHOLE)
            hash_hex(hex, o->hash);
        json_open(&j, &list);
        json_object(&j, NULL);
        json_str(&j, "path", o->path);
        json_int(&j, "size", (int64_t)o->want.size);
        json_str(&j, "sha256", hex[0] ? hex : NULL);
        json_int(&j, "index", (int64_t)o->index);
        json_end(&j);
        strbuf_addc(&list, '\n');
    }
    int result = file_make_dirs(dir, 0700, e);
    if (result == 0)
        result =
            file_write_atomic(file_join(&a, dir, "urls"), strbuf_cstr(&urls), urls.len, 0600, e);
    if (result == 0)
        result =
            file_write_atomic(file_join(&a, dir, "list"), strbuf_cstr(&list), list.len, 0600, e);
    strbuf_fini(&urls);
    strbuf_fini(&list);
    arena_fini(&a);
    return result;
}

// ---- connections --------------------------------------------------------------------------------

// Others of this host cannot guess the secret; they do not even get to try.
static bool is_ours(int fd) {
    uid_t uid;
    switch (net_peer_owner(fd, &uid)) {
    case NET_OWNER_KNOWN: return uid == geteuid() || uid == 0;
    case NET_OWNER_CLOSED: return false;
    default: return true;
    }
}

// Where all are in use, the one that has been idle for longest makes room.
static struct stream_client *free_client(struct stream_server *s) {
    struct stream_client *oldest = NULL;
    for (size_t i = 0; i < STREAM_CLIENTS_MAX; i++) {
        struct stream_client *x = &s->clients[i];
        if (!x->used)
            return x;
        if (!x->answers && (!oldest || x->since_ms < oldest->since_ms))
            oldest = x;
    }
    if (oldest)
        stream_client_close(oldest);
    return oldest;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    struct stream_server *s = container_of(l, struct stream_server, door);
    struct stream_client *x = is_ours(fd) ? free_client(s) : NULL;
    struct err e;
    (void)peer;
    if (!x || stream_client_open(x, s, fd, &e) < 0)
        close(fd);
}

static void on_alone(struct timer *t) {
    struct stream_server *s = container_of(t, struct stream_server, alone);
    log_warn("no agent is connected; the server of streamed inputs ends", "run=%s", s->run_dir);
    s->over = true;
}

static void on_agent_data(struct conn *c) {
    struct stream_server *s = container_of(c, struct stream_server, agent);
    static const char word[] = {'e', 'n', 'd', '\n'};
    if (memmem(c->in.data, c->in.len, word, sizeof word))
        s->over = true;
    size_t kept = sizeof word - 1; // the word may come in two pieces
    strbuf_consume(&c->in, c->in.len > kept ? c->in.len - kept : 0);
}

static void on_agent_end(struct conn *c, const struct err *e) {
    struct stream_server *s = container_of(c, struct stream_server, agent);
    (void)e;
    timer_start(s->loop, &s->alone, STREAM_ALONE_MS, on_alone);
}

static void on_agent(struct listener *l, int fd, const struct net_address *peer) {
    static const struct conn_events events = {.on_data = on_agent_data, .on_end = on_agent_end};
    struct stream_server *s = container_of(l, struct stream_server, agent_door);
    struct err e;
    (void)peer;
    conn_close(&s->agent); // the agent has been started again
    if (conn_open(&s->agent, s->loop, fd, &events, AGENT_IN_BYTES_MAX, AGENT_OUT_BYTES_MAX, &e) <
        0) {
        close(fd);
        return;
    }
    timer_stop(&s->alone);
    if (s->events.len)
        conn_send(&s->agent, s->events.data, s->events.len);
    strbuf_clear(&s->events);
}

// ---- opening and running ------------------------------------------------------------------------

int stream_server_open(struct stream_server *s, const char *run_dir, struct err *e) {
    struct arena a = {0};
    unsigned char random[STREAM_SECRET_DIGITS / 2];
    int result = 0;
    hash_random(random, sizeof random);
    str_hex(s->secret, random, sizeof random);
    s->run_dir = run_dir;
    s->listen_fd = s->agent_fd = s->renew.listen_fd = -1;
    s->started_ms = clock_mono_ms();
    s->clients = heap_alloc(STREAM_CLIENTS_MAX * sizeof *s->clients);
    sort(s);
    if (net_listen("127.0.0.1", 0, &s->listen_fd, &s->port, e) < 0)
        result = err_wrap(e, "port for streamed inputs");
    for (size_t i = 0; result == 0 && i < s->store.input_count; i++)
        result = write_list(s, &s->store.inputs[i],
                            arena_printf(&a, "%s/stream/%s", run_dir, s->store.inputs[i].name), e);
    if (result == 0) {
        s->agent_fd = net_unix_listen(file_join(&a, run_dir, JOB_STREAM_SOCKET), e);
        result = s->agent_fd < 0 || stream_renew_open(s, run_dir, e) < 0 ||
                         stream_source_listen(&s->source, &s->store, run_dir, e) < 0
                     ? -1
                     : 0;
    }
    arena_fini(&a);
    return result;
}

static int start(struct stream_server *s, const char *ca, struct err *e) {
    s->store.ctx = s;
    s->store.on_failed = on_failed;
    s->store.on_whole = on_whole;
    s->store.http = http_open(ca, strlen(ca), e);
    s->loop = s->store.http ? loop_open(e) : NULL;
    if (!s->loop)
        return -1;
    int fd = s->listen_fd, agent_fd = s->agent_fd;
    s->listen_fd = s->agent_fd = -1;
    if (stream_source_open(&s->source, s->loop, e) < 0 ||
        listener_open(&s->door, s->loop, fd, "streamed inputs", on_accept, e) < 0 ||
        listener_open(&s->agent_door, s->loop, agent_fd, "the agent", on_agent, e) < 0 ||
        stream_renew_start(s, e) < 0)
        return -1;
    timer_start(s->loop, &s->alone, STREAM_START_MS_MAX, on_alone);
    for (size_t i = 0; i < s->store.input_count; i++)
        if (s->store.inputs[i].reported_whole)
            on_whole(s, &s->store.inputs[i]);
    return 0;
}

static void pump_all(struct stream_server *s) {
    int64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < STREAM_CLIENTS_MAX; i++) {
        struct stream_client *x = &s->clients[i];
        if (stream_client_waits(x))
            stream_client_pump(x);
        stream_client_late(x, now_ms);
    }
}

// A connection whose next bytes are there already is served without waiting.
static bool is_ready(struct stream_server *s) {
    for (size_t i = 0; i < STREAM_CLIENTS_MAX; i++) {
        struct stream_client *x = &s->clients[i];
        if (stream_client_waits(x) && stream_reader_ready(&s->store, &x->reader))
            return true;
    }
    return false;
}

int stream_server_run(struct stream_server *s, const char *ca, struct err *e) {
    if (start(s, ca, e) < 0)
        return -1;
    while (!s->over) {
        int wait_ms = is_ready(s) ? 0 : STEP_MS_MAX;
        if (stream_store_step(&s->store, loop_fd(s->loop), wait_ms, e) < 0)
            return -1;
        loop_once(s->loop, 0);
        pump_all(s);
        stream_renew_look(s);
    }
    return 0;
}

void stream_server_close(struct stream_server *s) {
    struct arena a = {0};
    stream_renew_close(s);
    if (s->loop) {
        for (size_t i = 0; i < STREAM_CLIENTS_MAX; i++)
            stream_client_close(&s->clients[i]);
        listener_close(&s->door);
        listener_close(&s->agent_door);
        conn_close(&s->agent);
        stream_source_close(&s->source, s->run_dir);
        timer_stop(&s->alone);
        loop_close(s->loop);
    }
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->agent_fd >= 0)
        close(s->agent_fd);
    stream_store_close(&s->store);
    if (s->run_dir) // last: without it nothing is written any more
        (void)unlink(file_join(&a, s->run_dir, JOB_STREAM_SOCKET));
    strbuf_fini(&s->events);
    free(s->sorted);
    free(s->clients);
    arena_fini(&a);
}
