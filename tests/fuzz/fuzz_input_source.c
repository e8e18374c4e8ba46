// SPDX-License-Identifier: Apache-2.0
// Requests of a node for files of the operator's computer: any bytes, in pieces; a byte before each
// piece says how long it is. Answers are whole frames, for requests alone, with the bytes of the
// files in order; other requests end the connection.
#include "base/bytes.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "remote/transport_impl.h"
#include "run/inputs/input_source.h"
#include "tests/unit/follow/follow_fixture.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 3, LARGE_BYTES = 300000 };
static const size_t SIZES[FILES] = {LARGE_BYTES, 5, 0};

static unsigned char byte_of(uint64_t file, uint64_t at) {
    return (unsigned char)(at * 7 + (at >> 8) + file * 31);
}

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "0123456789abcdef"}, {0}};

// ---- a node that is this program ----------------------------------------------------------------

static struct node {
    struct transport_link *link;
    struct transport_run *run; // NULL: closed
    struct strbuf asked, got;  // what was sent to dtctl; what came from it
    struct ask {
        bool used;
        uint64_t file, at, end;
    } asks[INPUT_SOURCE_ASKS_MAX * 2];
} node;

static struct transport_link *link_open(const struct transport_env *env,
                                        const struct transport_target *target, struct err *e) {
    (void)env, (void)target, (void)e;
    return heap_alloc(sizeof(struct transport_link));
}

static void link_close(struct transport_link *l) {
    while (l->runs)
        transport_run_release(l->runs);
    transport_link_release(l);
}

static struct transport_run *run_open(struct transport_link *l, const struct transport_command *c,
                                      struct err *e) {
    (void)l, (void)e;
    must(strstr(c->line, " source "));
    return node.run = heap_alloc(sizeof(struct transport_run));
}

static void run_wake(struct transport_run *r) {
    (void)r;
}

static void run_close(struct transport_run *r) {
    (void)r; // released with the link
    node.run = NULL;
}

static const struct transport stub = {.name = "stub",
                                      .open = link_open,
                                      .close = link_close,
                                      .run = run_open,
                                      .run_wake = run_wake,
                                      .run_close = run_close};

// ---- what a node may expect ---------------------------------------------------------------------

// The requests among the bytes that were sent.
static void note_asks(void) {
    size_t used = 0;
    for (; node.asked.len - used >= SOURCE_ASK_BYTES; used += SOURCE_ASK_BYTES) {
        const char *p = node.asked.data + used;
        uint32_t slot = (uint32_t)bytes_load(p, 4) & ~(uint32_t)SOURCE_ASK_URGENT;
        uint64_t file = bytes_load(p + 4, 8), from = bytes_load(p + 12, 8);
        if (slot < sizeof node.asks / sizeof *node.asks)
            node.asks[slot] = (struct ask){true, file, from, from + bytes_load(p + 20, 8)};
    }
    strbuf_consume(&node.asked, used);
}

static void take_frame(int kind, uint32_t slot, const unsigned char *p, size_t len) {
    struct ask *x = slot < sizeof node.asks / sizeof *node.asks ? &node.asks[slot] : NULL;
    must(kind == SOURCE_BYTES); // the files stay as they are
    for (size_t i = 0; x && i < len; i++)
        must(p[i] == byte_of(x->file, x->at + i));
    if (!x)
        return;
    must(x->used && len <= x->end - x->at);
    x->at += len;
    x->used = x->at < x->end;
}

static void take_answers(void) {
    size_t len;
    const void *p;
    while (node.run && (p = transport_input_peek(node.run, &len)) && len) {
        strbuf_add(&node.got, p, len);
        transport_input_sent(node.run, len);
        size_t used = 0;
        while (node.got.len - used >= SOURCE_HEAD_BYTES) {
            const unsigned char *head = (const unsigned char *)node.got.data + used;
            size_t bytes = (size_t)bytes_load(head + 5, 4);
            must(bytes <= SOURCE_ANSWER_BYTES_MAX);
            if (node.got.len - used < SOURCE_HEAD_BYTES + bytes)
                break;
            take_frame(head[0], (uint32_t)bytes_load(head + 1, 4), head + SOURCE_HEAD_BYTES, bytes);
            used += SOURCE_HEAD_BYTES + bytes;
        }
        strbuf_consume(&node.got, used);
    }
}

static void feed(struct input_source *s, const uint8_t *data, size_t size) {
    for (size_t at = 0; at < size && node.run;) {
        size_t len = data[at++];
        len = len < size - at ? len : size - at;
        strbuf_add(&node.asked, data + at, len);
        note_asks();
        transport_notify_output(node.run, false, data + at, len);
        must(s->nodes[0].in.len < SOURCE_ASK_BYTES);
        take_answers();
        at += len;
    }
}

// ---- the run ------------------------------------------------------------------------------------

static void make_files(struct follow_fixture *f) {
    static char bytes[LARGE_BYTES];
    struct strbuf list = {0};
    struct err e = {0};
    size_t count = 0;
    for (size_t i = 0; i < FILES; i++) {
        const char *path = arena_printf(&f->arena, "%s/file%zu", f->dir, i);
        struct manifest_entry entry = {.source = path, .size = SIZES[i]};
        for (size_t k = 0; k < SIZES[i]; k++)
            bytes[k] = (char)byte_of(i, k);
        must(file_write_atomic(path, bytes, SIZES[i], 0600, &e) == 0);
        must(input_source_add(&list, &count, &entry, &e) == (int64_t)i);
    }
    must(input_source_save(&f->context, &f->run, &list, &e) == 0);
    strbuf_fini(&list);
}

static struct follow_fixture f;

static void end_files(void) {
    fixture_remove(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct transport_link_events events = {0};
    static struct transport_env env;
    struct input_source s;
    struct err e = {0};
    if (!f.arena.total_bytes) {
        log_open("fuzz", LOG_ERROR, LOG_PLAIN);
        fixture_make(&f);
        make_files(&f);
        atexit(end_files);
    }
    f.context.loop = env.loop = loop_open(&e);
    must(f.context.loop);
    node =
        (struct node){.link = transport_open(&stub, &env, &(struct transport_target){.node = "n0"},
                                             &events, NULL, &e)};
    must(node.link);
    node.link->state = TRANSPORT_UP;
    struct fleet_node *to = &f.fleet_nodes[0];
    to->link = node.link;
    to->up = to->ready = true;
    to->facts.root = "/root";
    struct follow_node n = {.node = to, .follow = &f.follow};
    f.follow = (struct follow){
        .context = &f.context, .fleet = &f.fleet, .run = &f.run, .nodes = &n, .count = 1};
    must(input_source_open(&s, &f.follow, &e) == 0);
    loop_once(f.context.loop, 0);
    must(node.run);
    feed(&s, data, size);
    input_source_close(&s);
    transport_close(node.link);
    strbuf_fini(&node.asked);
    strbuf_fini(&node.got);
    loop_close(f.context.loop);
    return 0;
}
