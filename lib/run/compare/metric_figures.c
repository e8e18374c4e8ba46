// SPDX-License-Identifier: Apache-2.0
// Figures of the metrics of a run.
#include "run/compare/metric_figures.h"

#include "base/array.h"
#include "base/json.h"
#include "conf/metric_regex.h"
#include "sys/file_lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCRATCH_BYTES_MAX = 256 * 1024 };

// Metrics of the native trainer whose better end is known.
static const struct {
    const char *member;
    enum metric_goal goal;
} GOALS[] = {
    {"loss", METRIC_GOAL_MIN},
    {"acc1", METRIC_GOAL_MAX},
    {"acc5", METRIC_GOAL_MAX},
    {"images_per_s", METRIC_GOAL_MAX},
};

// Numbers of its records that say where the others come from.
static const char *const PLACES[] = {"step",    "epoch",  "epochs", "batch",
                                     "batches", "images", "time_ms"};

void metric_figures_init(struct metric_figures *f, struct arena *a,
                         const struct option_list *wanted) {
    *f = (struct metric_figures){.arena = a, .wanted = wanted};
}

void metric_figures_end(struct metric_figures *f) {
    arena_fini(&f->scratch);
    name_map_fini(&f->by_name);
}

const struct metric_figure *metric_figures_find(const struct metric_figures *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->items[i].name, name) == 0)
            return &f->items[i];
    return NULL;
}

static bool is_wanted(const struct metric_figures *f, const char *name) {
    const struct option_list *w = f->wanted;
    return !w || w->count == 0 || str_is_among(name, w->items, w->count);
}

// The metric of that name; NULL: it is not wanted, or there are too many. The map has places, since
// the array moves.
static struct metric_figure *find(struct metric_figures *f, const char *name,
                                  enum metric_goal goal) {
    size_t *place = name_map_find(&f->by_name, name);
    if (place)
        return &f->items[*place];
    if (!is_wanted(f, name))
        return NULL;
    if (f->count == METRIC_FIGURES_MAX) {
        f->left_out++;
        return NULL;
    }
    array_grow_in(f->arena, f->items, &f->room, f->count + 1);
    f->items[f->count] = (struct metric_figure){.name = arena_strdup(f->arena, name), .goal = goal};
    place = arena_new(f->arena, size_t, 1);
    *place = f->count;
    name_map_put(&f->by_name, f->items[f->count].name, place);
    return &f->items[f->count++];
}

static int64_t place_of(const struct json *line, const char *member) {
    int64_t n = json_get_int(line, member, -1);
    return n < 0 ? -1 : n;
}

static void add(struct metric_figures *f, struct metric_figure *m, double value,
                const struct json *line, bool is_record) {
    int64_t step = is_record ? place_of(line, "step") : -1;
    int64_t epoch = is_record ? place_of(line, "epoch") : -1;
    int64_t rank = place_of(line, "rank");
    if (f->on_value) {
        struct metric_value v = {.metric = (size_t)(m - f->items),
                                 .time_ms = is_record ? -1 : place_of(line, "time_ms"),
                                 .step = step,
                                 .epoch = epoch,
                                 .rank = rank,
                                 .value = value};
        f->on_value(f->ctx, f, &v);
    }
    if (!isfinite(value)) {
        m->not_finite++;
        return;
    }
    struct metric_point point = {value, ++m->count, step, epoch};
    if (m->count == 1 || (uint64_t)rank <= (uint64_t)m->rank) {
        m->last = point;
        m->rank = rank;
    }
    m->min = m->count == 1 || value < m->min.value ? point : m->min;
    m->max = m->count == 1 || value > m->max.value ? point : m->max;
}

static bool is_place(const char *member) {
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (strcmp(PLACES[i], member) == 0)
            return true;
    return false;
}

static enum metric_goal goal_of(const char *member) {
    for (size_t i = 0; i < sizeof GOALS / sizeof *GOALS; i++)
        if (strcmp(GOALS[i].member, member) == 0)
            return GOALS[i].goal;
    return METRIC_GOAL_NONE;
}

// A number; null stands for one that is not finite.
static bool number_of(const struct json *v, double *out) {
    *out = v->type == JSON_NULL ? (double)NAN : v->number;
    return v->type == JSON_NULL || v->type == JSON_INT || v->type == JSON_NUM;
}

static bool is_name(const char *name, size_t len) {
    struct err ignored = {0};
    return strlen(name) == len && metric_regex_check_name(name, &ignored) == 0;
}

// {"time_ms":…,"node":…,"rank":…,"name":"loss","value":0.5}
static bool take_value(struct metric_figures *f, const struct json *name, const struct json *line) {
    const struct json *value = json_get(line, "value");
    double number = 0;
    if (name->type != JSON_STR || !is_name(name->str, name->len) || !value ||
        !number_of(value, &number))
        return false;
    struct metric_figure *m = find(f, name->str, METRIC_GOAL_NONE);
    if (m)
        add(f, m, number, line, false);
    return true;
}

// {"event":"eval","step":…,"epoch":…,"loss":0.5,"acc1":…}
static bool take_record(struct metric_figures *f, const struct json *event,
                        const struct json *line) {
    enum { NAME_BYTES = 2 * METRIC_NAME_BYTES_MAX + 2 };
    if (event->type != JSON_STR || !is_name(event->str, event->len))
        return false;
    for (const struct json *v = line->child; v; v = v->next) {
        char name[NAME_BYTES];
        double number = 0;
        if (!number_of(v, &number) || !is_name(v->key, v->key_len) || is_place(v->key))
            continue;
        snprintf(name, sizeof name, "%s.%s", event->str, v->key);
        struct metric_figure *m = find(f, name, goal_of(v->key));
        if (m)
            add(f, m, number, line, true);
    }
    return true;
}

bool metric_figures_take(struct metric_figures *f, const char *line, size_t len, uint64_t number) {
    struct json *j = NULL;
    struct err ignored = {0};
    bool good = false;
    if (json_parse(&f->scratch, line, len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        const struct json *name = json_get(j, "name"), *event = json_get(j, "event");
        good = name ? take_value(f, name, j) : event && take_record(f, event, j);
    }
    if (!good && f->bad++ == 0)
        f->first_bad = number;
    if (f->scratch.total_bytes > SCRATCH_BYTES_MAX)
        arena_reset(&f->scratch);
    return good;
}

int metric_figures_read(struct metric_figures *f, const char *path, bool active, struct err *e) {
    struct file_lines in;
    if (file_lines_open(&in, path, METRIC_FIGURES_LINE_BYTES_MAX, METRIC_FIGURES_FILE_BYTES_MAX,
                        e) < 0)
        return -1;
    while (file_lines_next(&in)) {
        uint64_t bad = f->bad;
        if (in.len && !metric_figures_take(f, in.line, in.len, in.number) && in.unended && active)
            f->bad = bad; // it is still written
    }
    return file_lines_close(&in, 0, e);
}
