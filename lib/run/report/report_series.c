// SPDX-License-Identifier: Apache-2.0
// Series of a run, from the files that have them. A source is a row of the table: a title, the word
// for a place of the run, and a function that reads the series of one run into the source's plots.
#include "run/report/report.h"

#include "base/str.h"
#include "protocol/node_sample.h"
#include "sys/file_lines.h"

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
        r->plots[r->known] = plot_find(r->set, f->items[r->known].name, axis, PLOT_PLAIN);
        r->parts[r->known] = part_of(f->items[r->known].name);
    }
    if (r->parts[v->metric] >= 0)
        report_steps_take(&run->steps, r->report->context->arena, r->parts[v->metric], v->step,
                          v->value);
    int plot = r->plots[v->metric];
    enum plot_axis wanted = plot < 0 ? axis : r->set->plots[plot].axis;
    if (plot < 0 || (wanted != PLOT_NUMBERS && wanted != axis)) {
        ++*(plot < 0 ? &r->set->no_room : &r->set->other_axis);
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

// ---- samples.jsonl ------------------------------------------------------------------------------

enum { SAMPLE_LINE_BYTES_MAX = 8 << 10, SAMPLES_BYTES_MAX = 16 << 20 };

// Figures of a sample; -1: unknown. Of several GPUs the mean, or the sum of their memory.
enum {
    SAMPLE_CPU,
    SAMPLE_MEMORY,
    SAMPLE_GPU,
    SAMPLE_GPU_MEMORY,
    SAMPLE_RECEIVED,
    SAMPLE_SENT,
    SAMPLE_READ,
    SAMPLE_WRITTEN,
    SAMPLE_FIGURES,
};
static const struct {
    const char *name;
    enum plot_unit unit;
} SAMPLE_PLOTS[SAMPLE_FIGURES] = {
    [SAMPLE_CPU] = {"processors in use, %", PLOT_PERCENT},
    [SAMPLE_MEMORY] = {"memory in use", PLOT_BYTES},
    [SAMPLE_GPU] = {"GPUs in use, %", PLOT_PERCENT},
    [SAMPLE_GPU_MEMORY] = {"memory of GPUs in use", PLOT_BYTES},
    [SAMPLE_RECEIVED] = {"network, received per second", PLOT_BYTES},
    [SAMPLE_SENT] = {"network, sent per second", PLOT_BYTES},
    [SAMPLE_READ] = {"disk, read per second", PLOT_BYTES},
    [SAMPLE_WRITTEN] = {"disk, written per second", PLOT_BYTES},
};
static const double BYTES_PER_MIB = 1 << 20;

static void figures_of(const struct node_sample *s, double out[SAMPLE_FIGURES]) {
    int64_t used, all;
    out[SAMPLE_GPU] = node_sample_gpus(s, &used, &all);
    out[SAMPLE_GPU_MEMORY] = (double)used * BYTES_PER_MIB;
    out[SAMPLE_CPU] = s->cpu_percent;
    out[SAMPLE_MEMORY] = (double)s->memory_bytes;
    out[SAMPLE_RECEIVED] = (double)s->received_bytes_s;
    out[SAMPLE_SENT] = (double)s->sent_bytes_s;
    out[SAMPLE_READ] = (double)s->read_bytes_s;
    out[SAMPLE_WRITTEN] = (double)s->written_bytes_s;
}

static void take_sample(struct report_page *p, struct plot_set *set, size_t run, size_t node,
                        const struct node_sample *s) {
    double figures[SAMPLE_FIGURES];
    int64_t x = s->time_ms - p->runs[run].run->run.created_ms;
    figures_of(s, figures);
    for (int i = 0; i < SAMPLE_FIGURES; i++) {
        int plot = figures[i] >= 0
                       ? plot_find(set, SAMPLE_PLOTS[i].name, PLOT_TIME, SAMPLE_PLOTS[i].unit)
                       : -1;
        if (plot >= 0)
            plot_add(set, (size_t)plot, run, (int64_t)node, x, figures[i]);
    }
}

static int load_node(struct report_page *p, struct plot_set *set, size_t run, size_t node,
                     struct err *e) {
    const struct run *r = &p->runs[run].run->run;
    const char *path = run_node_path(&p->context->cluster, r, r->nodes[node], NODE_SAMPLE_FILE);
    struct arena scratch = {0};
    struct file_lines in;
    size_t bad = 0;
    if (file_lines_open(&in, path, SAMPLE_LINE_BYTES_MAX, SAMPLES_BYTES_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    while (file_lines_next(&in)) {
        struct json *j = NULL;
        struct node_sample s;
        struct err ignored = {0};
        if (json_parse(&scratch, in.line, in.len, &j, &ignored) == 0 && node_sample_read(j, &s))
            take_sample(p, set, run, node, &s);
        else
            bad++;
        arena_reset(&scratch);
    }
    arena_fini(&scratch);
    if (bad)
        compare_add_problem(p->context, p->runs[run].run,
                            "%zu line%s of '%s': no sample%s of a node", bad, str_plural(bad), path,
                            str_plural(bad));
    return file_lines_close(&in, 0, e);
}

static void load_samples(struct report_page *p, struct plot_set *set, size_t run) {
    struct compare_run *c = p->runs[run].run;
    for (size_t i = 0; i < c->run.node_count; i++) {
        struct err e = {0};
        if (load_node(p, set, run, i, &e) < 0)
            compare_add_problem(p->context, c, "%s", e.text);
    }
}

// ---- all sources --------------------------------------------------------------------------------

static const struct {
    const char *title, *place_word;
    void (*load)(struct report_page *p, struct plot_set *set, size_t run);
} SOURCES[] = {
    {"Metrics", "rank", load_metrics},
    {"Load of the nodes", "node", load_samples},
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
