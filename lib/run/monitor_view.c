// SPDX-License-Identifier: Apache-2.0
// The output while a run is followed.
#include "run/monitor_view.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

void monitor_view_init(struct monitor_view *v, struct follow *f, const struct monitor_options *o) {
    *v = (struct monitor_view){.follow = f, .options = o};
    log_tail_open(&v->tail, o->tail_lines);
}

void monitor_view_close(struct monitor_view *v) {
    log_tail_close(&v->tail);
}

int64_t monitor_view_ended_ms(const struct follow *f) {
    int64_t last = 0;
    for (size_t i = 0; i < f->history.node_count; i++)
        if (f->history.nodes[i].ended_ms > last)
            last = f->history.nodes[i].ended_ms;
    return last ? last : clock_wall_ms();
}

// ---- worker lines ------------------------------------------------------------------------------

static void rank_json(struct json_out *j, int rank) {
    if (rank < 0)
        json_null(j, "rank");
    else
        json_int(j, "rank", rank);
}

static void line_json(struct monitor_view *v, const struct follow_line *line, const char *event) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, event);
    json_str(&j, "node", line->node->node->info->name);
    rank_json(&j, line->rank);
    json_str(&j, "stream", line->file->kind == FOLLOW_STDOUT ? "stdout" : "stderr");
    if (v->options->timestamps && line->written_ms)
        json_int(&j, "written_ms", line->written_ms);
    else if (v->options->timestamps)
        json_null(&j, "written_ms");
    json_strn(&j, "text", line->text, line->len);
    screen_event_end(v->follow->context->screen, &text, &j);
}

static bool is_shown(const struct monitor_view *v, const struct follow_line *line) {
    const struct monitor_options *o = v->options;
    return !o->quiet_lines && !v->muted &&
           (!o->only_node || strcmp(o->only_node, line->node->node->info->name) == 0) &&
           (o->only_rank < 0 || o->only_rank == line->rank);
}

// Formats "TIME [node:rank] ". A single rank needs no label; of the native trainer only rank 0
// prints.
static void make_label(const struct monitor_view *v, const struct follow_line *line,
                       char label[VIEW_LABEL_BYTES_MAX]) {
    const struct follow *f = v->follow;
    char time[CLOCK_ISO_BYTES];
    int n = 0;
    if (v->options->timestamps)
        n = snprintf(label, VIEW_LABEL_BYTES_MAX, "%-*s ", CLOCK_ISO_BYTES - 1,
                     line->written_ms ? clock_iso(time, line->written_ms) : "-");
    label[n] = '\0';
    if ((f->history.world_size != 1 || f->count > 1) && v->options->only_rank < 0 &&
        !(f->run->native && line->rank == 0))
        snprintf(label + n, VIEW_LABEL_BYTES_MAX - (size_t)n,
                 line->rank < 0 ? "[%s:local%d] " : "[%s:%d] ", line->node->node->info->name,
                 line->rank < 0 ? line->file->local_rank : line->rank);
}

// Replaces the tabs of the trainer's lines by spaces; the log keeps the original.
static void fitting_words(struct screen *screen, const char *line, size_t len) {
    struct strbuf text = {0};
    for (size_t i = 0; i < len; i++)
        strbuf_add(&text, line[i] == '\t' ? "  " : &line[i], line[i] == '\t' ? 2 : 1);
    screen_fit(&text, screen_columns(screen));
    screen_words(screen, "", strbuf_cstr(&text), text.len, false);
    strbuf_fini(&text);
}

static bool is_bar_of(const struct view_bar *b, const struct follow_line *line) {
    const struct follow_file *file = line->file;
    return b->line.node == line->node && b->file.kind == file->kind &&
           b->file.attempt == file->attempt && b->file.local_rank == file->local_rank;
}

static void show_line(void *ctx, const struct follow_line *line) {
    struct monitor_view *v = ctx;
    struct screen *screen = v->follow->context->screen;
    char label[VIEW_LABEL_BYTES_MAX];
    make_label(v, line, label);
    if (screen->style == SCREEN_JSON)
        line_json(v, line, "line");
    else if (v->follow->run->native && !label[0] && screen->style == SCREEN_TERMINAL)
        fitting_words(screen, line->text, line->len);
    else
        screen_words(screen, label, line->text, line->len,
                     line->file->kind == FOLLOW_STDERR && screen->style == SCREEN_PLAIN);
}

