// SPDX-License-Identifier: Apache-2.0
// Reads the files of one run.
#include "run/compare/compare.h"

#include "base/clock.h"
#include "base/name_map.h"
#include "follow/run_history.h"
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

__attribute__((format(printf, 3, 4))) static void
add_problem(struct context *s, struct compare_run *c, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(s->arena, fmt, ap);
    va_end(ap);
    if (c->problem_count < COMPARE_PROBLEMS_MAX)
        c->problems[c->problem_count++] = str_printable(s->arena, text, strlen(text));
}

// A JSON object in the run's folder; NULL: there is none, or it is damaged, which is a problem.
static const struct json *read_object(struct context *s, struct arena *a, struct compare_run *c,
                                      const char *name, size_t bytes_max) {
    const char *path = run_path(&s->cluster, &c->run, name);
    struct json *j = NULL;
    struct err e = {0};
    char *text = NULL;
    size_t len = 0;
    if (file_read(a, path, bytes_max, &text, &len, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            add_problem(s, c, "%s", e.text);
        return NULL;
    }
    if (json_parse(a, text, len, &j, &e) == 0 && j->type == JSON_OBJECT)
        return j;
    add_problem(s, c, "%s is damaged%s%s", name, e.text[0] ? ": " : "", e.text);
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

// ---- events of a run without a summary ----------------------------------------------------------

static void take_event(struct run_history *h, struct arena *scratch, const struct name_map *nodes,
                       const struct file_lines *in) {
    struct json *j = NULL;
    const struct json *event = NULL;
    struct err ignored = {0};
    if (json_parse(scratch, in->line, in->len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        const size_t *node = name_map_find(nodes, json_get_str(j, "node", ""));
        if (node)
            run_history_add(h, scratch, *node, in->line, in->len, &event);
    }
    arena_reset(scratch);
}

static int read_events(struct context *s, struct compare_run *c, struct err *e) {
    struct run *r = &c->run;
    struct arena a = {0}, scratch = {0};
    struct run_history h;
    struct name_map nodes = {0};
    struct file_lines in;
    const char *path = run_path(&s->cluster, r, "events.jsonl");
    if (file_lines_open(&in, path, COMPARE_EVENT_BYTES_MAX, COMPARE_EVENTS_BYTES_MAX, e) < 0)
        return -1;
    run_history_init(&h, &a, r->nodes, r->node_count);
    for (size_t i = 0; i < r->node_count; i++) {
        size_t *place = arena_new(&a, size_t, 1);
        *place = i;
        if (!name_map_find(&nodes, r->nodes[i]))
            name_map_put(&nodes, r->nodes[i], place);
    }
    while (file_lines_next(&in))
        take_event(&h, &scratch, &nodes, &in);
    if (h.round >= 0) {
        c->restarts = h.restarts;
        c->world_size = h.world_size;
    }
    int64_t now = clock_wall_ms(), began = h.all_started_ms;
    if (c->active && began > 0 && began <= now)
        c->train_ms = now - began;
    name_map_fini(&nodes);
    arena_fini(&scratch);
    arena_fini(&a);
    return file_lines_close(&in, 0, e);
}

// ---- all of it ----------------------------------------------------------------------------------

// True when a file of metrics is expected.
static bool read_summary(struct context *s, struct compare_run *c) {
    struct arena a = {0};
    struct err e = {0};
    size_t problems = c->problem_count;
    const struct json *j = read_object(s, &a, c, "summary.json", COMPARE_SUMMARY_BYTES_MAX);
    if (j && !str_eq(json_get_str(j, "run", ""), c->run.id)) {
        add_problem(s, c, "summary.json is of another run");
        j = NULL;
    } else if (!j && !c->active && c->problem_count == problems) {
        add_problem(s, c, "summary.json is not here");
    }
    bool expected = j && has_metrics(j);
    if (j) {
        c->restarts = count_of(j, "restarts");
        c->world_size = count_of(j, "world_size");
    } else if (read_events(s, c, &e) < 0 && e.code != ERR_NOT_FOUND) {
        add_problem(s, c, "%s", e.text);
    }
    for (size_t i = 0; j && i < COMPARE_RESULTS; i++) {
        double value = json_get_num(j, compare_results[i].name, (double)NAN);
        c->results[i] = isfinite(value) ? value : (double)NAN;
    }
    arena_fini(&a);
    return expected;
}

static void read_metrics(struct context *s, struct compare_run *c, const struct option_list *wanted,
                         bool expected) {
    struct metric_figures *f = &c->metrics;
    struct err e = {0};
    metric_figures_init(f, s->arena, wanted);
    const char *path = run_path(&s->cluster, &c->run, "metrics.jsonl");
    if (metric_figures_read(f, path, c->active, &e) < 0 && (expected || e.code != ERR_NOT_FOUND))
        add_problem(s, c, "%s", e.text);
    if (f->bad)
        add_problem(s, c, "metrics.jsonl: %llu line%s no metrics, the first is line %llu",
                    (unsigned long long)f->bad, f->bad == 1 ? " has" : "s have",
                    (unsigned long long)f->first_bad);
    if (f->left_out)
        add_problem(s, c, "metrics.jsonl: it has more than %d metrics, and later ones are left out",
                    METRIC_FIGURES_MAX);
    metric_figures_end(f);
}

void compare_load(struct context *s, const struct run *r, const struct option_list *wanted,
                  struct compare_run *out) {
    struct arena a = {0};
    *out = (struct compare_run){.run = *r,
                                .active = !run_is_over(r),
                                .restarts = -1,
                                .world_size = -1,
                                .train_ms = r->train_ms > 0 ? r->train_ms : -1};
    for (size_t i = 0; i < COMPARE_RESULTS; i++)
        out->results[i] = (double)NAN;
    const struct json *inputs = read_object(s, &a, out, "inputs.json", INPUT_RECORD_BYTES_MAX);
    compare_settings_of(s->arena, r, inputs, &out->settings);
    arena_fini(&a);
    read_metrics(s, out, wanted, read_summary(s, out));
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
