// SPDX-License-Identifier: Apache-2.0
// A transport without a network: the test is the node. It sees the command of each run and its
// input, and says what the run prints and how it ends. Like the real ones it calls back only when
// the test lets it, never from inside a call.
//
//     struct transport_link *l = fake_link(loop, &link_events, ctx); // up
//     … transport_run(l, …) …
//     struct fake_run *r = fake_run(0);  // the newest; 1: the one before
//     fake_take(r, SIZE_MAX);            // the node reads its input, to r->got
//     fake_say(r, bytes, len); fake_exit(r, 0);
//     fake_free_all();
#ifndef DTCTL_TESTS_UNIT_TRANSPORT_FAKE_H
#define DTCTL_TESTS_UNIT_TRANSPORT_FAKE_H

#include "base/str.h"
#include "remote/transport_impl.h"

#include <stdlib.h>
#include <string.h>

struct fake_run {
    struct transport_run r; // first
    struct fake_run *older;
    char *line;
    struct strbuf got; // input that the node has read
    bool got_end;      // and its end
    bool is_heard;     // for the test
    bool is_closed;    // by the caller
};

struct fake_link {
    struct transport_link l; // first
    struct fake_link *older;
    bool is_closed;
};

static struct fake_run *fake_runs;   // newest first
static struct fake_link *fake_links; // newest first
static int fake_refuses;             // so many runs that are asked for cannot start
static int64_t fake_distance_us;

static inline struct transport_link *
fake_open(const struct transport_env *env, const struct transport_target *target, struct err *e) {
    struct fake_link *l = heap_alloc(sizeof *l);
    (void)env;
    (void)target;
    (void)e;
    l->older = fake_links;
    fake_links = l;
    return &l->l;
}

static inline void fake_close(struct transport_link *l) {
    ((struct fake_link *)l)->is_closed = true;
}

static inline struct transport_run *fake_start(struct transport_link *l,
                                               const struct transport_command *c, struct err *e) {
    (void)l;
    if (fake_refuses > 0) {
        fake_refuses--;
        (void)err_set(e, ERR_LIMIT, "no more commands");
        return NULL;
    }
    struct fake_run *r = heap_alloc(sizeof *r);
    r->line = strdup(c->line);
    r->older = fake_runs;
    fake_runs = r;
    return &r->r;
}

static inline void fake_wake(struct transport_run *r) {
    (void)r;
}

static inline void fake_resize(struct transport_run *r, int columns, int rows) {
    (void)r;
    (void)columns;
    (void)rows;
}

static inline void fake_run_close(struct transport_run *r) {
    ((struct fake_run *)r)->is_closed = true;
}

static inline int64_t fake_distance(const struct transport_link *l) {
    (void)l;
    return fake_distance_us;
}

// A transport of these functions; tests may open links in their own way.
#define TRANSPORT_FAKE(how)                                                                        \
    {                                                                                              \
        .name = "fake", .open = how, .close = fake_close, .run = fake_start,                       \
        .run_wake = fake_wake, .run_resize = fake_resize, .run_close = fake_run_close,             \
        .distance_us = fake_distance                                                               \
    }
static const struct transport transport_fake = TRANSPORT_FAKE(fake_open);

static inline void fake_up(struct transport_link *l) {
    transport_notify_open(l);
}

static inline void fake_ignore_open(struct transport_link *l, void *ctx) {
    (void)l;
    (void)ctx;
}

static inline void fake_ignore_down(struct transport_link *l, void *ctx, const struct err *e) {
    (void)l;
    (void)ctx;
    (void)e;
}

// A link to the node "n1" that is up. events: NULL: none are looked at.
static inline struct transport_link *
fake_link(struct loop *loop, const struct transport_link_events *events, void *ctx) {
    static const struct transport_link_events ignored = {fake_ignore_open, fake_ignore_down};
    static struct transport_env env;
    struct err e;
    env.loop = loop;
    struct transport_link *l =
        transport_open(&transport_fake, &env, &(struct transport_target){.node = "n1"},
                       events ? events : &ignored, ctx, &e);
    fake_up(l);
    return l;
}

static inline struct fake_run *fake_run(int back) {
    struct fake_run *r = fake_runs;
    while (r && back-- > 0)
        r = r->older;
    return r;
}

static inline int fake_run_count(void) {
    int count = 0;
    for (struct fake_run *r = fake_runs; r; r = r->older)
        count++;
    return count;
}

// The node reads up to so many bytes of its input, which may call on_room. Returns their number.
static inline size_t fake_take(struct fake_run *r, size_t most) {
    size_t len;
    const void *p = transport_input_peek(&r->r, &len);
    len = len < most ? len : most;
    if (len)
        strbuf_add(&r->got, p, len);
    r->got_end = r->r.input_ended && transport_run_unsent(&r->r) == len;
    transport_input_sent(&r->r, len);
    return len;
}

static inline void fake_say(struct fake_run *r, const void *p, size_t len) {
    transport_notify_output(&r->r, false, p, len);
}

static inline void fake_say_error(struct fake_run *r, const char *text) {
    transport_notify_output(&r->r, true, text, strlen(text));
}

static inline void fake_exit(struct fake_run *r, int status) {
    transport_notify_end(&r->r, &(struct transport_end){.how = TRANSPORT_EXITED, .status = status});
}

static inline void fake_free_all(void) {
    for (struct fake_run *r; (r = fake_runs);) {
        fake_runs = r->older;
        free(r->line);
        strbuf_fini(&r->got);
        transport_run_release(&r->r);
    }
    for (struct fake_link *l; (l = fake_links);) {
        fake_links = l->older;
        transport_link_release(&l->l);
    }
}

#endif
