// SPDX-License-Identifier: Apache-2.0
// Sizes of logs over time, until the lines have reached them.
#include "follow/line_times.h"

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mark {
    int64_t ms;
    uint64_t bytes;
};

struct log {
    uint64_t at; // where the last line ended
    struct mark *marks;
    size_t first, count, room; // marks[first] is the next one
};

struct line_times_worker {
    int attempt, local_rank;
    struct log logs[2]; // stdout and stderr
    struct line_times_worker *next;
};

// NULL: there are too many.
static struct line_times_worker *worker_of(struct line_times *t, const struct follow_file *file) {
    struct line_times_worker *w = t->newest;
    while (w && (w->attempt != file->attempt || w->local_rank != file->local_rank))
        w = w->next;
    if (w || t->workers == LINE_TIMES_WORKERS_MAX)
        return w;
    t->workers++;
    w = heap_alloc(sizeof *w);
    *w = (struct line_times_worker){file->attempt, file->local_rank, {{0}, {0}}, t->newest};
    t->newest = w;
    return w;
}

void line_times_fini(struct line_times *t) {
    while (t->newest) {
        struct line_times_worker *w = t->newest;
        t->newest = w->next;
        free(w->logs[0].marks);
        free(w->logs[1].marks);
        free(w);
    }
}

static void drop_marks(struct line_times *t, struct log *l) {
    t->marks -= l->count;
    l->first = l->count = 0;
}

// A size below the last one is of another machine with the node's name.
static void add_mark(struct line_times *t, struct log *l, int64_t ms, uint64_t bytes) {
    if (l->count && bytes < l->marks[l->count - 1].bytes) {
        drop_marks(t, l);
        l->at = 0;
    }
    if (bytes <= l->at || t->marks == LINE_TIMES_MARKS_MAX ||
        (l->count && bytes == l->marks[l->count - 1].bytes))
        return;
    t->marks++;
    array_grow(l->marks, &l->room, l->count + 1);
    l->marks[l->count++] = (struct mark){ms, bytes};
}

bool line_times_read(const char *line, size_t len, struct line_times_sizes *x) {
    char text[96];
    long long ms, out, err;
    if (len >= sizeof text)
        return false;
    memcpy(text, line, len);
    text[len] = '\0';
    if (sscanf(text, "%lld %lld %lld", &ms, &out, &err) != 3 || ms <= 0 || out < 0 || err < 0)
        return false;
    *x = (struct line_times_sizes){ms, (uint64_t)out, (uint64_t)err};
    return true;
}

void line_times_take(struct line_times *t, const struct follow_file *file, const char *line,
                     size_t len) {
    struct line_times_sizes x;
    struct line_times_worker *w = line_times_read(line, len, &x) ? worker_of(t, file) : NULL;
    if (w) {
        add_mark(t, &w->logs[0], x.ms, x.out);
        add_mark(t, &w->logs[1], x.ms, x.err);
    }
}

int64_t line_times_of(struct line_times *t, const struct follow_file *file, uint64_t end,
                      int64_t now_ms) {
    struct line_times_worker *w = worker_of(t, file);
    if (!w)
        return now_ms;
    struct log *l = &w->logs[file->kind == FOLLOW_STDERR];
    l->at = end;
    while (l->first < l->count && l->marks[l->first].bytes < end)
        l->first++;
    if (l->first == l->count) {
        drop_marks(t, l);
        return now_ms;
    }
    int64_t ms = l->marks[l->first].ms;
    return ms < now_ms ? ms : now_ms;
}
