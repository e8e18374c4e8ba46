// SPDX-License-Identifier: Apache-2.0
// Splits the text of a log file into lines, and progress bars into their states.
#include "follow/log_lines.h"

#include <string.h>

static bool is_of_worker(const struct mirror_file *f) {
    return f->file.kind == FOLLOW_STDOUT || f->file.kind == FOLLOW_STDERR;
}

static void add(struct mirror_file *f, const char *p, size_t len) {
    size_t room = MIRROR_LINE_BYTES_MAX - f->line.len, part = len < room ? len : room;
    strbuf_add(&f->line, p, part);
    f->dropped += len - part;
}

static void give(struct mirror_file *f, enum mirror_part part, mirror_line_cb *cb, void *ctx) {
    size_t len = f->line.len;
    if (f->dropped && is_of_worker(f))
        strbuf_addf(&f->line, " [... %llu more byte%s]", (unsigned long long)f->dropped,
                    str_plural((size_t)f->dropped));
    f->part = part;
    cb(ctx, f, strbuf_cstr(&f->line), f->line.len);
    f->part = MIRROR_LINE;
    if (part == MIRROR_PARTIAL) {
        if (f->line.len > len) // the mark is no part of the line
            f->line.data[f->line.len = len] = '\0';
        return;
    }
    strbuf_clear(&f->line);
    f->dropped = 0;
}

void log_lines_take(struct mirror_file *f, const char *p, size_t len, mirror_line_cb *cb,
                    void *ctx) {
    bool of_worker = is_of_worker(f);
    while (len > 0) {
        if (f->returned && *p != '\n' && *p != '\r') {
            give(f, MIRROR_UPDATE, cb, ctx);
            f->returned = false;
        }
        const char *end = memchr(p, '\n', len);
        size_t part = end ? (size_t)(end - p) : len;
        const char *back = of_worker ? memchr(p, '\r', part) : NULL;
        f->at += back ? (size_t)(back - p) + 1 : part + (end != NULL);
        if (back) {
            add(f, p, (size_t)(back - p));
            f->is_bar = true;
            f->returned = f->line.len > 0;
            part = (size_t)(back - p) + 1;
        } else if (end && f->line.len == 0 && part <= MIRROR_LINE_BYTES_MAX) {
            cb(ctx, f, p, part);
        } else {
            add(f, p, part);
            if (end)
                give(f, MIRROR_LINE, cb, ctx);
        }
        if (end && !back) {
            part++;
            f->returned = f->is_bar = false;
        }
        p += part;
        len -= part;
    }
}

void log_lines_show(struct mirror_file *f, mirror_line_cb *cb, void *ctx) {
    if (f->is_bar && f->line.len)
        give(f, MIRROR_PARTIAL, cb, ctx);
}

void log_lines_flush(struct mirror_file *f, mirror_line_cb *cb, void *ctx) {
    if (f->line.len)
        give(f, MIRROR_LINE, cb, ctx);
    f->returned = f->is_bar = false;
}
