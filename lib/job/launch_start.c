// SPDX-License-Identifier: Apache-2.0
// Starting the agents of a run: `dtrun --node start` on every node, in two steps with the roster
// in between (elastic/node_protocol.h).
#include "job/launch.h"

#include "base/bytes.h"
#include "base/log.h"
#include "cluster/nodeset.h"

#include <string.h>

enum { ANSWER_BYTES_MAX = 64 * 1024 };

struct start_node {
    struct launch *launch;
    struct fleet_node *node;
    struct transport_run *run;
    struct strbuf out, err_text;
    struct timer limit;
    const char *address;
    int port; // 0 until the agent listens
    bool started;
};

static void send_record(struct transport_run *run, const struct strbuf *text, struct err *e) {
    unsigned char length[4];
    bytes_store(length, text->len, sizeof length);
    if (transport_run_send(run, length, sizeof length) < sizeof length ||
        transport_run_send(run, text->data, text->len) < text->len)
        err_set(e, ERR_LIMIT, "the job specification has %zu bytes, too many", text->len);
}

static void take_line(struct fleet_node *n, struct start_node *w, const char *line, size_t len) {
    struct arena a = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    if (json_parse(&a, line, len, &j, &ignored) == 0) {
        const char *event = json_get_str(j, "event", "");
        if (strcmp(event, "listening") == 0) {
            int64_t port = json_get_int(j, "port", 0);
            w->port = port > 0 && port < 65536 ? (int)port : 0;
            w->address = n->info->address;
            if (w->port)
                fleet_done(n, NULL);
        } else if (strcmp(event, "started") == 0) {
            w->started = true;
        }
    }
    arena_fini(&a);
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct fleet_node *n = ctx;
    struct start_node *w = n->work;
    size_t before = w->out.len;
    strbuf_add(&w->out, p, len);
    // Lines are looked at when they are complete; all stay, for the error at the end.
    const char *from = w->out.data;
    const char *seen = before ? memrchr(from, '\n', before) : NULL;
    from = seen ? seen + 1 : from;
    const char *end;
    while ((end = memchr(from, '\n', (size_t)(w->out.data + w->out.len - from)))) {
        take_line(n, w, from, (size_t)(end - from));
        from = end + 1;
    }
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct fleet_node *n = ctx;
    struct start_node *w = n->work;
    strbuf_add(&w->err_text, p, len);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)r;
    struct fleet_node *n = ctx;
    struct start_node *w = n->work;
    struct err e = {0};
    struct transport_result all = {.end = *end,
                                   .out = strbuf_cstr(&w->out),
                                   .out_len = w->out.len,
                                   .err_text = strbuf_cstr(&w->err_text),
                                   .err_len = w->err_text.len};
    w->run = NULL;
    timer_stop(&w->limit);
    if (fleet_answer(&all, &e) == 0 && !w->started)
        err_set(&e, ERR_NO_STATUS, "the agent ended without having started");
    if (e.code)
        err_wrap(&e, "the agent did not start");
    if (n->busy)
        fleet_done(n, &e);
    else if (e.code)
        fleet_fail(n, &e);
}

static void on_limit(struct timer *t) {
    struct start_node *w = container_of(t, struct start_node, limit);
    struct err e = {0};
    err_set(&e, ERR_TIMEOUT, "the agent did not start within %d s", LAUNCH_START_MS_MAX / 1000);
    if (w->run)
        transport_run_close(w->run);
    w->run = NULL;
    fleet_done(w->node, &e);
}

static int start_agent(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_error = on_error, .on_end = on_end};
    struct start_node *w = n->work;
    struct job_spec spec = w->launch->spec;
    struct strbuf text = {0};
    spec.node = n->info->name;
    spec.node_rank = (int)n->index;
    spec.address = n->info->address;
    strbuf_init(&w->out, ANSWER_BYTES_MAX);
    strbuf_init(&w->err_text, ANSWER_BYTES_MAX);
    char *rest = arena_printf(n->fleet->session->arena, "--run %s", spec.run);
    w->run = transport_run(
        n->link, &(struct transport_command){.line = fleet_line(n, "start", rest)}, &events, n, e);
    if (!w->run)
        return -1;
    struct err why = {0};
    job_spec_format(&spec, true, &text);
    send_record(w->run, &text, &why);
    memset(text.data, 0, text.len); // the key
    strbuf_fini(&text);
    timer_start(n->fleet->session->loop, &w->limit, LAUNCH_START_MS_MAX, on_limit);
    if (why.code)
        return err_set(e, why.code, "%s", why.text);
    return 0;
}

static int send_roster(struct fleet_node *n, struct err *e) {
    struct start_node *w = n->work;
    struct fleet *f = n->fleet;
    struct roster roster = {0};
    struct strbuf text = {0};
    struct err why = {0};
    if (!w->run)
        return err_set(e, ERR_NO_STATUS, "the agent ended before it got the list of nodes");
    roster.nodes = arena_new(f->session->arena, struct roster_node, f->count);
    for (size_t i = 0; i < f->count; i++) {
        const struct start_node *other = f->nodes[i].work;
        if (!f->nodes[i].failed && other->port)
            roster.nodes[roster.count++] =
                (struct roster_node){(int)i, f->nodes[i].info->name, other->address, other->port};
    }
    roster_format(&roster, &text);
    send_record(w->run, &text, &why);
    transport_run_send_end(w->run);
    strbuf_fini(&text);
    return why.code ? err_set(e, why.code, "%s", why.text) : 0;
}

static void close_runs(struct fleet *f, struct start_node *work) {
    for (size_t i = 0; i < f->count; i++) {
        struct start_node *w = &work[i];
        if (w->run)
            transport_run_close(w->run); // an agent without a roster ends by itself
        timer_stop(&w->limit);
        strbuf_fini(&w->out);
        strbuf_fini(&w->err_text);
        f->nodes[i].work = NULL;
    }
}

int launch_start(struct launch *l, struct fleet *f, struct err *e) {
    struct start_node *work = arena_new(l->session->arena, struct start_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        work[i].launch = l;
        work[i].node = &f->nodes[i];
        f->nodes[i].work = &work[i];
    }
    int result = fleet_each(f, NULL, start_agent, e);
    size_t well = f->count - fleet_failures(f);
    if (result == 0 && well < (size_t)l->run.nodes_min) {
        result = fleet_verdict(f, "start", e);
        if (result == 0)
            result = err_set(e, ERR_FAILED, "start: too few nodes");
    }
    if (result == 0)
        result = fleet_each(f, NULL, send_roster, e);
    close_runs(f, work);
    well = f->count - fleet_failures(f);
    if (result == 0 && well < (size_t)l->run.nodes_min)
        result = fleet_verdict(f, "start", e);
    memset(l->spec.key, 0, sizeof l->spec.key);
    return result;
}
