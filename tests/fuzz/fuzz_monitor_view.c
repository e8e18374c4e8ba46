// SPDX-License-Identifier: Apache-2.0
// The stream of a node, up to the screen. The input is text of several files of a run; a byte
// before each piece selects the file. For any input, no sequence that controls a terminal is
// printed, summary.json is valid, and memory stays proportional.
#include "follow/follow.h"
#include "run/monitor_view.h"
#include "run/run_summary.h"
#include "sys/file.h"
#include "tests/unit/follow/follow_fixture.h"
#include "tests/unit/ui/screen_check.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { MEMORY_BYTES_MAX = 8 << 20, PIECE_BYTES_MAX = 4096 };

static const char *const FILES[] = {"events.jsonl",           "events.jsonl",
                                    "output/metrics.jsonl",   "attempt_0/0/stdout.log",
                                    "attempt_0/0/stderr.log", "attempt_1/3/stdout.log"};

// Pieces end with a byte 0.
static void feed(struct follow_fixture *f, const unsigned char *data, size_t size) {
    for (size_t at = 0; at + 1 < size;) {
        size_t which = data[at++] % 16;
        const unsigned char *end = memchr(data + at, 0, size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        char piece[PIECE_BYTES_MAX + 2];
        len = len < PIECE_BYTES_MAX ? len : PIECE_BYTES_MAX;
        memcpy(piece, data + at, len);
        bool whole = which % 8 < 3; // events and records are sent line by line
        piece[len] = whole ? '\n' : '\0';
        piece[len + 1] = '\0';
        fixture_bytes(f, which / 8, FILES[which % 8 % 6], piece);
        at += len + 1;
    }
}

static void check(const char *text, size_t len) {
    must(check_screen(text, len) == len);
}

static void show(struct follow_fixture *f, struct monitor_view *v) {
    struct summary sum = {.context = &f->context, .run = &f->run, .follow = &f->follow};
    struct strbuf text = {0};
    struct arena a = {0};
    struct json *j = NULL;
    struct err e = {0};
    sum.arena = &a;
    monitor_view.on_tick(v);
    run_summary_failure(&sum, &text);
    run_summary_text(&sum, &text);
    screen_out(&f->screen, "%s", strbuf_cstr(&text));
    strbuf_clear(&text);
    run_summary_json(&sum, &text);
    check(text.data, text.len);
    must(json_parse(&a, text.data, text.len, &j, &e) == 0);
    strbuf_fini(&text);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static struct follow_fixture f;
    static int out_fd = -1;
    struct monitor_view v;
    struct monitor_options o = {.only_rank = -1};
    struct err e = {0};
    if (out_fd < 0)
        out_fd = memfd_create("screen", MFD_CLOEXEC);
    must(out_fd >= 0 && ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
    fixture_make(&f);
    screen_init(&f.screen, out_fd, out_fd, size ? (enum screen_style)(data[0] % 3) : SCREEN_PLAIN,
                false);
    f.screen.out_is_terminal = true;
    f.run.native = size > 1 && data[0] & 4;
    f.run.output_dir = f.dir;
    monitor_view_init(&v, &f.follow, &o);
    must(follow_open(&f.follow, &f.context, &f.fleet, &f.run, &monitor_view, &v, &e) == 0);
    size_t before = f.arena.total_bytes;
    if (size)
        feed(&f, data + 1, size - 1);
    show(&f, &v);
    must(f.arena.total_bytes - before < MEMORY_BYTES_MAX + 64 * size);
    off_t len = lseek(out_fd, 0, SEEK_END);
    char *text = arena_new(&f.arena, char, (size_t)len + 1);
    must(pread(out_fd, text, (size_t)len, 0) == len);
    check(text, (size_t)len);
    follow_close(&f.follow);
    fixture_remove(&f);
    return 0;
}
