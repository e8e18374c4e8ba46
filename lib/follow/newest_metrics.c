// SPDX-License-Identifier: Apache-2.0
// Keeps the newest value of each metric of a run.
#include "follow/newest_metrics.h"

#include "base/json.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

static const char *const RECORD_NAMES[NEWEST_RECORD_NAMES] = {"epoch", "step", "loss", "acc1",
                                                              "images_per_s"};

void newest_metrics_open(struct newest_metrics *m, struct arena *a, const struct option_map *all) {
    *m = (struct newest_metrics){0};
    for (size_t i = 0; i < all->count; i++) {
        struct err e = {0};
        if (metrics_add(&m->set, a, all->items[i].name, all->items[i].value, &e) < 0)
            log_warn("cannot use a metric", "reason=\"%s\"", e.text);
    }
}

void newest_metrics_close(struct newest_metrics *m) {
    metrics_fini(&m->set);
}

static void ignore_value(void *ctx, const struct metric *m, double value) {
    (void)ctx, (void)m, (void)value; // the set has it
}

void newest_metrics_lines(struct newest_metrics *m, const char *text, size_t len) {
    const char *line = text;
    for (const char *p = text; p < text + len; p++) {
        if (*p != '\n' && *p != '\r')
            continue;
        if (p > line)
            metrics_match(&m->set, 0, line, (size_t)(p - line), ignore_value, NULL);
        line = p + 1;
    }
}

// ---- steps --------------------------------------------------------------------------------------

struct step_sums {
    struct newest_steps steps;
    double all_ms, data_ms, comm_ms;
};

static double duration_of(const struct json *record, const char *name) {
    const struct json *v = json_get(record, name);
    bool fits = v && (v->type == JSON_INT || v->type == JSON_NUM) && v->number >= 0 &&
                v->number <= NEWEST_STEP_MS_MAX;
    return fits ? v->number : (double)NAN;
}

static void take_step(struct step_sums *s, const struct json *record) {
    double data = duration_of(record, "data_ms"), comm = duration_of(record, "comm_exposed_ms");
    double all = data + comm + duration_of(record, "compute_ms");
    if (isnan(all))
        return;
    struct newest_steps *x = &s->steps;
    x->newest_ms = all;
    x->least_ms = x->records ? fmin(x->least_ms, all) : all;
    x->most_ms = x->records ? fmax(x->most_ms, all) : all;
    x->records++;
    s->all_ms += all;
    s->data_ms += data;
    s->comm_ms += comm;
}

static void end_steps(struct newest_metrics *m, struct step_sums *s) {
    if (s->steps.records == 0)
        return;
    double unit = s->all_ms > 0 ? 100 / s->all_ms : 0;
    s->steps.data_percent = s->data_ms * unit;
    s->steps.comm_percent = s->comm_ms * unit;
    m->steps = s->steps;
}

// ---- records ------------------------------------------------------------------------------------

static void take_record(struct newest_metrics *m, const struct json *record) {
    for (int i = 0; i < NEWEST_RECORD_NAMES; i++) {
        const struct json *v = json_get(record, RECORD_NAMES[i]);
        if (!v || (v->type != JSON_INT && v->type != JSON_NUM))
            continue;
        m->records[i].known = true;
        m->records[i].value = v->number;
    }
}

void newest_metrics_records(struct newest_metrics *m, const char *text, size_t len) {
    struct arena a = {0};
    struct step_sums steps = {0};
    const char *line = text, *end;
    while ((end = memchr(line, '\n', (size_t)(text + len - line)))) {
        struct json *record = NULL;
        struct err ignored;
        if (json_parse(&a, line, (size_t)(end - line), &record, &ignored) == 0 &&
            record->type == JSON_OBJECT) {
            take_record(m, record);
            take_step(&steps, record);
        }
        arena_reset(&a);
        line = end + 1;
    }
    end_steps(m, &steps);
    arena_fini(&a);
}

void newest_metrics_each(const struct newest_metrics *m,
                         void (*fn)(void *ctx, const char *name, double value), void *ctx) {
    for (size_t i = 0; i < m->set.count; i++)
        if (m->set.metrics[i].count)
            fn(ctx, m->set.metrics[i].name, m->set.metrics[i].last);
    for (int i = 0; i < NEWEST_RECORD_NAMES; i++)
        if (m->records[i].known)
            fn(ctx, RECORD_NAMES[i], m->records[i].value);
}
