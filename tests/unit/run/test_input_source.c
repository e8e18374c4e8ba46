// SPDX-License-Identifier: Apache-2.0
// Files of this computer that nodes stream: their list, and answers to a node. The node is a local
// process, whose dtdata is a script that asks from a file and keeps what it gets in another one.
#include "run/inputs/input_source.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "tests/unit/follow/follow_fixture.h"

#include <sys/stat.h>

enum { WAIT_MS_MAX = 30000, LARGE = (128 << 10) + 7 };

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "00112233445566778899"},
                                         {.name = NULL}};

static struct follow_fixture f;
static struct input_source source;
static struct transport_env env;
static struct err e;
static char *asks, *got; // paths
static bool down;

static void write_to(const char *path, const void *p, size_t len, int mode) {
    if (file_make_dirs(file_dir(&f.arena, path), 0700, &e) < 0 ||
        file_write_atomic(path, p, len, mode, &e) < 0)
        bail_out("%s", e.text);
}

static const char *here(const char *name) {
    return file_join(&f.arena, f.dir, name);
}

static void on_open(struct transport_link *l, void *ctx) {
    (void)l, (void)ctx;
    f.fleet_nodes[0].up = f.fleet_nodes[0].ready = true;
}

static void on_down(struct transport_link *l, void *ctx, const struct err *why) {
    (void)l, (void)ctx, (void)why;
    down = true;
}

// ---- the list -----------------------------------------------------------------------------------

static void test_list(void) {
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {{"x", 2}, {"5 6", 4}, {"5 6 a", 6}, {"-5 6 /a", 8}, {"5 6 /a", 6}, {"5x6 /a", 7}};
    struct strbuf list = {0};
    struct manifest_entry entry = {.path = "large", .source = here("large"), .size = LARGE};
    size_t count = 0;
    ok(!input_source_is_here(&f.context, &f.run), "a run without a list streams nothing");
    is_int(input_source_open(&source, &f.follow, &e), 0, "nothing is opened");
    ok(!source.follow, "nothing is served");
    is_int(input_source_add(&list, &count, &entry, &e), 0, "files are numbered from 0");
    entry.source = here("small");
    entry.size = 6;
    is_int(input_source_add(&list, &count, &entry, &e), -1, "another size is refused");
    has_str(e.text, "has changed since it was hashed", "the error says so");
    entry.size = 5;
    is_int(input_source_add(&list, &count, &entry, &e), 1, "the next file has the next number");
    entry.source = here("gone");
    is_int(input_source_add(&list, &count, &entry, &e), -1, "a file that is gone is refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct strbuf text = {0};
        strbuf_add(&text, bad[i].text, bad[i].len);
        is_int(input_source_save(&f.context, &f.run, &text, &e), 0, "a list is saved");
        is_int(input_source_open(&source, &f.follow, &e), -1, "list %zu is refused", i);
        has_str(e.text, "is no list of streamed files", "the error says so");
        strbuf_fini(&text);
    }
    struct strbuf text = {0};
    strbuf_add(&text, "0 6 /a", 7);
    is_int(input_source_save(&f.context, &f.run, &text, &e), 0, "a list of an empty file is saved");
    is_int(input_source_open(&source, &f.follow, &e), 0, "an empty file can be streamed");
    input_source_close(&source);
    strbuf_fini(&text);
    is_int(input_source_save(&f.context, &f.run, &list, &e), 0, "the list is saved");
    ok(input_source_is_here(&f.context, &f.run), "the run has a list");
    strbuf_fini(&list);
}

// ---- answers ------------------------------------------------------------------------------------

static struct strbuf frames;

static void ask(uint32_t slot, uint64_t file, uint64_t at, uint64_t len) {
    unsigned char x[SOURCE_ASK_BYTES];
    bytes_store(x, slot, 4);
    bytes_store(x + 4, file, 8);
    bytes_store(x + 12, at, 8);
    bytes_store(x + 20, len, 8);
    strbuf_add(&frames, x, sizeof x);
}

// Sends what was asked; the answers as "KIND:SLOT:LEN:BEGINNING ", until so many bytes are there.
static const char *answers(size_t bytes) {
    char *text = NULL;
    size_t len = 0;
    struct strbuf out = {0};
    unlink(got);
    write_to(asks, frames.data, frames.len, 0600);
    strbuf_clear(&frames);
    if (input_source_open(&source, &f.follow, &e) < 0)
        bail_out("%s", e.text);
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; len < bytes && clock_mono_ms() < until;) {
        loop_once(f.context.loop, 20);
        struct err ignored;
        if (file_read(&f.arena, got, 1 << 20, &text, &len, &ignored) < 0)
            len = 0;
    }
    input_source_close(&source);
    for (size_t at = 0; at + SOURCE_HEAD_BYTES <= len;) {
        size_t own = (size_t)bytes_load(text + at + 5, 4);
        const char *data = text + at + SOURCE_HEAD_BYTES;
        strbuf_addf(&out, "%d:%d:%zu:%.*s ", text[at], (int)bytes_load(text + at + 1, 4), own,
                    own < 8 ? (int)own : 3, data);
        at += SOURCE_HEAD_BYTES + own;
    }
    const char *all = arena_strdup(&f.arena, strbuf_cstr(&out));
    strbuf_fini(&out);
    return all;
}