static void on_line(void *ctx, const struct follow_line *line) {
    struct monitor_view *v = ctx;
    if (is_bar_of(&v->bar, line))
        v->bar.line.node = NULL;
    if (is_shown(v, line) && v->options->tail)
        log_tail_add(&v->tail, line);
    else if (is_shown(v, line))
        show_line(v, line);
}

void monitor_view_tail(struct monitor_view *v) {
    struct screen *screen = v->follow->context->screen;
    screen_gather(screen);
    log_tail_give(&v->tail, show_line, v);
    screen_flush(screen);
}

// Only stores the newest update; on_tick shows it.
static void on_update(void *ctx, const struct follow_line *line) {
    struct monitor_view *v = ctx;
    struct view_bar *b = &v->bar;
    int64_t now = clock_mono_ms();
    bool other = b->line.node && b->line.rank < line->rank;
    if (!is_shown(v, line) || (other && now - b->at_ms < VIEW_BAR_STALE_MS))
        return;
    if (!b->line.node)
        b->shown_ms = now;
    b->file = *line->file;
    b->line = *line;
    b->line.file = &b->file;
    b->line.text = b->text;
    b->line.len = line->len < sizeof b->text ? line->len : sizeof b->text;
    b->at_ms = now;
    memcpy(b->text, line->text, b->line.len);
}

static void show_bar(struct monitor_view *v, int64_t now) {
    struct view_bar *b = &v->bar;
    struct screen *screen = v->follow->context->screen;
    char label[VIEW_LABEL_BYTES_MAX];
    if (!b->line.node || b->at_ms <= b->shown_ms || now - b->shown_ms < VIEW_BAR_PLAIN_MS)
        return;
    b->shown_ms = now;
    make_label(v, &b->line, label);
    if (screen->style == SCREEN_JSON)
        line_json(v, &b->line, "update");
    else
        screen_words(screen, label, b->text, b->line.len, b->file.kind == FOLLOW_STDERR);
}

static void show_kept(void *ctx, const struct mirror_file *f, const char *text, size_t len) {
    struct follow_node *n = ctx;
    struct follow_line line = follow_line_of(n, f, text, len, false);
    if (f->part != MIRROR_LINE || log_since_hides(&n->follow->since, n->index, &f->file, f->at))
        return;
    on_line(n->follow->ctx, &line);
}

void monitor_view_replay(struct monitor_view *v) {
    static const enum follow_file_kind kinds[] = {FOLLOW_LOG_TIMES, FOLLOW_STDOUT, FOLLOW_STDERR};
    struct screen *screen = v->follow->context->screen;
    screen_gather(screen);
    for (size_t i = 0; i < v->follow->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            struct err e = {0};
            struct follow_node *n = &v->follow->nodes[i];
            mirror_line_cb *cb = kinds[k] == FOLLOW_LOG_TIMES ? follow_take_line : show_kept;
            if (log_mirror_replay(&n->mirror, kinds[k], v->options->offline, cb, n, &e) < 0)
                log_warn("cannot show an earlier log", "reason=\"%s\"", e.text);
        }
    screen_flush(screen);
}

// ---- events ------------------------------------------------------------------------------------

static void remark_round(struct monitor_view *v, const struct json *j) {
    // Every node reports the round; print it once.
    struct screen *screen = v->follow->context->screen;
    if (json_get_int(j, "group_rank", 0) != 0)
        return;
    const struct run_history *s = &v->follow->history;
    screen_note(screen, "round %lld: %d rank%s on %d node%s%s%s",
                (long long)json_get_int(j, "round", 0), s->world_size, str_plural(s->world_size),
                s->nodes_in_round, str_plural(s->nodes_in_round),
                json_get_int(j, "round", 0) ? "; reason: " : "",
                json_get_int(j, "round", 0) ? json_get_str(j, "reason", "") : "");
}

static void remark_waiting(struct monitor_view *v, const struct json *j) {
    (void)j;
    if (v->follow->history.waiting)
        screen_note(v->follow->context->screen, "waiting for %s", v->follow->history.waiting);
}

