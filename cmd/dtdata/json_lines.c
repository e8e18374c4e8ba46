// SPDX-License-Identifier: Apache-2.0
// Reads lines of JSON within limits.
#include "json_lines.h"

#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10 };

struct reader {
    struct strbuf in;
    struct arena *arena;
    json_lines_each *each;
    void *ctx;
    uint64_t total;
    size_t lines;
    bool ended;
};

static int take_line(struct reader *r, const char *line, size_t len, struct err *e) {
    struct json *j;
    r->lines++;
    if (json_parse(r->arena, line, len, &j, e) < 0)
        return err_wrap(e, "line %zu of the input", r->lines);
    r->ended = json_get(j, "end") != NULL;
    return r->ended ? 0 : r->each(r->ctx, j, r->lines, e);
}

static int take_lines(struct reader *r, struct err *e) {
    size_t at = 0;
    for (const char *end;
         !r->ended && r->in.len > at && (end = memchr(r->in.data + at, '\n', r->in.len - at));) {
        size_t len = (size_t)(end - r->in.data) - at;
        if (take_line(r, r->in.data + at, len, e) < 0)
            return -1;
        at += len + 1;
    }
    strbuf_consume(&r->in, at);
    return r->in.len > JSON_LINES_LINE_BYTES_MAX
               ? err_set(e, ERR_LIMIT, "line %zu of the input has more than %d MiB", r->lines + 1,
                         JSON_LINES_LINE_BYTES_MAX >> 20)
               : 0;
}

int json_lines_read(int fd, struct arena *a, json_lines_each *each, void *ctx, struct err *e) {
    struct reader r = {.arena = a, .each = each, .ctx = ctx};
    char piece[PIECE_BYTES];
    int result = 0;
    while (result == 0 && !r.ended) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (err_interrupted(n))
            continue;
        if (n <= 0) {
            result = n < 0 ? err_errno(e, ERR_SYS, "reading the list of objects")
                           : err_set(e, ERR_FORMAT, "the list of objects was cut off");
            break;
        }
        r.total += (uint64_t)n;
        if (r.total > JSON_LINES_BYTES_MAX)
            result = err_set(e, ERR_LIMIT, "the list of objects has more than 1 GiB");
        strbuf_add(&r.in, piece, (size_t)n);
        if (result == 0)
            result = take_lines(&r, e);
    }
    strbuf_fini(&r.in);
    return result;
}
