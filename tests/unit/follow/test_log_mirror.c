// SPDX-License-Identifier: Apache-2.0
// Mirrors of many files: those written last stay open, no more than the limit, and every byte is in
// its file.
#include "follow/log_mirror.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/descriptors.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 3 * MIRROR_OPEN_FILES_MAX, ROUNDS = 3, RECORDS = 1000 };

static int opened; // calls of open
static struct arena arena;
static char dir[] = "/tmp/test_log_mirror.XXXXXX";
static struct mirror_open_files shared;

int test_open(const char *path, int flags, ...) __asm__("open");

int test_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    opened++;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void on_line(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    (void)f, (void)line, (void)len;
    ++*(int *)ctx;
}

static int put(struct mirror *m, const char *name, uint64_t offset, int *lines, struct err *e) {
    static const char text[] = "line\n";
    struct follow_record r = {.kind = FOLLOW_BYTES, .offset = offset, .len = sizeof text - 1};
    r.data = (const unsigned char *)text;
    snprintf(r.name, sizeof r.name, "%s", name);
    must(follow_file_parse(name, &r.file));
    return log_mirror_write(m, &r, on_line, lines, e);
}

static void begin(struct mirror *m, const char *node) {
    struct err e;
    if (log_mirror_open(m, &shared, &arena, file_join(&arena, dir, node), &e) < 0)
        bail_out("%s", e.text);
}

static void test_one(void) {
    struct mirror m;
    struct err e;
    int lines = 0, failed = 0;
    begin(&m, "one");
    put(&m, "events.jsonl", 0, &lines, &e);
    opened = 0;
    for (uint64_t i = 1; i < RECORDS; i++)
        failed += put(&m, "events.jsonl", i * 5, &lines, &e) < 0;
    is_int(failed, 0, "every record of one file is written");
    is_int(opened, 0, "the file stays open between records");
    is_int(lines, RECORDS, "every line is handed out");
    log_mirror_close(&m);
}

static void test_many(void) {
    struct mirror m[2];
    struct err e;
    int lines = 0, failed = 0, before = descriptors(), most = 0;
    begin(&m[0], "alpha");
    begin(&m[1], "beta");
    for (int i = 0; i < ROUNDS * FILES; i++) {
        const char *name = arena_printf(&arena, "attempt_%d/0/stdout.log", i % FILES);
        failed += put(&m[i % 2], name, (uint64_t)(i / FILES) * 5, &lines, &e) < 0;
        most = descriptors() > most ? descriptors() : most;
    }
    is_int(failed, 0, "every record of many files is written %s", failed ? e.text : "");
    is_int(lines, ROUNDS * FILES, "every line of many files is handed out");
    is_int(most - before, MIRROR_OPEN_FILES_MAX, "the mirrors have so many files open together");
    int wrong = 0;
    for (int i = 0; i < FILES; i++) {
        const char *path =
            arena_printf(&arena, "%s/%s/attempt_%d/0/stdout.log", dir, i % 2 ? "beta" : "alpha", i);
        char *text;
        size_t len;
        wrong += file_read(&arena, path, 1000, &text, &len, &e) < 0 || len != ROUNDS * 5;
    }
    is_int(wrong, 0, "every file has its bytes");
    log_mirror_close(&m[0]);
    ok(put(&m[1], "attempt_1/0/stdout.log", ROUNDS * 5, &lines, &e) == 0,
       "the mirror of one node goes on after the end of another");
    log_mirror_close(&m[1]);
    is_int(descriptors(), before, "no file is left open");
}

// As `gc` of another program does.
static void test_removed(void) {
    struct mirror m;
    struct err e;
    int lines = 0;
    begin(&m, "gone");
    must(put(&m, "events.jsonl", 0, &lines, &e) == 0);
    must(file_remove_tree(file_join(&arena, dir, "gone"), &e) == 0);
    is_int(put(&m, "events.jsonl", 5, &lines, &e), -1, "bytes of a removed file are not dropped");
    has_str(e.text, "shorter than it was", "the error says what happened to the file");
    is_int(lines, 1, "a line that is not in the file is not handed out");
    ok(put(&m, "attempt_0/0/stdout.log", 0, &lines, &e) == 0, "other files go on: %s", e.text);
    log_mirror_close(&m);
}

static void collect(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    struct strbuf *all = ctx;
    (void)f;
    strbuf_addf(all, "%.*s|", (int)len, line);
}

static void test_open_end(void) {
    enum { HALF_BYTES = 20000 };
    static const char name[] = "attempt_0/0/stdout.log";
    struct mirror m;
    struct err e;
    struct strbuf text = {0}, shown = {0};
    strbuf_addf(&text, "whole\n%0*d", HALF_BYTES, 7);
    const char *path = file_join(&arena, file_join(&arena, dir, "open"), name);
    must(file_make_dirs(file_dir(&arena, path), 0700, &e) == 0);
    must(file_write_atomic(path, text.data, text.len, 0600, &e) == 0);
    begin(&m, "open");
    must(log_mirror_replay(&m, FOLLOW_STDOUT, false, collect, &shown, &e) == 0);
    is_str(strbuf_cstr(&shown), "whole|", "a line that may become longer is not handed out");
    strbuf_clear(&shown);
    must(log_mirror_replay(&m, FOLLOW_STDOUT, true, collect, &shown, &e) == 0);
    is_int((int64_t)shown.len, 6 + HALF_BYTES + 1, "the last line needs no newline at the end");
    strbuf_clear(&shown);
    log_mirror_flush(&m, collect, &shown);
    is_int((int64_t)shown.len, HALF_BYTES + 1, "an open line is known from its beginning");
    log_mirror_close(&m);
    strbuf_fini(&text);
    strbuf_fini(&shown);
}

// The earlier part of a file ends within the file.
static void test_begin(void) {
    static const struct {
        const char *begin;
        int offset;
    } cases[] = {{"-1", 10}, {"0", 10}, {"1", 9}, {"9", 1}, {"10", 0}, {"11", 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *node = arena_printf(&arena, "%s/%zu", dir, i),
                   *text = arena_printf(&arena, "{\"events.jsonl\":%s}", cases[i].begin);
        struct strbuf offsets = {0};
        struct mirror m;
        struct err e;
        if (file_make_dirs(node, 0700, &e) < 0 ||
            file_write_atomic(file_join(&arena, node, "events.jsonl"), "line\nline\n", 10, 0600,
                              &e) < 0 ||
            file_write_atomic(file_join(&arena, node, ".begin"), text, strlen(text), 0600, &e) < 0)
            bail_out("%s", e.text);
        begin(&m, file_base(node));
        log_mirror_offsets(&m, &offsets);
        is_str(strbuf_cstr(&offsets),
               arena_printf(&arena, "{\"events.jsonl\":%d}", cases[i].offset),
               "an earlier part of %s bytes of 10", cases[i].begin);
        strbuf_fini(&offsets);
        log_mirror_close(&m);
    }
}

int main(void) {
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_one();
    test_many();
    test_removed();
    test_open_end();
    test_begin();
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