static void remark_restart(struct monitor_view *v, const struct json *j) {
    screen_note(v->follow->context->screen, "starting again (%lld of %lld restarts): %s",
                (long long)json_get_int(j, "restarts", 0),
                (long long)json_get_int(j, "max_restarts", 0), json_get_str(j, "reason", ""));
}

static void remark_failure(struct monitor_view *v, const struct json *j) {
    const char *signal = json_get_str(j, "signal", NULL);
    char status[32];
    snprintf(status, sizeof status, "exit status %lld", (long long)json_get_int(j, "status", 1));
    screen_note(v->follow->context->screen, "rank %lld on %s failed: %s",
                (long long)json_get_int(j, "rank", -1), json_get_str(j, "peer", "?"),
                signal ? signal : status);
}

// Every node reports the notice; print it once.
static void remark_notice(struct monitor_view *v, const struct json *j) {
    const char *peer = json_get_str(j, "peer", "?"), *signal = json_get_str(j, "signal", NULL);
    int64_t left_ms = json_get_int(j, "left_ms", -1);
    char left[STR_HUMAN_BYTES_MAX];
    if (strcmp(peer, json_get_str(j, "node", "")) != 0)
        return;
    screen_note(v->follow->context->screen, "node %s ends %s%s (%s)%s%s", peer,
                left_ms < 0 ? "soon, maybe" : "in ", left_ms < 0 ? "" : str_human_ms(left, left_ms),
                json_get_str(j, "reason", "?"), signal ? "; every rank has got " : "",
                signal ? signal : "");
}

static void remark_lost(struct monitor_view *v, const struct json *j) {
    screen_note(v->follow->context->screen, "node %s is lost: %s", json_get_str(j, "peer", "?"),
                json_get_str(j, "reason", "it was silent"));
}

// Every node reports the new coordinator; show it once.
static void remark_leader(struct monitor_view *v, const struct json *j) {
    const char *peer = json_get_str(j, "peer", "?");
    if (str_eq(v->coordinator, peer))
        return;
    v->coordinator = arena_strdup(v->follow->context->arena, peer);
    screen_note(v->follow->context->screen, "node %s coordinates now", peer);
}

// Where /opt/ml is not mounted, programs see less; the first node stands for all.
static void remark_sagemaker(struct monitor_view *v, const struct json *j) {
    const char *tree = json_get_str(j, "tree", "");
    if (v->shown_tree || strcmp(tree, "mounted") == 0)
        return;
    v->shown_tree = true;
    screen_note(v->follow->context->screen, "/opt/ml %s on %s (%s)",
                strcmp(tree, "linked") == 0 ? "is a link" : "is only in variables",
                json_get_str(j, "node", "?"), json_get_str(j, "reason", ""));
}

static void remark_stream(struct monitor_view *v, const struct json *j) {
    const char *text = json_get_str(j, "text", NULL);
    char ms[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX];
    if (text)
        screen_note(v->follow->context->screen, "%s: %s", json_get_str(j, "node", "?"), text);
    else if (strcmp(json_get_str(j, "what", ""), "whole") == 0)
        screen_note(v->follow->context->screen, "input %s (%s) is on %s after %s",
                    json_get_str(j, "input", "?"),
                    str_human_bytes(size, (uint64_t)json_get_int(j, "bytes", 0)),
                    json_get_str(j, "node", "?"), str_human_ms(ms, json_get_int(j, "ms", 0)));
}

static const struct {
    const char *kind;
    void (*remark)(struct monitor_view *v, const struct json *j);
} REMARKS[] = {
    {"round", remark_round},     {"waiting", remark_waiting},     {"restart", remark_restart},
    {"failure", remark_failure}, {"node-lost", remark_lost},      {"coordinator", remark_leader},
    {"notice", remark_notice},   {"sagemaker", remark_sagemaker}, {"stream", remark_stream},
};

