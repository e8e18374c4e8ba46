// SPDX-License-Identifier: Apache-2.0
// Comparing runs: a text as inputs.json, and its lines as metrics.jsonl. Names and values are safe
// to print, figures are finite and in order, and memory is bounded by the number of metrics.
#include "run/compare/compare_settings.h"
#include "run/compare/metric_figures.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static void check_figure(const struct metric_figure *m) {
    must(is_printable(m->name) && (m->count || m->not_finite));
    if (m->count == 0)
        return;
    must(isfinite(m->last.value) && m->min.value <= m->last.value && m->last.value <= m->max.value);
    must(m->last.number == m->count && m->min.number <= m->count && m->max.number <= m->count);
}

static void take_lines(struct arena *a, const char *text, size_t size) {
    struct metric_figures f;
    uint64_t number = 0, good = 0;
    metric_figures_init(&f, a, NULL);
    for (const char *end, *stop = text + size; text < stop; text = end + (end < stop)) {
        end = memchr(text, '\n', (size_t)(stop - text));
        end = end ? end : stop;
        good += metric_figures_take(&f, text, (size_t)(end - text), ++number);
    }
    must(good + f.bad == number && f.count <= METRIC_FIGURES_MAX);
    must(f.bad == 0 || (f.first_bad > 0 && f.first_bad <= number));
    for (size_t i = 0; i < f.count; i++)
        check_figure(&f.items[i]);
    metric_figures_end(&f);
}

static void take_inputs(struct arena *a, const char *text, size_t size) {
    const char *nodes[] = {"node0"};
    struct run r = {.name = "t", .nodes = nodes, .node_count = 1, .nproc = "1"};
    struct compare_settings two[2];
    struct compare_row *rows = NULL;
    struct json *j = NULL;
    struct err e;
    size_t count = 0;
    if (json_parse(a, text, size, &j, &e) < 0)
        return;
    compare_settings_of(a, &r, j, &two[0]);
    compare_settings_of(a, &r, j, &two[1]);
    compare_settings_rows(a, two, 2, &rows, &count);
    for (size_t i = 0; i < count; i++)
        must(!rows[i].differs && is_printable(rows[i].name) && is_printable(rows[i].values[0]));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    const char *text = arena_strndup(&a, (const char *)data, size);
    take_inputs(&a, text, size);
    take_lines(&a, text, size);
    arena_fini(&a);
    return 0;
}
