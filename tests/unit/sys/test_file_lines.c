// SPDX-License-Identifier: Apache-2.0
// Lines of a file: every length around the pieces in which it is read, lines that are too long, and
// files that are refused.
#include "sys/file_lines.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1000, PIECE = 256 * 1024 };

static struct err e;
static char path[] = "/tmp/test_file_lines.XXXXXX";

static void put(const void *p, size_t len) {
    FILE *f = fopen(path, "w");
    if (!f || fwrite(p, 1, len, f) != len || fclose(f) != 0)
        bail_out("cannot write %s", path);
}

// Lengths of the lines, "+" behind one that was cut, "." behind one without a newline.
static const char *lengths(const char *text, size_t len) {
    static char out[256];
    struct file_lines in;
    size_t n = 0;
    put(text, len);
    out[0] = '\0';
    if (file_lines_open(&in, path, LINE_MAX_BYTES, 1 << 30, &e) < 0)
        return e.text;
    while (file_lines_next(&in) && n < sizeof out - 32)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%zu%s%s", n ? " " : "", in.len,
                              in.cut ? "+" : "", in.unended ? "." : "");
    return file_lines_close(&in, 0, &e) < 0 ? e.text : out;
}

static void test_pieces(void) {
    static const size_t sizes[] = {PIECE - 2, PIECE - 1, PIECE, PIECE + 1, PIECE + 2};
    char *text = malloc(2 * PIECE + 64);
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t len = sizes[i], lines = 0, bytes = 0;
        struct file_lines in;
        memset(text, 'x', len);
        for (size_t k = 99; k < len; k += 100)
            text[k] = '\n';
        put(text, len);
        if (file_lines_open(&in, path, LINE_MAX_BYTES, 1 << 30, &e) < 0)
            bail_out("%s", e.text);
        while (file_lines_next(&in)) {
            lines++;
            bytes += in.len + !in.unended;
            wrong += memchr(in.line, '\n', in.len) != NULL || in.number != lines;
        }
        wrong += file_lines_close(&in, 0, &e) != 0 || bytes != len || lines != (len + 99) / 100;
    }
    is_uint(wrong, 0, "no line is lost or cut where a piece ends");
    free(text);
}

static void test_long(void) {
    static char text[3 * PIECE];
    memset(text, 'x', sizeof text);
    is_str(lengths("", 0), "", "an empty file has no line");
    is_str(lengths("\n\na\nbc", 6), "0 0 1 2.", "the last line may lack its newline");
    text[LINE_MAX_BYTES] = text[2 * LINE_MAX_BYTES + 2] = '\n';
    is_str(lengths(text, 2 * LINE_MAX_BYTES + 4), "1000 1000+ 1.", "a line is cut at the limit");
    text[LINE_MAX_BYTES] = text[2 * LINE_MAX_BYTES + 2] = 'x';
    text[sizeof text - 3] = '\n';
    is_str(lengths(text, sizeof text), "1000+ 2.",
           "the rest of a line of several pieces is left out");
    is_str(lengths(text, sizeof text - 3), "1000+", "a long line may lack its newline");
}

static void test_refused(void) {
    struct file_lines in;
    put("abc\n", 4);
    is_int(file_lines_open(&in, path, 10, 3, &e), -1, "a file beyond the limit is refused");
    is_int(e.code, ERR_LIMIT, "the error is the limit");
    ok(!file_lines_next(&in), "a refused file has no lines");
    is_int(file_lines_close(&in, 0, &e), 0, "closing it is harmless");
    is_int(file_lines_open(&in, "/tmp", 10, 3, &e), -1, "a folder is refused");
    unlink(path);
    is_int(file_lines_open(&in, path, 10, 3, &e), -1, "a file that is not there is refused");
    is_int(e.code, ERR_NOT_FOUND, "the error is its absence");
    if (mkfifo(path, 0600) < 0)
        bail_out("no fifo");
    is_int(file_lines_open(&in, path, 10, 3, &e), -1, "a named pipe is refused, and not awaited");
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no file");
    close(fd);
    test_pieces();
    test_long();
    test_refused();
    unlink(path);
    return done_testing();
}