static void on_event(void *ctx, const struct follow_node *n, const char *kind,
                     const struct json *event) {
    struct monitor_view *v = ctx;
    struct screen *screen = v->follow->context->screen;
    if (strcmp(kind, "input-lacking") == 0)
        input_resend_node(&v->resend, n, event);
    if (strcmp(kind, "stream") == 0 && str_eq(json_get_str(event, "what", ""), "ends"))
        input_renew_node(&v->renew, n, event);
    if (screen->style == SCREEN_JSON) {
        struct strbuf text = {0};
        struct json_out j;
        screen_event(&text, &j, kind);
        json_str(&j, "node", n->node->info->name);
        for (const char *const *name = (const char *const[]){"round", "rank", "world_size",
                                                             "restarts", "status", "left_ms", NULL};
             *name; name++)
            if (json_get(event, *name))
                json_int(&j, *name, json_get_int(event, *name, 0));
        for (const char *const *name = (const char *const[]){"peer", "signal", "reason", NULL};
             *name; name++)
            if (json_get(event, *name))
                json_str(&j, *name, json_get_str(event, *name, NULL));
        screen_event_end(screen, &text, &j);
        return;
    }
    for (size_t i = 0; i < sizeof REMARKS / sizeof REMARKS[0]; i++)
        if (strcmp(REMARKS[i].kind, kind) == 0)
            REMARKS[i].remark(v, event);
}

// ---- figures and the live line -----------------------------------------------------------------

static void set_figure(struct monitor_view *v, const char *name, double value) {
    size_t i = 0;
    while (i < v->figure_count && strncmp(v->figures[i].name, name, VIEW_NAME_BYTES_MAX - 1) != 0)
        i++;
    if (i == VIEW_FIGURES_MAX)
        return;
    if (i == v->figure_count)
        snprintf(v->figures[v->figure_count++].name, VIEW_NAME_BYTES_MAX, "%s", name);
    v->figures[i].value = value;
}

static void on_metric(void *ctx, const struct follow_node *n, int rank, const char *name,
                      double value) {
    struct monitor_view *v = ctx;
    struct screen *screen = v->follow->context->screen;
    set_figure(v, name, value);
    if (screen->style != SCREEN_JSON)
        return;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "metric");
    json_str(&j, "node", n->node->info->name);
    rank_json(&j, rank);
    json_str(&j, "name", name);
    json_num(&j, "value", value);
    screen_event_end(screen, &text, &j);
}

static void set_training(struct monitor_view *v, const struct json *record) {
    struct view_training *t = &v->training;
    double batch = json_get_num(record, "batch", 0), batches = json_get_num(record, "batches", 0);
    int64_t epoch = json_get_int(record, "epoch", 0), epochs = json_get_int(record, "epochs", 0);
    if (!(batch >= 0 && batches >= 1 && batch <= batches) || epoch < 0 || epoch >= epochs)
        return;
    t->done = ((double)epoch + batch / batches) / (double)epochs;
    if (!t->known && !v->follow->replaying) {
        t->first_done = t->done;
        t->first_ms = clock_mono_ms();
    }
    t->known = !v->follow->replaying;
    t->epoch = epoch;
    t->epochs = epochs;
    t->loss = json_get_num(record, "loss", 0);
    t->top1 = json_get_num(record, "acc1", 0);
    t->images_per_s = json_get_num(record, "images_per_s", 0);
}

// A row of a measurement, whose text the trainer prints.
static void show_bench(const struct monitor_view *v, const struct json *record) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "bench");
    for (const struct json *member = record->child; member; member = member->next)
        if (!str_eq(member->key, "event"))
            json_value(&j, member);
    screen_event_end(v->follow->context->screen, &text, &j);
}

static void on_native(void *ctx, const struct json *record) {
    static const char *const shown[] = {"epoch", "step", "loss", "acc1", "images_per_s", NULL};
    struct monitor_view *v = ctx;
    if (str_eq(json_get_str(record, "event", ""), "bench")) {
        show_bench(v, record);
        return;
    }
    set_training(v, record);
    for (size_t i = 0; shown[i]; i++) {
        const struct json *value = json_get(record, shown[i]);
        if (value && (value->type == JSON_INT || value->type == JSON_NUM))
            set_figure(v, shown[i], value->number);
    }
}

