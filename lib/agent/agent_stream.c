// SPDX-License-Identifier: Apache-2.0
// The connection to dtdata, which serves streamed inputs on this node. Its reports become
// events of the run, and the end of this agent is its end.
#include "agent/agent_impl.h"

#include "base/log.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 8192, OUT_BYTES_MAX = 64 };
static const char OVER[] = "end\n";

static void put_event(struct agent *a, const char *what, const struct json *j, const char *text) {
    struct json_out *out = events_begin(&a->events, EVENT_STREAM);
    json_str(out, "what", what);
    if (json_get(j, "input"))
        json_str(out, "input", json_get_str(j, "input", ""));
    if (json_get(j, "ms"))
        json_int(out, "ms", json_get_int(j, "ms", 0));
    if (json_get(j, "bytes"))
        json_int(out, "bytes", json_get_int(j, "bytes", 0));
    if (json_get(j, "left_ms"))
        json_int(out, "left_ms", json_get_int(j, "left_ms", 0));
    if (text)
        json_str(out, "text", text);
    events_end(&a->events);
}

static void take_line(struct agent *a, const char *line, size_t len) {
    struct arena scratch = {0};
    struct json *j;
    struct err ignored;
    if (json_parse(&scratch, line, len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        const char *what = json_get_str(j, "what", ""), *text = json_get_str(j, "text", NULL);
        if (strcmp(what, "over") == 0 && text)
            agent_request_stop(a, text, SIGTERM, a->config->coordinator.shutdown_timeout_ms);
        else if (text)
            log_warn("an object of a streamed input cannot be read", "input=%s reason=\"%s\"",
                     json_get_str(j, "input", "?"), text);
        put_event(a, what, j, text);
    }
    arena_fini(&scratch);
}

static void on_data(struct conn *c) {
    struct agent *a = container_of(c, struct agent, stream);
    for (char *end; (end = memchr(c->in.data, '\n', c->in.len));) {
        size_t len = (size_t)(end - c->in.data);
        take_line(a, c->in.data, len);
        strbuf_consume(&c->in, len + 1);
    }
    if (c->in.len == LINE_BYTES_MAX) // no line of the server is so long
        strbuf_consume(&c->in, c->in.len);
}

static int connect_to(struct agent *a, struct err *e);

// The socket stays as long as the process is there that starts a killed server again.
static void on_end(struct conn *c, const struct err *e) {
    struct agent *a = container_of(c, struct agent, stream);
    struct err why;
    (void)e;
    if (connect_to(a, &why) == 0) {
        log_warn("the server of streamed inputs starts again", "socket=%s",
                 a->config->stream_socket);
        put_event(a, "restarted", NULL, "the server of streamed inputs was killed, and serves on");
        return;
    }
    log_error("the server of streamed inputs has ended; reads of the ranks fail",
              "socket=%s reason=\"%s\"", a->config->stream_socket, why.text);
    put_event(a, "lost", NULL, "the server of streamed inputs has ended");
}

static int connect_to(struct agent *a, struct err *e) {
    static const struct conn_events events = {.on_data = on_data, .on_end = on_end};
    int fd = net_unix_connect(a->config->stream_socket, e);
    if (fd < 0)
        return err_wrap(e, "streamed inputs are not served on this node any more");
    if (conn_open(&a->stream, a->loop, fd, &events, LINE_BYTES_MAX, OUT_BYTES_MAX, e) == 0)
        return 0;
    close(fd);
    return -1;
}

int agent_stream_open(struct agent *a, struct err *e) {
    return a->config->stream_socket ? connect_to(a, e) : 0;
}

void agent_stream_close(struct agent *a) {
    if (!conn_is_open(&a->stream))
        return;
    conn_send(&a->stream, OVER, strlen(OVER));
    conn_close(&a->stream);
}
