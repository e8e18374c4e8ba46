// SPDX-License-Identifier: Apache-2.0
// A heap of the next line of each file. Files are opened for one piece at a time, so that merging a
// thousand files does not take a thousand descriptors.
#include "follow/events_merge.h"

#include "base/log.h"
#include "base/str.h"
#include "sys/atomic_file.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_BYTES = 256 * 1024 };

struct event_file {
    const char *path;
    size_t order; // equal times keep the order of the files
    uint64_t offset;
    struct strbuf text;
    size_t at, line_len; // offset and length of the next line, without its newline
    int64_t time_ms;
    bool ended, skips; // skips: the rest of an overlong line follows
    size_t left_out;   // number of overlong lines
};

struct merge {
    struct event_file **heap;
    size_t count;
    struct atomic_file file;
    struct strbuf out;
};

static void read_piece(struct event_file *s) {
    auto_close int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    char *p = strbuf_reserve(&s->text, EVENTS_MERGE_PIECE_BYTES);
    ssize_t n = fd < 0 ? -1 : pread(fd, p, EVENTS_MERGE_PIECE_BYTES, (off_t)s->offset);
    if (n < 0 && errno != ENOENT)
        log_warn("cannot read events; they are left out", "file='%s' reason=\"%s\"", s->path,
                 strerror(errno));
    s->ended = n <= 0;
    if (n > 0) {
        s->text.len += (size_t)n;
        s->offset += (uint64_t)n;
    }
}

// "time_ms" is the first member of every event, so the line need not be parsed.
static void read_time(struct event_file *s) {
    static const char name[] = "\"time_ms\":";
    const char *line = s->text.data + s->at, *at = memmem(line, s->line_len, name, sizeof name - 1);
    char digits[24] = "";
    if (!at)
        return; // without a time the line keeps that of the line before
    at += sizeof name - 1;
    size_t left = (size_t)(line + s->line_len - at);
    memcpy(digits, at, left < sizeof digits - 1 ? left : sizeof digits - 1);
    s->time_ms = strtoll(digits, NULL, 10);
}

// Moves to the next line that is not empty; false at the end.
static bool next_line(struct event_file *s) {
    size_t seen = s->at = s->at + s->line_len + (s->at + s->line_len < s->text.len);
    for (s->line_len = 0;;) {
        size_t left = s->text.len - seen;
        const char *end = left ? memchr(s->text.data + seen, '\n', left) : NULL;
        if (end || (s->ended && s->at < s->text.len)) {
            size_t len = (end ? (size_t)(end - s->text.data) : s->text.len) - s->at;
            if (len && !s->skips) {
                s->line_len = len;
                read_time(s);
                return true;
            }
            s->skips = false;
            seen = s->at += len + (end != NULL);
            continue;
        }
        if (s->ended)
            return false;
        strbuf_consume(&s->text, s->at);
        s->at = 0;
        if (s->text.len > EVENTS_MERGE_LINE_BYTES_MAX) {
            s->left_out += !s->skips;
            s->skips = true;
        }
        if (s->skips)
            strbuf_clear(&s->text);
        seen = s->text.len;
        read_piece(s);
    }
}

// ---- heap ---------------------------------------------------------------------------------------

static bool is_before(const struct event_file *a, const struct event_file *b) {
    return a->time_ms != b->time_ms ? a->time_ms < b->time_ms : a->order < b->order;
}

static void sift_down(struct merge *m, size_t i) {
    for (;;) {
        size_t low = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < m->count; k++)
            low = is_before(m->heap[k], m->heap[low]) ? k : low;
        if (low == i)
            return;
        struct event_file *moved = m->heap[i];
        m->heap[i] = m->heap[low];
        m->heap[low] = moved;
        i = low;
    }
}

// ---- the file -----------------------------------------------------------------------------------

static int flush(struct merge *m, struct err *e) {
    int rc = file_write_all(m->file.fd, m->out.data, m->out.len, e);
    strbuf_clear(&m->out);
    return rc;
}

static int write_lines(struct merge *m, struct err *e) {
    for (size_t i = m->count; i-- > 0;)
        sift_down(m, i);
    while (m->count) {
        struct event_file *s = m->heap[0];
        strbuf_add(&m->out, s->text.data + s->at, s->line_len);
        strbuf_addc(&m->out, '\n');
        if (m->out.len >= OUT_BYTES && flush(m, e) < 0)
            return -1;
        if (!next_line(s))
            m->heap[0] = m->heap[--m->count];
        sift_down(m, 0);
    }
    return flush(m, e);
}

static int write_file(struct merge *m, const char *path, struct err *e) {
    if (atomic_file_open(&m->file, path, 0600, e) < 0)
        return -1;
    if (write_lines(m, e) == 0)
        return atomic_file_commit(&m->file, e);
    atomic_file_abort(&m->file);
    return err_wrap(e, "'%s'", path);
}

int events_merge(const char *const *paths, size_t count, const char *out, struct err *e) {
    struct arena a = {0};
    struct event_file *sources = arena_new(&a, struct event_file, count + 1);
    struct merge m = {.heap = arena_new(&a, struct event_file *, count + 1)};
    for (size_t i = 0; i < count; i++) {
        sources[i] = (struct event_file){.path = paths[i], .order = i};
        if (next_line(&sources[i]))
            m.heap[m.count++] = &sources[i];
    }
    int rc = write_file(&m, out, e);
    for (size_t i = 0; i < count; i++) {
        if (sources[i].left_out)
            log_warn("overlong events are left out", "file='%s' lines=%zu limit_bytes=%d",
                     sources[i].path, sources[i].left_out, EVENTS_MERGE_LINE_BYTES_MAX);
        strbuf_fini(&sources[i].text);
    }
    strbuf_fini(&m.out);
    arena_fini(&a);
    return rc;
}
