// SPDX-License-Identifier: Apache-2.0
// What a followed node says, line by line: events to the story, figures to metrics.jsonl, worker
// lines to the view.
#include "job/follow.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>

void follow_keep_error(struct follow *f, const struct err *e) {
    if (f->write_err.code)
        return;
    f->write_err = *e;
    log_error("cannot keep what the run says", "reason=\"%s\"", e->text);
}

static void append_line(struct follow *f, const char *path, const char *line, size_t len) {
    struct strbuf text = {0};
    struct err e = {0};
    strbuf_add(&text, line, len);
    strbuf_addc(&text, '\n');
    if (file_append(path, text.data, text.len, &e) < 0)
        follow_keep_error(f, &e);
    strbuf_fini(&text);
}

struct metric_line {
    struct follow_node *node;
    int rank;
    bool ours; // else another program that follows writes it down
};

static void on_metric(void *ctx, const struct metric *m, double value) {
    struct metric_line *at = ctx;
    struct follow *f = at->node->follow;
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_int(&j, "time_ms", clock_wall_ms());
    json_str(&j, "node", at->node->node->info->name);
    json_int(&j, "rank", at->rank);
    json_str(&j, "name", m->name);
    json_num(&j, "value", value);
    json_end(&j);
    if (at->ours)
        append_line(f, f->metrics_path, text.data, text.len);
    strbuf_fini(&text);
    if (f->view->on_metric)
        f->view->on_metric(f->ctx, at->node, at->rank, m->name, value);
}

static void take_event(struct follow_node *n, bool ours, const char *line, size_t len) {
    struct follow *f = n->follow;
    const struct json *event = NULL;
    const char *kind = story_add(&f->story, &f->scratch, n->index, line, len, &event);
    if (n->held.len && !f->replaying)
        follow_release(n, false);
    if (kind && !f->replaying) {
        if (ours)
            append_line(f, f->events_path, line, len);
        if (f->view->on_event && !story_is_known(&f->story, n->index, event))
            f->view->on_event(f->ctx, n, kind, event);
    }
    arena_reset(&f->scratch);
}

static void take_native(struct follow_node *n, bool ours, const char *line, size_t len) {
    struct follow *f = n->follow;
    struct json *record = NULL;
    struct err e = {0};
    if (json_parse(&f->scratch, line, len, &record, &e) == 0 && record->type == JSON_OBJECT) {
        if (!f->replaying && ours)
            append_line(f, f->metrics_path, line, len);
        if (f->view->on_native)
            f->view->on_native(f->ctx, record);
    }
    arena_reset(&f->scratch);
}

// ---- worker lines ------------------------------------------------------------------------------

// A line often arrives before the event that says which rank wrote it, since they are different
// files. Such lines wait, in order, until the event is here. Entry: struct held, then the bytes.
struct held {
    struct follow_file file;
    bool ours;
    size_t len;
};

static void give_line(struct follow_node *n, const struct held *h, int rank, const char *line) {
    struct follow *f = n->follow;
    struct metric_line at = {n, rank, h->ours};
    metric_match(&f->metrics, line, h->len, on_metric, &at);
    if (f->view->on_line)
        f->view->on_line(f->ctx, n, &h->file, rank, line, h->len);
}

void follow_release(struct follow_node *n, bool all) {
    struct strbuf held = n->held;
    n->held = (struct strbuf){0};
    for (size_t at = 0; at < held.len;) {
        struct held h;
        memcpy(&h, held.data + at, sizeof h);
        const char *line = held.data + at + sizeof h;
        int rank = story_rank_of(&n->follow->story, n->index, h.file.attempt, h.file.local_rank);
        if (rank >= 0 || all)
            give_line(n, &h, rank, line);
        else
            strbuf_add(&n->held, held.data + at, sizeof h + h.len);
        at += sizeof h + h.len;
    }
    strbuf_fini(&held);
}

static void take_worker_line(struct follow_node *n, const struct mirror_file *file,
                             const char *line, size_t len) {
    struct held h = {file->file, file->ours, len};
    int rank = story_rank_of(&n->follow->story, n->index, h.file.attempt, h.file.local_rank);
    if (rank >= 0 && n->held.len == 0) {
        give_line(n, &h, rank, line);
        return;
    }
    strbuf_add(&n->held, &h, sizeof h);
    strbuf_add(&n->held, line, len);
    follow_release(n, n->held.len > FOLLOW_HELD_BYTES_MAX);
}

void follow_take_line(void *ctx, const struct mirror_file *file, const char *line, size_t len) {
    struct follow_node *n = ctx;
    if (file->file.kind == FOLLOW_EVENTS)
        take_event(n, file->ours, line, len);
    else if (file->file.kind == FOLLOW_METRICS)
        take_native(n, file->ours, line, len);
    else if (file->file.kind == FOLLOW_STDOUT || file->file.kind == FOLLOW_STDERR)
        take_worker_line(n, file, line, len);
}
