// SPDX-License-Identifier: Apache-2.0
// Reads the files of one run.
#include "run/compare/compare.h"

#include "base/clock.h"
#include "base/name_map.h"
#include "run/inputs/input_record.h"
#include "sys/file.h"
#include "sys/file_lines.h"

#include <math.h>
#include <string.h>

const struct compare_result compare_results[COMPARE_RESULTS] = {
    {"images_per_s", METRIC_GOAL_MAX},
    {"final_loss", METRIC_GOAL_MIN},
    {"accuracy", METRIC_GOAL_MAX},
};

void compare_add_problem(struct context *s, struct compare_run *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(s->arena, fmt, ap);
    va_end(ap);
    if (c->problem_count < COMPARE_PROBLEMS_MAX)
        c->problems[c->problem_count++] = str_printable(s->arena, text, strlen(text));
}

// A JSON object in the run's folder; NULL: there is none, or it is damaged, which is a problem.
static const struct json *load_object(struct context *s, struct arena *a, struct compare_run *c,
                                      const char *name, size_t bytes_max) {
    const char *path = run_path(&s->cluster, &c->run, name);
    struct json *j = NULL;
    struct err e = {0};
    char *text = NULL;
    size_t len = 0;
    if (file_read(a, path, bytes_max, &text, &len, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            compare_add_problem(s, c, "%s", e.text);
        return NULL;
    }
    if (json_parse(a, text, len, &j, &e) == 0 && j->type == JSON_OBJECT)
        return j;
    compare_add_problem(s, c, "%s is damaged%s%s", name, e.text[0] ? ": " : "", e.text);
    return NULL;
}

static int count_of(const struct json *j, const char *key) {
    int64_t n = json_get_int(j, key, -1);
    return n < 0 || n > INT32_MAX ? -1 : (int)n;
}

// True when the run has printed metrics, so that there is a file of them.
static bool has_metrics(const struct json *summary) {
    const struct json *metrics = json_get(summary, "metrics");
    for (const struct json *m = metrics ? metrics->child : NULL; m; m = m->next)
        if (json_get_int(m, "count", 0) > 0)
            return true;
    return json_get(summary, "trainer") != NULL;
}

// ---- events -------------------------------------------------------------------------------------

struct event_reader {
    struct run_history *history;
    struct arena scratch;
    struct name_map nodes;
    compare_event_cb *on_event;
    void *ctx;
};

static void take_event(struct event_reader *r, const struct file_lines *in) {
    struct json *j = NULL;
    const struct json *event = NULL;
    struct err ignored = {0};
    if (json_parse(&r->scratch, in->line, in->len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        const size_t *node = name_map_find(&r->nodes, json_get_str(j, "node", ""));
        if (node)
            run_history_add(r->history, &r->scratch, *node, in->line, in->len, &event);
        if (r->on_event)
            r->on_event(r->ctx, event ? event : j);
    }
    arena_reset(&r->scratch);
}

int compare_load_events(struct context *s, const struct run *r, struct run_history *h,
                        compare_event_cb *on_event, void *ctx, struct err *e) {
    struct event_reader reader = {.history = h, .on_event = on_event, .ctx = ctx};
    struct file_lines in;
    struct arena *a = h->arena;
    const char *path = run_path(&s->cluster, r, "events.jsonl");
    run_history_init(h, a, r->nodes, r->node_count);
    if (file_lines_open(&in, path, COMPARE_EVENT_BYTES_MAX, COMPARE_EVENTS_BYTES_MAX, e) < 0)
        return -1;
    for (size_t i = 0; i < r->node_count; i++) {
        size_t *place = arena_new(a, size_t, 1);
        *place = i;
        if (!name_map_find(&reader.nodes, r->nodes[i]))
            name_map_put(&reader.nodes, r->nodes[i], place);
    }
    while (file_lines_next(&in))
        take_event(&reader, &in);
    name_map_fini(&reader.nodes);
    arena_fini(&reader.scratch);
    return file_lines_close(&in, 0, e);
}

// Reads from the events the facts that the summary would have.
static int read_history(struct context *s, struct compare_run *c, struct err *e) {
    struct arena a = {0};
    struct run_history h = {.arena = &a};
    int rc = compare_load_events(s, &c->run, &h, NULL, NULL, e);
    if (h.round >= 0) {
        c->restarts = h.restarts;
        c->world_size = h.world_size;
    }
    int64_t now = clock_wall_ms(), began = h.first_started_ms;
    if (c->active && began > 0 && began <= now)
        c->train_ms = now - began;
    arena_fini(&a);
    return rc;
}

// ---- all of it ----------------------------------------------------------------------------------

static const struct json *read_summary(struct context *s, struct arena *a, struct compare_run *c) {
    struct err e = {0};
    size_t problems = c->problem_count;
    const struct json *j = load_object(s, a, c, "summary.json", COMPARE_SUMMARY_BYTES_MAX);
    if (j && !str_eq(json_get_str(j, "run", ""), c->run.id)) {
        compare_add_problem(s, c, "summary.json is of another run");
        j = NULL;
    } else if (!j && !c->active && c->problem_count == problems) {
        compare_add_problem(s, c, "summary.json is not here");
    }
    c->has_metrics = j && has_metrics(j);
    if (j) {
        c->restarts = count_of(j, "restarts");
        c->world_size = count_of(j, "world_size");
    } else if (read_history(s, c, &e) < 0 && e.code != ERR_NOT_FOUND) {
        compare_add_problem(s, c, "%s", e.text);
    }
    for (size_t i = 0; j && i < COMPARE_RESULTS; i++) {
        double value = json_get_num(j, compare_results[i].name, (double)NAN);
        c->results[i] = isfinite(value) ? value : (double)NAN;
    }
    return j;
}

void compare_load_metrics(struct context *s, struct compare_run *c,
                          const struct option_list *wanted, metric_value_cb *on_value, void *ctx) {
    struct metric_figures *f = &c->metrics;
    struct err e = {0};
    metric_figures_init(f, s->arena, wanted);
    f->on_value = on_value;
    f->ctx = ctx;
    const char *path = run_path(&s->cluster, &c->run, "metrics.jsonl");
    if (metric_figures_read(f, path, c->active, &e) < 0 &&
        (c->has_metrics || e.code != ERR_NOT_FOUND))
        compare_add_problem(s, c, "%s", e.text);
    if (f->bad)
        compare_add_problem(s, c, "metrics.jsonl: %llu line%s no metrics, the first is line %llu",
                            (unsigned long long)f->bad, f->bad == 1 ? " has" : "s have",
                            (unsigned long long)f->first_bad);
    if (f->left_out)
        compare_add_problem(
            s, c, "metrics.jsonl: it has more than %d metrics, and later ones are left out",
            METRIC_FIGURES_MAX);
    metric_figures_end(f);
}

void compare_load(struct context *s, const struct run *r, struct arena *kept,
                  struct compare_run *out) {
    struct arena scratch = {0}, *a = kept ? kept : &scratch;
    *out = (struct compare_run){.run = *r,
                                .active = !run_is_over(r),
                                .restarts = -1,
                                .world_size = -1,
                                .train_ms = r->train_ms > 0 ? r->train_ms : -1};
    for (size_t i = 0; i < COMPARE_RESULTS; i++)
        out->results[i] = (double)NAN;
    const struct json *inputs = load_object(s, a, out, "inputs.json", INPUT_RECORD_BYTES_MAX);
    compare_settings_of(s->arena, r, inputs, &out->settings);
    const struct json *summary = read_summary(s, a, out);
    out->inputs = kept ? inputs : NULL;
    out->summary = kept ? summary : NULL;
    arena_fini(&scratch);
}

int compare_newest(struct context *s, struct run out[2], struct err *e) {
    struct run_walk walk;
    struct run r;
    size_t count = 0;
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    while (count < 2 && run_walk_next(&walk, &r))
        if (strcmp(r.state, "finished") == 0)
            out[1 - count++] = r;
    if (count < 2)
        return err_set(e, ERR_NOT_FOUND,
                       "cluster '%s' has %s; compare takes two runs or more (try: dtctl ps --all)",
                       s->cluster.name, count ? "one finished run" : "no finished run");
    return 0;
}
