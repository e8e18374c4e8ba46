// SPDX-License-Identifier: Apache-2.0
// Runs side by side, as text and as JSON.
#include "compare_show.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

// The better end of a metric, if all runs that have the metric agree.
static enum metric_goal goal_of(const struct comparison *c, const char *metric) {
    enum metric_goal goal = METRIC_GOAL_NONE;
    bool seen = false;
    for (size_t i = 0; i < c->count; i++) {
        const struct metric_figure *m = metric_figures_find(&c->runs[i].metrics, metric);
        if (m && seen && m->goal != goal)
            return METRIC_GOAL_NONE;
        goal = m ? m->goal : goal;
        seen |= m != NULL;
    }
    return goal;
}

// ---- tables -------------------------------------------------------------------------------------

static const char **cells_new(const struct comparison *c) {
    const char **cells = arena_new(c->context->arena, const char *, c->count + 1);
    for (size_t i = 0; i < c->count; i++)
        cells[i] = "-";
    return cells;
}

// "*" behind the best of the values, where there are two or more and a better end is known.
static void mark_best(const struct comparison *c, enum metric_goal goal, const double *values,
                      const char **cells) {
    double best = (double)NAN;
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (isnan(values[i]))
            continue;
        bool better = goal == METRIC_GOAL_MIN ? values[i] < best : values[i] > best;
        best = count++ == 0 || better ? values[i] : best;
    }
    for (size_t i = 0; goal != METRIC_GOAL_NONE && count > 1 && i < c->count; i++)
        if (values[i] == best)
            cells[i] = arena_printf(c->context->arena, "%s *", cells[i]);
}

static const char *point_text(struct arena *a, const struct metric_point *p) {
    const char *value = arena_printf(a, "%.6g", p->value);
    if (p->step < 0 && p->epoch < 0)
        return arena_printf(a, "%s (value %llu)", value, (unsigned long long)p->number);
    if (p->epoch < 0)
        return arena_printf(a, "%s (step %lld)", value, (long long)p->step);
    if (p->step < 0)
        return arena_printf(a, "%s (epoch %lld)", value, (long long)p->epoch);
    return arena_printf(a, "%s (step %lld, epoch %lld)", value, (long long)p->step,
                        (long long)p->epoch);
}

static const struct {
    const char *name;
    size_t offset;
    enum metric_goal marked; // NONE: with either goal
} POINTS[] = {
    {"last", offsetof(struct metric_figure, last), METRIC_GOAL_NONE},
    {"min", offsetof(struct metric_figure, min), METRIC_GOAL_MIN},
    {"max", offsetof(struct metric_figure, max), METRIC_GOAL_MAX},
};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

static const struct metric_point *point_of(const struct metric_figure *m, size_t which) {
    return (const struct metric_point *)((const char *)m + POINTS[which].offset);
}

static void add_metric(const struct comparison *c, struct side_table *t, const char *name) {
    struct arena *a = c->context->arena;
    enum metric_goal goal = goal_of(c, name);
    double *values = arena_new(a, double, c->count);
    for (size_t p = 0; p < POINT_COUNT; p++) {
        const char **cells = cells_new(c);
        for (size_t i = 0; i < c->count; i++) {
            const struct metric_figure *m = metric_figures_find(&c->runs[i].metrics, name);
            values[i] = m && m->count ? point_of(m, p)->value : (double)NAN;
            if (m && m->count)
                cells[i] = point_text(a, point_of(m, p));
            if (m && p == 0 && m->not_finite)
                cells[i] = arena_printf(a, "%s, %llu not finite", cells[i],
                                        (unsigned long long)m->not_finite);
        }
        bool marks = POINTS[p].marked == METRIC_GOAL_NONE || POINTS[p].marked == goal;
        mark_best(c, marks ? goal : METRIC_GOAL_NONE, values, cells);
        side_table_add(t, arena_printf(a, "%s %s", name, POINTS[p].name), cells);
    }
}

static const char *number_text(struct arena *a, int n) {
    return n < 0 ? "-" : arena_printf(a, "%d", n);
}

