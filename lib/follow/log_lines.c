// SPDX-License-Identifier: Apache-2.0
// Splits the text of a log file into lines, and progress bars into their states.
#include "follow/log_lines.h"

#include <string.h>

static void give(struct mirror_file *f, enum mirror_part part, mirror_line_cb *cb, void *ctx) {
    f->part = part;
    cb(ctx, f, strbuf_cstr(&f->line), f->line.len);
    f->part = MIRROR_LINE;
    if (part != MIRROR_PARTIAL)
        strbuf_clear(&f->line);
}

void log_lines_take(struct mirror_file *f, const char *p, size_t len, mirror_line_cb *cb,
                    void *ctx) {
    bool of_worker = f->file.kind == FOLLOW_STDOUT || f->file.kind == FOLLOW_STDERR;
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
            strbuf_add(&f->line, p, (size_t)(back - p)); // bytes over the limit are dropped
            f->is_bar = true;
            f->returned = f->line.len > 0;
            part = (size_t)(back - p) + 1;
        } else if (end && f->line.len == 0) {
            cb(ctx, f, p, part < MIRROR_LINE_BYTES_MAX ? part : MIRROR_LINE_BYTES_MAX);
        } else {
            strbuf_add(&f->line, p, part);
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