static void test_answers(void) {
    enum { HEAD = SOURCE_HEAD_BYTES };
    ask(1, 1, 0, 5);
    ask(2, 1, 2, 2);
    is_str(answers(2 * HEAD + 7), "1:1:5:small 1:2:2:al ", "files are answered in turn");
    ask(3, 0, 0, LARGE);
    ask(4 | SOURCE_ASK_URGENT, 0, LARGE - 4, 4);
    is_str(answers(3 * HEAD + LARGE + 4), "1:4:4:...z 1:3:131072:a.. 1:3:7:......z ",
           "a reader that waits comes first, and a long answer has pieces");
    ask(5 | SOURCE_ASK_URGENT, 0, 0, LARGE);
    ask(6 | SOURCE_ASK_URGENT, 1, 0, 5);
    is_str(answers(3 * HEAD + LARGE + 5), "1:5:131072:a.. 1:6:5:small 1:5:7:......z ",
           "readers that wait have turns, piece by piece");
    write_to(here("small"), "small", 5, 0600); // another time
    ask(7, 1, 0, 5);
    has_str(answers(HEAD + 20), "2:7:", "a file that has changed is not served");
    unlink(here("small"));
    ask(8, 1, 0, 5);
    has_str(answers(HEAD + 20), "2:8:", "a file that is gone is not served");
}

static void refused(const char *about, uint64_t file, uint64_t at, uint64_t len, bool twice) {
    if (twice)
        ask(9, 0, 0, 1);
    ask(9, file, at, len);
    unlink(got);
    write_to(asks, frames.data, frames.len, 0600);
    strbuf_clear(&frames);
    if (input_source_open(&source, &f.follow, &e) < 0)
        bail_out("%s", e.text);
    struct input_source_node *n = &source.nodes[0];
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX;
         (!n->came || n->run) && clock_mono_ms() < until;)
        loop_once(f.context.loop, 20);
    ok(n->came && !n->run && !n->next.loop, "the node is not served any more: %s", about);
    input_source_close(&source);
}

int main(void) {
    static const char script[] = "#!/bin/sh\ncat \"$2/asks\"\nexec cat >\"$2/got\"\n";
    const struct transport_link_events events = {on_open, on_down};
    static char large[LARGE];
    fixture_make(&f);
    f.context.loop = loop_open(&e);
    env = (struct transport_env){.loop = f.context.loop, .env = environ};
    struct transport_target target = {.node = "n0", .folder = f.dir};
    f.fleet_nodes[0].facts.root = f.dir;
    f.fleet_nodes[0].link = transport_open(&transport_local, &env, &target, &events, NULL, &e);
    asks = file_join(&f.arena, run_node_dir(&f.arena, f.run.id, ""), "asks");
    asks = (char *)here(asks);
    got = (char *)here(file_join(&f.arena, run_node_dir(&f.arena, f.run.id, ""), "got"));
    write_to(here(embedded_program_path(&f.arena, "dtdata")), script, strlen(script), 0700);
    memset(large, '.', sizeof large);
    large[0] = 'a';
    large[LARGE - 1] = 'z';
    write_to(here("large"), large, sizeof large, 0600);
    write_to(here("small"), "small", 5, 0600);
    static const struct follow_view nothing;
    if (follow_open(&f.follow, &f.context, &f.fleet, &f.run, &nothing, NULL, &e) < 0)
        bail_out("%s", e.text);
    test_list();
    test_answers();
    refused("no such file", 2, 0, 1, false);
    refused("nothing is asked for", 0, 0, 0, false);
    refused("a place behind the end", 0, LARGE + 1, 1, false);
    refused("more than there is", 0, LARGE - 1, 2, false);
    refused("a slot that is in use", 0, 0, 1, true);
    ok(!down, "the connection stays");
    follow_close(&f.follow);
    transport_close(f.fleet_nodes[0].link);
    loop_run(f.context.loop); // until its processes are gone
    loop_close(f.context.loop);
    strbuf_fini(&frames);
    fixture_remove(&f);
    return done_testing();
}