static void add_figures(const struct comparison *c, struct side_table *t) {
    struct arena *a = c->context->arena;
    const char **states = cells_new(c), **exits = cells_new(c), **times = cells_new(c);
    const char **ranks = cells_new(c), **restarts = cells_new(c), **nodes = cells_new(c);
    for (size_t i = 0; i < c->count; i++) {
        const struct compare_run *r = &c->runs[i];
        const char *far = r->active ? " so far" : "";
        char age[STR_HUMAN_BYTES_MAX];
        states[i] =
            str_printable(a, arena_printf(a, "%s%s", r->run.state, r->active ? ", not over" : ""),
                          strlen(r->run.state) + (r->active ? strlen(", not over") : 0));
        exits[i] = r->active ? "-" : number_text(a, r->run.exit_status);
        if (r->train_ms >= 0)
            times[i] = arena_printf(a, "%s%s", str_human_ms(age, r->train_ms), far);
        nodes[i] = arena_printf(a, "%zu", r->run.node_count);
        ranks[i] = number_text(a, r->world_size);
        restarts[i] = number_text(a, r->restarts);
    }
    side_table_add(t, "state", states);
    side_table_add(t, "exit status", exits);
    side_table_add(t, "train time", times);
    side_table_add(t, "nodes", nodes);
    side_table_add(t, "ranks", ranks);
    side_table_add(t, "restarts", restarts);
    for (size_t k = 0; k < COMPARE_RESULTS; k++) {
        double *values = arena_new(a, double, c->count);
        const char **cells = cells_new(c);
        bool any = false;
        for (size_t i = 0; i < c->count; i++) {
            values[i] = c->runs[i].results[k];
            any |= !isnan(values[i]);
            if (!isnan(values[i]))
                cells[i] = arena_printf(a, "%.6g", values[i]);
        }
        mark_best(c, compare_results[k].goal, values, cells);
        if (any)
            side_table_add(t, compare_results[k].name, cells);
    }
}

static void show_runs(const struct comparison *c, const char *const *heads) {
    struct screen *out = c->context->screen;
    char when[CLOCK_ISO_BYTES];
    screen_out(out, "%-4s %-44s %-20s\n", "RUN", "ID", "MADE");
    for (size_t i = 0; i < c->count; i++) {
        const struct compare_run *r = &c->runs[i];
        screen_out(out, "%-4s %-44s %.19sZ\n", heads[i], r->run.id,
                   clock_iso(when, r->run.created_ms));
        for (size_t k = 0; k < r->problem_count; k++)
            screen_out(out, "     %s\n", r->problems[k]);
        if (r->active)
            screen_out(out, "     not over, as far as this side knows (try: dtctl logs -f %s)\n",
                       r->run.id);
        else if (!str_eq(r->run.state, "finished"))
            screen_out(out, "     it is '%s', not finished\n",
                       str_printable(c->context->arena, r->run.state, strlen(r->run.state)));
    }
    for (size_t i = 0; i < c->left_count; i++)
        screen_out(
            out, "%-4s %-44s left out: %s\n", "-", c->left[i].name,
            str_printable(c->context->arena, c->left[i].why.text, strlen(c->left[i].why.text)));
}

void compare_show_tables(const struct comparison *c, const struct compared_settings *s,
                         struct side_table *settings, struct side_table *figures) {
    struct arena *a = c->context->arena;
    const char **heads = arena_new(a, const char *, c->count + 1);
    for (size_t i = 0; i < c->count; i++)
        heads[i] = arena_printf(a, "%zu", i + 1);
    *figures =
        (struct side_table){.arena = a, .title = "FIGURE", .heads = heads, .count = c->count};
    *settings = *figures;
    settings->title = "SETTING";
    for (int differing = 1; differing >= 0; differing--)
        for (size_t r = 0; r < s->count && (differing || c->flags->all); r++) {
            for (size_t i = 0; s->rows[r].differs == differing && i < c->count; i++)
                s->rows[r].values[i] = s->rows[r].values[i] ? s->rows[r].values[i] : "-";
            if (s->rows[r].differs == differing)
                side_table_add(settings, s->rows[r].name, s->rows[r].values);
        }
    add_figures(c, figures);
    for (size_t i = 0; i < c->metric_count; i++)
        add_metric(c, figures, c->metrics[i]);
}

