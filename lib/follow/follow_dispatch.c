// SPDX-License-Identifier: Apache-2.0
// Distributes the lines of a followed node: events to the history, metrics to metrics.jsonl, worker
// lines to the view.
#include "follow/follow.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>

void follow_keep_error(struct follow *f, const struct err *e) {
    if (f->write_err.code)
        return;
    f->write_err = *e;
    log_error("cannot write the run's output", "reason=\"%s\"", e->text);
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
    int64_t time_ms;
    int rank;
    bool ours; // else another program that follows has written it
};

static void on_metric(void *ctx, const struct metric *m, double value) {
    struct metric_line *at = ctx;
    struct follow *f = at->node->follow;
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_int(&j, "time_ms", at->time_ms);
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
    const char *kind = run_history_add(&f->history, &f->scratch, n->index, line, len, &event);
    if (kind && !f->replaying) {
        if (ours)
            append_line(f, f->events_path, line, len);
        if (f->view->on_event && !run_history_is_known(&f->history, n->index, event))
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

static bool is_timed(const struct follow *f) {
    return f->timed || f->metrics.count > 0;
}

struct follow_line follow_line_of(struct follow_node *n, const struct mirror_file *file,
                                  const char *text, size_t len, bool is_new) {
    struct follow *f = n->follow;
    const struct follow_file *from = &file->file;
    int rank = run_history_rank_of(&f->history, n->index, from->attempt, from->local_rank);
    struct follow_line x = {.node = n, .file = from, .rank = rank, .text = text, .len = len};
    if (!is_timed(f))
        return x;
    int64_t latest_ms = is_new ? clock_wall_ms() : INT64_MAX;
    int64_t ms = line_times_of(&n->times, from, file->at - file->begin, latest_ms);
    x.written_ms = ms == INT64_MAX ? 0 : ms;
    return x;
}

static void take_worker_line(struct follow_node *n, const struct mirror_file *file,
                             const char *line, size_t len) {
    struct follow *f = n->follow;
    if (f->events_only)
        return;
    const struct follow_file *from = &file->file;
    struct follow_line x = follow_line_of(n, file, line, len, true);
    int rank = x.rank;
    struct metric_line at = {n, x.written_ms, rank, file->ours};
    if (file->part != MIRROR_PARTIAL)
        metrics_match(&f->metrics, rank, line, len, on_metric, &at);
    if (rank == 0 && file->ours && file->part == MIRROR_LINE)
        metrics_count_line(&f->metrics, line, len, file->at <= len + 1);
    if (log_since_hides(&f->since, n->index, from, file->at))
        return;
    if (file->part != MIRROR_LINE) {
        if (f->view->on_update)
            f->view->on_update(f->ctx, &x);
        return;
    }
    if (f->view->on_line)
        f->view->on_line(f->ctx, &x);
}

void follow_take_line(void *ctx, const struct mirror_file *file, const char *line, size_t len) {
    struct follow_node *n = ctx;
    if (file->file.kind == FOLLOW_EVENTS)
        take_event(n, file->ours, line, len);
    else if (file->file.kind == FOLLOW_METRICS)
        take_native(n, file->ours, line, len);
    else if (file->file.kind == FOLLOW_STDOUT || file->file.kind == FOLLOW_STDERR)
        take_worker_line(n, file, line, len);
    else if (file->file.kind == FOLLOW_LOG_TIMES) {
        log_since_take(&n->follow->since, n->index, &file->file, line, len);
        if (is_timed(n->follow))
            line_times_take(&n->times, &file->file, line, len);
    }
}
