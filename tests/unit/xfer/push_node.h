// SPDX-License-Identifier: Apache-2.0
// A push over a transport whose node is the test: the events of the push, and the node's end of a
// connection, which takes what has come like a real one.
#ifndef TESTS_UNIT_XFER_PUSH_NODE_H
#define TESTS_UNIT_XFER_PUSH_NODE_H

#include "protocol/node_protocol.h"
#include "tests/unit/transport_fake.h"
#include "tests/unit/xfer/memory.h"
#include "xfer/xfer.h"
#include "xfer/xfer_impl.h"

static struct loop *loop;
static struct transport_link *node_link;
static struct err e, end_err;
static struct xfer_progress last;
static int ends, ticks;
static struct strbuf phases; // in the order in which they were first seen
static bool cancel_in_progress, cancel_in_end;

TAP_UNUSED static void note(const struct xfer_progress *p) {
    if (!strstr(strbuf_cstr(&phases), p->phase))
        strbuf_addf(&phases, "%s ", p->phase);
    last = *p;
}

TAP_UNUSED static void on_progress(struct xfer *x, void *ctx, const struct xfer_progress *p) {
    (void)ctx;
    ticks++;
    note(p);
    if (cancel_in_progress)
        xfer_cancel(x);
}

TAP_UNUSED static void on_end(struct xfer *x, void *ctx, const struct err *why,
                              const struct xfer_progress *p) {
    (void)ctx;
    ends++;
    end_err = *why;
    note(p);
    if (cancel_in_end)
        xfer_cancel(x);
}

static const struct xfer_events events = {on_progress, on_end};

// ---- the node -----------------------------------------------------------------------------------

// Its end of one connection: what it has read, and the receiver that takes it.
struct end {
    struct fake_run *run;
    struct receive r;
    struct xfer_unpacker u;
    struct xfer_push_hello hello;
    size_t used;
    bool greeted, open, got_done;
    uint64_t content_frames;
};

TAP_UNUSED static void say(struct fake_run *r, enum xfer_type type, const void *p, size_t len) {
    struct strbuf b = {0};
    xfer_wire_frame(&b, type, p, len);
    fake_say(r, b.data, b.len);
    strbuf_fini(&b);
}

TAP_UNUSED static void say_hello(struct fake_run *r) {
    unsigned char version[4];
    bytes_store(version, XFER_VERSION, 4);
    say(r, XFER_HELLO, version, 4);
}

TAP_UNUSED static void greet(struct end *n, const struct xfer_frame *f, const char *dest) {
    n->greeted = true;
    if (xfer_get_push_hello(f, &arena, &n->hello, &e) < 0)
        bail_out("%s", e.text);
    struct receive_config config = {.dest = n->hello.extra ? NULL : path_of(dest),
                                    .store = path_of("node-store"),
                                    .replace = n->hello.replace,
                                    .keep = true,
                                    .acks = true};
    if (xfer_receive_open(&n->r, &config, &e) < 0)
        bail_out("%s", e.text);
    n->open = true;
    say_hello(n->run);
}

// The node reads what has come, and answers. False: nothing has come.
TAP_UNUSED static bool serve(struct end *n, const char *dest) {
    struct xfer_frame f;
    struct strbuf out = {0};
    size_t had = n->run->got.len;
    (void)fake_take(n->run, SIZE_MAX);
    bool more = n->run->got.len > had || n->used < n->run->got.len;
    while (xfer_wire_take(&n->u, n->run->got.data + n->used, n->run->got.len - n->used, &f, &e) >
           0) {
        n->used += f.wire_bytes;
        if (!n->greeted) {
            greet(n, &f, dest);
            break; // the list is read in the next call
        }
        n->got_done |= f.type == XFER_DONE;
        n->content_frames += f.type == XFER_BATCH || f.type == XFER_CHUNK;
        if (xfer_receive_frame(&n->r, &f, &out, &e) < 0)
            bail_out("the node refuses a frame: %s", e.text);
        while (xfer_receive_step(&n->r, &out, &e) > 0)
            ;
    }
    if (out.len)
        fake_say(n->run, out.data, out.len);
    strbuf_fini(&out);
    return more;
}

TAP_UNUSED static void close_end(struct end *n) {
    if (n->open)
        xfer_receive_close(&n->r);
    xfer_unpacker_fini(&n->u);
    *n = (struct end){0};
}

// ---- a push -------------------------------------------------------------------------------------

TAP_UNUSED static struct xfer_push_spec spec_of(const struct manifest *m) {
    return (struct xfer_push_spec){
        .program = "/r/bin/dtrun", .root = "/r", .dest = "in", .manifest = m};
}

TAP_UNUSED TAP_UNUSED static struct xfer *begin(const struct xfer_push_spec *spec) {
    ends = ticks = 0;
    end_err = (struct err){.code = ERR_SYS};
    last = (struct xfer_progress){0};
    strbuf_clear(&phases);
    cancel_in_progress = cancel_in_end = false;
    struct xfer *x = xfer_push(node_link, spec, &events, NULL, &e);
    if (!x)
        bail_out("%s", e.text);
    return x;
}

TAP_UNUSED static void reopen(void) {
    loop_once(loop, 0);
    transport_close(node_link);
    fake_free_all();
    node_link = fake_link(loop, NULL, NULL);
}

// Serves until the push has ended.
TAP_UNUSED static void serve_all(struct end *n, const char *dest) {
    for (int i = 0; i < 10000 && !ends; i++) {
        serve(n, dest);
        loop_once(loop, i % 20 ? 0 : 2 * XFER_TICK_MS);
    }
    for (int i = 0; i < 3 && !ends; i++)
        loop_once(loop, XFER_TICK_MS);
}

// The greeting has been read.
static inline void push_greeted(const struct end *n) {
    if (!n->greeted || !n->hello.owner || !n->hello.results)
        bail_out("the node was not asked");
}

// Makes files, and their list.
static inline struct manifest *push_init(void) {
    if (!mkdtemp(folder) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    make_tree();
    node_link = fake_link(loop, NULL, NULL);
    return scan("src");
}

static inline void push_fini(struct manifest *m) {
    manifest_free(m);
    transport_close(node_link);
    fake_free_all();
    loop_close(loop);
    strbuf_fini(&phases);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
}

#endif
