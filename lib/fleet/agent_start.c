// SPDX-License-Identifier: Apache-2.0
// Starts the agent of one node.
#include "fleet/agent_start.h"

#include "base/json.h"

#include <string.h>

enum { ANSWER_BYTES_MAX = 64 * 1024 };

static void take_line(struct agent_start *s, const char *line, size_t len) {
    struct arena a = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    if (json_parse(&a, line, len, &j, &ignored) == 0) {
        const char *event = json_get_str(j, "event", "");
        int64_t port = json_get_int(j, "port", 0);
        if (strcmp(event, "listening") == 0 && port > 0 && port < 65536 && !s->port) {
            s->port = (int)port;
            s->on_listening(s);
        } else if (strcmp(event, "started") == 0) {
            s->started = true;
        }
    }
    arena_fini(&a);
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct agent_start *s = ctx;
    size_t before = s->out.len;
    strbuf_add(&s->out, p, len);
    // Only complete lines are parsed. All lines are kept for the error at the end.
    const char *from = s->out.data;
    const char *seen = before ? memrchr(from, '\n', before) : NULL;
    from = seen ? seen + 1 : from;
    const char *end;
    while (s->run == r && (end = memchr(from, '\n', (size_t)(s->out.data + s->out.len - from)))) {
        take_line(s, from, (size_t)(end - from));
        from = end + 1;
    }
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct agent_start *s = ctx;
    (void)r;
    strbuf_add(&s->err_text, p, len);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct agent_start *s = ctx;
    struct err e = {0};
    struct transport_result all = {.end = *end,
                                   .out = strbuf_cstr(&s->out),
                                   .out_len = s->out.len,
                                   .err_text = strbuf_cstr(&s->err_text),
                                   .err_len = s->err_text.len};
    (void)r;
    s->run = NULL;
    timer_stop(&s->limit);
    if (fleet_answer(&all, &e) == 0 && !s->started)
        err_set(&e, ERR_NO_STATUS, "the agent ended without having started");
    if (e.code)
        err_wrap(&e, "the agent did not start");
    s->on_over(s, &e);
}

static void on_limit(struct timer *t) {
    struct agent_start *s = container_of(t, struct agent_start, limit);
    struct err e = {0};
    err_set(&e, ERR_TIMEOUT, "the agent did not start within %d s", AGENT_START_MS_MAX / 1000);
    if (s->run)
        transport_run_close(s->run);
    s->run = NULL;
    s->on_over(s, &e);
}

int agent_start_begin(struct agent_start *s, const struct job_spec *common, const char *flags,
                      struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_error = on_error, .on_end = on_end};
    struct fleet_node *n = s->node;
    struct job_spec spec = *common;
    struct strbuf text = {0};
    spec.node = n->info->name;
    spec.node_rank = (int)n->index;
    spec.address = n->info->address;
    s->port = 0;
    s->started = false;
    strbuf_init(&s->out, ANSWER_BYTES_MAX);
    strbuf_init(&s->err_text, ANSWER_BYTES_MAX);
    char *rest = arena_printf(n->fleet->context->arena, "--run %s%s", spec.run, flags);
    s->run = transport_run(
        n->link, &(struct transport_command){.line = fleet_line(n, NODE_VERB_START, rest)}, &events,
        s, e);
    if (!s->run)
        return -1;
    job_spec_format(&spec, true, &text);
    int result = fleet_send_record(s->run, &text, e);
    memset(text.data, 0, text.len); // wipe the key
    strbuf_fini(&text);
    timer_start(n->fleet->context->loop, &s->limit, AGENT_START_MS_MAX, on_limit);
    return result;
}

int agent_start_roster(struct agent_start *s, const struct strbuf *roster, struct err *e) {
    if (!s->run)
        return err_set(e, ERR_NO_STATUS, "the agent ended before it got the list of nodes");
    int result = fleet_send_record(s->run, roster, e);
    transport_run_send_end(s->run);
    return result;
}

void agent_start_close(struct agent_start *s) {
    if (s->run)
        transport_run_close(s->run); // an agent without a roster ends by itself
    s->run = NULL;
    timer_stop(&s->limit);
    strbuf_fini(&s->out);
    strbuf_fini(&s->err_text);
}
