// SPDX-License-Identifier: Apache-2.0
// Series of a run, from the files that have them. A source is a row of the table: a title, the word
// for a place of the run, and a function that reads the series of one run into the source's plots.
#include "run/report/report.h"

#include <string.h>

// ---- metrics.jsonl ------------------------------------------------------------------------------

struct metric_reader {
    struct report_page *report;
    struct plot_set *set;
    size_t run;
    int plots[METRIC_FIGURES_MAX]; // by metric; -1: none
    int parts[METRIC_FIGURES_MAX]; // of a step; -1: none
    size_t known;                  // metrics with such an entry
};

static int part_of(const char *name) {
    static const char *const names[] = {[REPORT_STEP_DATA] = "train.data_ms",
                                        [REPORT_STEP_COMPUTE] = "train.compute_ms",
                                        [REPORT_STEP_COMM] = "train.comm_exposed_ms"};
    for (int i = 0; i < REPORT_STEP_PARTS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static void on_value(void *ctx, const struct metric_figures *f, const struct metric_value *v) {
    struct metric_reader *r = ctx;
    struct report_run *run = &r->report->runs[r->run];
    const struct metric_figure *m = &f->items[v->metric];
    enum plot_axis axis = v->step >= 0 ? PLOT_STEPS : v->time_ms >= 0 ? PLOT_TIME : PLOT_NUMBERS;
    for (; r->known <= v->metric; r->known++) { // metrics come in the order of their first lines
        r->plots[r->known] = plot_find(r->set, f->items[r->known].name, axis);
        r->parts[r->known] = part_of(f->items[r->known].name);
    }
    if (r->parts[v->metric] >= 0)
        report_steps_take(&run->steps, r->report->context->arena, r->parts[v->metric], v->step,
                          v->value);
    int plot = r->plots[v->metric];
    enum plot_axis wanted = plot < 0 ? axis : r->set->plots[plot].axis;
    if (plot < 0 || (wanted != PLOT_NUMBERS && wanted != axis)) {
        r->set->left_out++;
        return;
    }
    int64_t x = wanted == PLOT_STEPS  ? v->step
                : wanted == PLOT_TIME ? v->time_ms - run->run->run.created_ms
                                      : (int64_t)(m->count + m->not_finite + 1);
    plot_add(r->set, (size_t)plot, r->run, r->report->wanted > 1 ? -1 : v->rank, x, v->value);
}

static void load_metrics(struct report_page *p, struct plot_set *set, size_t run) {
    struct metric_reader r = {.report = p, .set = set, .run = run};
    compare_load_metrics(p->context, p->runs[run].run, NULL, on_value, &r);
}

// ---- all sources --------------------------------------------------------------------------------

static const struct {
    const char *title, *place_word;
    void (*load)(struct report_page *p, struct plot_set *set, size_t run);
} SOURCES[] = {
    {"Metrics", "rank", load_metrics},
};
enum { SOURCE_COUNT = sizeof SOURCES / sizeof *SOURCES };
_Static_assert(sizeof SOURCES / sizeof *SOURCES <= (size_t)REPORT_SOURCES_MAX, "room for all");

void report_series_init(struct report_page *p) {
    for (size_t i = 0; i < SOURCE_COUNT; i++)
        plot_set_init(&p->series[i], p->context->arena, SOURCES[i].title, SOURCES[i].place_word);
    p->series_count = SOURCE_COUNT;
}

void report_series_load(struct report_page *p, size_t run) {
    for (size_t i = 0; i < p->series_count; i++)
        SOURCES[i].load(p, &p->series[i], run);
}
