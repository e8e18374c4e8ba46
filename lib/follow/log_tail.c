// SPDX-License-Identifier: Apache-2.0
// The last lines of every rank's output.
//
// A stream is one buffer of headers and lines. Dropped lines at the front are skipped. The buffer
// is compacted when half of it is skipped, so the cost per line is constant.
#include "follow/log_tail.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

struct tail_head {
    struct follow_file file;
    int rank;
    int64_t written_ms;
    size_t len;
};

// All attempts of a worker share its stream.
struct tail_stream {
    const struct follow_node *node;
    struct follow_file file; // kind and local rank
    struct strbuf text;
    size_t begin, lines;
    struct tail_stream *next;
};

void log_tail_open(struct tail *t, size_t lines_max) {
    *t = (struct tail){.lines_max = lines_max};
}

void log_tail_close(struct tail *t) {
    while (t->streams) {
        struct tail_stream *s = t->streams;
        t->streams = s->next;
        strbuf_fini(&s->text);
        free(s);
    }
    *t = (struct tail){0};
}

static bool is_of(const struct tail_stream *s, const struct follow_node *n,
                  const struct follow_file *file) {
    return s->node == n && s->file.kind == file->kind && s->file.local_rank == file->local_rank;
}

// Checks the last stream first: consecutive lines mostly belong to one stream.
static struct tail_stream *find(struct tail *t, const struct follow_node *n,
                                const struct follow_file *file) {
    if (t->last && is_of(t->last, n, file))
        return t->last;
    struct tail_stream *s = t->streams;
    while (s && !is_of(s, n, file))
        s = s->next;
    if (!s) {
        s = heap_alloc(sizeof *s);
        s->node = n;
        s->file = *file;
        s->next = t->streams;
        t->streams = s;
        t->stream_count++;
    }
    t->last = s;
    return s;
}

static void drop_first(struct tail *t, struct tail_stream *s) {
    struct tail_head head;
    memcpy(&head, s->text.data + s->begin, sizeof head);
    s->begin += sizeof head + head.len;
    s->lines--;
    t->bytes -= sizeof head + head.len;
    if (s->begin > s->text.len / 2) {
        strbuf_consume(&s->text, s->begin);
        s->begin = 0;
    }
}

void log_tail_add(struct tail *t, const struct follow_line *line) {
    if (t->lines_max == 0)
        return;
    struct tail_stream *s = find(t, line->node, line->file);
    struct tail_head head = {*line->file, line->rank, line->written_ms, line->len};
    strbuf_add(&s->text, &head, sizeof head);
    strbuf_add(&s->text, line->text, line->len);
    s->lines++;
    t->bytes += sizeof head + line->len;
    bool full = t->bytes > TAIL_BYTES_MAX;
    t->cut |= full && s->lines <= t->lines_max;
    while (s->lines > t->lines_max || (t->bytes > TAIL_BYTES_MAX && s->lines > 1))
        drop_first(t, s);
}

static int compare(const void *x, const void *y) {
    const struct tail_stream *a = *(const struct tail_stream *const *)x,
                             *b = *(const struct tail_stream *const *)y;
    if (a->node->index != b->node->index)
        return a->node->index < b->node->index ? -1 : 1;
    if (a->file.local_rank != b->file.local_rank)
        return a->file.local_rank < b->file.local_rank ? -1 : 1;
    return (int)a->file.kind - (int)b->file.kind;
}

void log_tail_give(struct tail *t, log_tail_show *show, void *ctx) {
    struct arena a = {0};
    struct tail_stream **all = arena_new(&a, struct tail_stream *, t->stream_count + 1);
    size_t count = 0;
    for (struct tail_stream *s = t->streams; s; s = s->next)
        all[count++] = s;
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0; i < count; i++)
        for (size_t at = all[i]->begin; at < all[i]->text.len;) {
            struct tail_head head;
            memcpy(&head, all[i]->text.data + at, sizeof head);
            show(ctx, &(struct follow_line){.node = all[i]->node,
                                            .file = &head.file,
                                            .rank = head.rank,
                                            .written_ms = head.written_ms,
                                            .text = all[i]->text.data + at + sizeof head,
                                            .len = head.len});
            at += sizeof head + head.len;
        }
    arena_fini(&a);
    if (t->cut)
        log_warn("too many last lines to keep; older lines were dropped", "limit_bytes=%d",
                 TAIL_BYTES_MAX);
    log_tail_close(t);
}