void compare_show_text(const struct comparison *c, const struct compared_settings *s) {
    struct screen *out = c->context->screen;
    struct side_table settings, figures;
    compare_show_tables(c, s, &settings, &figures);
    show_runs(c, figures.heads);
    screen_out(out, "\n");
    side_table_print(&settings, out);
    screen_out(out, "%zu setting%s equal%s\n\n", s->equal, s->equal == 1 ? " is" : "s are",
               s->equal && !c->flags->all ? " (--all shows them)" : "");
    side_table_print(&figures, out);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void json_point(struct json_out *j, const char *key, const struct metric_point *p) {
    json_object(j, key);
    json_num(j, "value", p->value);
    json_int(j, "number", (int64_t)p->number);
    if (p->step >= 0)
        json_int(j, "step", p->step);
    if (p->epoch >= 0)
        json_int(j, "epoch", p->epoch);
    json_end(j);
}

// Whether the run has the best of the best values of all runs.
static bool is_best(const struct comparison *c, const struct metric_figure *m,
                    enum metric_goal goal) {
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct metric_figure *x = metric_figures_find(&c->runs[i].metrics, m->name);
        if (!x || !x->count)
            continue;
        count++;
        if (goal == METRIC_GOAL_MIN ? x->min.value < m->min.value : x->max.value > m->max.value)
            return false;
    }
    return count > 1 && m->count;
}

static void json_metrics(const struct comparison *c, const struct compare_run *r,
                         struct json_out *j) {
    static const char *const goals[] = {NULL, "min", "max"}; // enum metric_goal
    json_object(j, "metrics");
    for (size_t k = 0; k < c->metric_count; k++) {
        const struct metric_figure *m = metric_figures_find(&r->metrics, c->metrics[k]);
        if (!m)
            continue;
        enum metric_goal goal = goal_of(c, m->name);
        json_object(j, m->name);
        json_int(j, "count", (int64_t)m->count);
        json_int(j, "not_finite", (int64_t)m->not_finite);
        json_str(j, "goal", goals[goal]);
        if (goal != METRIC_GOAL_NONE)
            json_bool(j, "best", is_best(c, m, goal));
        for (size_t p = 0; m->count && p < POINT_COUNT; p++)
            json_point(j, POINTS[p].name, point_of(m, p));
        json_end(j);
    }
    json_end(j);
}

static void json_known(struct json_out *j, const char *key, int64_t n) {
    if (n < 0)
        json_null(j, key);
    else
        json_int(j, key, n);
}

static void json_run(const struct comparison *c, const struct compare_run *r) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "compared");
    json_str(&j, "run", r->run.id);
    json_str(&j, "name", r->run.name);
    json_str(&j, "state", r->run.state);
    json_bool(&j, "active", r->active);
    json_known(&j, "exit_status", r->active ? -1 : r->run.exit_status);
    json_int(&j, "created_ms", r->run.created_ms);
    json_known(&j, "train_ms", r->train_ms);
    json_int(&j, "nodes", (int64_t)r->run.node_count);
    json_known(&j, "world_size", r->world_size);
    json_known(&j, "restarts", r->restarts);
    json_object(&j, "settings");
    for (size_t i = 0; i < r->settings.count; i++)
        json_str(&j, r->settings.items[i].name, r->settings.items[i].value);
    json_end(&j);
    json_object(&j, "results");
    for (size_t i = 0; i < COMPARE_RESULTS; i++)
        if (!isnan(r->results[i]))
            json_num(&j, compare_results[i].name, r->results[i]);
    json_end(&j);
    json_metrics(c, r, &j);
    json_array(&j, "problems");
    for (size_t i = 0; i < r->problem_count; i++)
        json_str(&j, NULL, r->problems[i]);
    json_end(&j);
    screen_event_end(c->context->screen, &text, &j);
}

static void json_left(const struct comparison *c, const struct left_out *l) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "left-out");
    json_str(&j, "run", l->name);
    json_str(&j, "code", err_name(l->why.code));
    json_str(&j, "text", l->why.text);
    screen_event_end(c->context->screen, &text, &j);
}

void compare_show_json(const struct comparison *c, const struct compared_settings *s) {
    struct strbuf text = {0};
    struct json_out j;
    for (size_t i = 0; i < c->count; i++)
        json_run(c, &c->runs[i]);
    for (size_t i = 0; i < c->left_count; i++)
        json_left(c, &c->left[i]);
    screen_event(&text, &j, "differences");
    json_array(&j, "runs");
    for (size_t i = 0; i < c->count; i++)
        json_str(&j, NULL, c->runs[i].run.id);
    json_end(&j);
    json_array(&j, "settings");
    for (size_t r = 0; r < s->count; r++) {
        if (!s->rows[r].differs)
            continue;
        json_object(&j, NULL);
        json_str(&j, "name", s->rows[r].name);
        json_array(&j, "values");
        for (size_t i = 0; i < c->count; i++)
            json_str(&j, NULL, s->rows[r].values[i]);
        json_end(&j);
        json_end(&j);
    }
    json_end(&j);
    json_int(&j, "equal", (int64_t)s->equal);
    screen_event_end(c->context->screen, &text, &j);
}
