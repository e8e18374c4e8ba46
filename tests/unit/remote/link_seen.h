// SPDX-License-Identifier: Apache-2.0
// Links and commands over SSH, and all that they report to their owner.
//
//     link_env.loop = loop;                                // and the rest of the settings
//     struct link_seen *l = link_to(server.port, NULL);    // waits until it is open or down
//     struct run_seen *r = run_on(l, "echo x; exit 3");    // waits for its end
//     … r->out … r->end.status …
//     link_free_all();                                     // closes what is open
#ifndef DTCTL_TESTS_UNIT_REMOTE_LINK_SEEN_H
#define DTCTL_TESTS_UNIT_REMOTE_LINK_SEEN_H

#include "base/str.h"
#include "remote/transport_impl.h"
#include "tests/unit/remote/sshd_real.h"

struct link_seen {
    struct link_seen *older;
    struct transport_link *link;
    int opens, downs;
    struct err err;      // why it is down
    struct err open_err; // why it was never there
};

struct run_seen {
    struct run_seen *older;
    struct transport_run *run;
    struct strbuf out, err_text;
    struct transport_end end;
    struct err err; // of a lost command
    int ends;
    int downs; // of its link when the command ended
    size_t to_send;
    const struct link_seen *link;
};

static struct transport_env link_env;
static const char *link_host_key; // pins the key
static struct link_seen *links_seen;
static struct run_seen *runs_seen;

static void link_seen_open(struct transport_link *l, void *ctx) {
    (void)l;
    ((struct link_seen *)ctx)->opens++;
}

static void link_seen_down(struct transport_link *l, void *ctx, const struct err *e) {
    struct link_seen *s = ctx;
    (void)l;
    s->downs++;
    s->err = *e;
}

static void run_seen_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct run_seen *)ctx)->out, p, len);
}

static void run_seen_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct run_seen *)ctx)->err_text, p, len);
}

static void run_seen_room(struct transport_run *r, void *ctx) {
    static const char block[4096];
    struct run_seen *s = ctx;
    while (s->to_send) {
        size_t n =
            transport_run_send(r, block, s->to_send < sizeof block ? s->to_send : sizeof block);
        s->to_send -= n;
        if (!n)
            return;
    }
    transport_run_send_end(r);
}

static void run_seen_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct run_seen *s = ctx;
    (void)r;
    s->run = NULL;
    s->end = *end;
    if (end->err)
        s->err = *end->err;
    s->ends++;
    s->downs = s->link->downs;
}

static struct link_seen *link_begin(const struct transport_target *target) {
    static const struct transport_link_events events = {link_seen_open, link_seen_down};
    struct link_seen *s = heap_alloc(sizeof *s);
    s->link = transport_open(&transport_ssh, &link_env, target, &events, s, &s->open_err);
    s->older = links_seen;
    links_seen = s;
    return s;
}

static struct link_seen *link_begin_to(int port, const char *jump) {
    return link_begin(&(struct transport_target){.node = "n1",
                                                 .host = "127.0.0.1",
                                                 .port = port,
                                                 .host_key = link_host_key,
                                                 .proxy_jump = jump});
}

TAP_UNUSED static struct link_seen *link_to(int port, const char *jump) {
    struct link_seen *s = link_begin_to(port, jump);
    if (s->link && !sshd_wait(s->opens || s->downs))
        bail_out("no connection");
    return s;
}

TAP_UNUSED static void link_drop(struct link_seen *s) {
    transport_close(s->link);
    s->link = NULL;
}

static struct run_seen *run_begin(const struct link_seen *l, const struct transport_command *c) {
    static const struct transport_run_events events = {run_seen_output, run_seen_error,
                                                       run_seen_room, run_seen_end};
    struct run_seen *s = heap_alloc(sizeof *s);
    struct err e = {0};
    s->link = l;
    s->older = runs_seen;
    runs_seen = s;
    s->run = transport_run(l->link, c, &events, s, &e);
    if (!s->run)
        bail_out("%s", e.text);
    return s;
}

// Without input.
TAP_UNUSED static struct run_seen *run_on(const struct link_seen *l, const char *line) {
    struct run_seen *s = run_begin(l, &(struct transport_command){.line = line});
    transport_run_send_end(s->run);
    if (!sshd_wait(s->ends))
        bail_out("'%s' does not end", line);
    return s;
}

TAP_UNUSED static void link_free_all(void) {
    for (struct link_seen *l; (l = links_seen);) {
        links_seen = l->older;
        transport_close(l->link);
        free(l);
    }
    for (struct run_seen *r; (r = runs_seen);) {
        runs_seen = r->older;
        strbuf_fini(&r->out);
        strbuf_fini(&r->err_text);
        free(r);
    }
}

#endif