// epoch 2/10 [#####           ]  31 %  loss 1.234  acc 56.1 %  4321 images/s  2:03 left
static void add_training(const struct view_training *t, int64_t now, struct strbuf *line) {
    static const char full[] = "################", none[] = "                ";
    char left[STR_HUMAN_BYTES_MAX];
    int cells = (int)(t->done * (sizeof full - 1));
    strbuf_addf(line, "epoch %lld/%lld [%.*s%s] %3d %%  loss %.4g  acc %.1f %%  %.0f images/s",
                (long long)t->epoch + 1, (long long)t->epochs, cells, full, none + cells,
                (int)(t->done * 100), t->loss, t->top1, t->images_per_s);
    double left_ms = (1 - t->done) * (double)(now - t->first_ms) / (t->done - t->first_done);
    if (t->done > t->first_done && left_ms < (double)VIEW_LEFT_MS_MAX)
        strbuf_addf(line, "  %s left", str_human_ms(left, (int64_t)left_ms));
}

static void on_lost(void *ctx, const struct follow_node *n, const struct err *e) {
    struct monitor_view *v = ctx;
    screen_note(v->follow->context->screen,
                "lost sight of %s; the run continues, trying again (%s)", n->node->info->name,
                e->text);
}

static void on_back(void *ctx, const struct follow_node *n) {
    struct monitor_view *v = ctx;
    screen_note(v->follow->context->screen, "%s is in sight again", n->node->info->name);
}

static void on_over(void *ctx, const struct follow_node *n) {
    struct monitor_view *v = ctx;
    results_drain_node(&v->drain, n);
}

static void add_run(const struct monitor_view *v, struct strbuf *line) {
    const struct follow *f = v->follow;
    char age[STR_HUMAN_BYTES_MAX];
    int started = 0, ended = 0;
    run_history_count(&f->history, &started, &ended);
    strbuf_addf(line, "%s  %s  ", f->run->id,
                str_human_ms(age, clock_wall_ms() - f->run->created_ms));
    if (f->history.round < 0)
        strbuf_adds(line, f->history.waiting ? "waiting for nodes" : "starting");
    else
        strbuf_addf(line, "%d of %d rank%s running", started - ended, f->history.world_size,
                    str_plural(f->history.world_size));
    for (size_t i = 0; i < v->figure_count; i++)
        strbuf_addf(line, "  %s %.4g", v->figures[i].name, v->figures[i].value);
}

static void add_row(struct strbuf *block, struct strbuf *line, int columns) {
    screen_fit(line, columns - 1);
    strbuf_add(block, strbuf_cstr(line), line->len);
    strbuf_addc(block, '\n');
    strbuf_clear(line);
}

static void draw(struct monitor_view *v, int64_t now) {
    struct follow *f = v->follow;
    struct screen *screen = f->context->screen;
    struct strbuf line = {0}, block = {0};
    char label[VIEW_LABEL_BYTES_MAX];
    size_t out = 0;
    for (size_t i = 0; i < f->count; i++)
        out += f->nodes[i].lost_ms != 0;
    if (v->bar.line.node) {
        make_label(v, &v->bar.line, label);
        strbuf_adds(&line, label);
        screen_foreign(&line, v->bar.text, v->bar.line.len);
        add_row(&block, &line, screen_columns(screen));
    }
    if (v->training.known)
        add_training(&v->training, now, &line);
    else
        add_run(v, &line);
    if (out)
        strbuf_addf(&line, "  %zu node%s out of sight", out, str_plural(out));
    add_row(&block, &line, screen_columns(screen));
    screen_live(screen, strbuf_cstr(&block));
    strbuf_fini(&block);
    strbuf_fini(&line);
}

static void on_tick(void *ctx) {
    struct monitor_view *v = ctx;
    struct follow *f = v->follow;
    struct screen *screen = f->context->screen;
    int64_t now = clock_mono_ms();
    if (screen->broken && v->options->reader)
        f->leave = true; // the reader is gone, as with `dtctl logs -f | head`
    if (v->muted)
        return;
    if (screen->style != SCREEN_TERMINAL) {
        show_bar(v, now);
    } else if (now - v->drawn_ms >= VIEW_DRAW_MS) {
        v->drawn_ms = now;
        draw(v, now);
    }
}

const struct follow_view monitor_view = {
    .on_line = on_line,
    .on_update = on_update,
    .on_event = on_event,
    .on_metric = on_metric,
    .on_native = on_native,
    .on_lost = on_lost,
    .on_back = on_back,
    .on_over = on_over,
    .on_tick = on_tick,
};
