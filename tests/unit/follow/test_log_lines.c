// SPDX-License-Identifier: Apache-2.0
// Lines of a log file that are longer than what is shown of one: a mark has the number of bytes
// that are left out, whichever way the bytes come.
#include "follow/log_lines.h"
#include "tests/tap.h"

#include <string.h>

enum { MAX = MIRROR_LINE_BYTES_MAX };

static char text[3 * MAX], last[2 * MAX];
static size_t last_len;
static int calls;
static enum mirror_part last_part;

static void on_line(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    (void)ctx;
    must(len < sizeof last);
    memcpy(last, line, len);
    last[len] = '\0';
    last_len = len;
    last_part = f->part;
    calls++;
}

static struct mirror_file file_of(enum follow_file_kind kind) {
    struct mirror_file f = {.file.kind = kind};
    strbuf_init(&f.line, LOG_LINES_ROOM);
    return f;
}

// A line of so many bytes, in pieces, between two short ones.
static void line(size_t bytes, size_t piece, enum follow_file_kind kind, const char *mark) {
    struct mirror_file f = file_of(kind);
    memset(text, 'x', bytes);
    text[bytes] = '\n';
    calls = 0;
    for (size_t at = 0; at <= bytes; at += piece)
        log_lines_take(&f, text + at, at + piece > bytes ? bytes + 1 - at : piece, on_line, NULL);
    size_t kept = bytes < MAX ? bytes : MAX;
    is_int(calls, 1, "%zu bytes by %zu are one line", bytes, piece);
    is_uint(last_len, kept + strlen(mark), "%zu bytes by %zu: as much is shown", bytes, piece);
    is_str(last_len >= kept ? last + kept : "", mark, "%zu bytes by %zu: the mark is right", bytes,
           piece);
    log_lines_take(&f, "short\n", 6, on_line, NULL);
    is_str(last, "short", "%zu bytes by %zu: the next line has no mark", bytes, piece);
    is_uint(f.at, bytes + 7, "%zu bytes by %zu: all bytes count", bytes, piece);
    strbuf_fini(&f.line);
}

static void test_bar(void) {
    struct mirror_file f = file_of(FOLLOW_STDERR);
    memset(text, 'b', MAX + 5);
    text[MAX + 5] = '\r';
    log_lines_take(&f, text, MAX + 6, on_line, NULL);
    log_lines_show(&f, on_line, NULL);
    is_int(last_part, MIRROR_PARTIAL, "a bar is shown as far as it has come");
    is_str(last + MAX, " [... 5 more bytes]", "a bar has a mark");
    log_lines_show(&f, on_line, NULL);
    is_str(last + MAX, " [... 5 more bytes]", "a bar that is shown again has one mark");
    log_lines_take(&f, "50 %\r", 5, on_line, NULL);
    is_int(last_part, MIRROR_UPDATE, "the bar has another state");
    is_str(last + MAX, " [... 5 more bytes]", "the state has the mark");
    log_lines_flush(&f, on_line, NULL);
    is_str(last, "50 %", "the last state has none");
    strbuf_fini(&f.line);
}

static void test_flush(void) {
    struct mirror_file f = file_of(FOLLOW_STDOUT);
    memset(text, 'e', MAX + 1);
    log_lines_take(&f, text, MAX + 1, on_line, NULL);
    log_lines_flush(&f, on_line, NULL);
    is_str(last + MAX, " [... 1 more byte]", "a last line without an end has a mark");
    strbuf_fini(&f.line);
}

int main(void) {
    static const size_t pieces[] = {1000, MAX, 3 * MAX};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        line(MAX - 1, pieces[i], FOLLOW_STDOUT, "");
        line(MAX, pieces[i], FOLLOW_STDOUT, "");
        line(MAX + 1, pieces[i], FOLLOW_STDOUT, " [... 1 more byte]");
        line(2 * MAX, pieces[i], FOLLOW_STDERR, " [... 65536 more bytes]");
        line(MAX + 1, pieces[i], FOLLOW_EVENTS, "");
    }
    test_bar();
    test_flush();
    return done_testing();
}
