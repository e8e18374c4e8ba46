// SPDX-License-Identifier: Apache-2.0
// Metrics from worker lines.
#include "run/metrics.h"

#include <math.h>
#include <string.h>

int metric_add(struct metric_set *set, struct arena *a, const char *name, const char *regex,
               struct err *e) {
    struct metric *m = &set->metrics[set->count];
    if (set->count == METRIC_COUNT_MAX)
        return err_set(e, ERR_CONFIG, "more than %d metrics", METRIC_COUNT_MAX);
    *m = (struct metric){.name = arena_strdup(a, name)};
    if (metric_expression_check_name(name, e) < 0 ||
        metric_expression_compile(&m->expression, regex, e) < 0)
        return err_wrap(e, "metric '%.80s'", name);
    set->count++;
    return 0;
}

void metric_fini(struct metric_set *set) {
    for (size_t i = 0; i < set->count; i++)
        metric_expression_fini(&set->metrics[i].expression);
    set->count = 0;
}

void metric_match(struct metric_set *set, const char *line, size_t len, metric_cb *cb, void *ctx) {
    char text[METRIC_LINE_BYTES_MAX + 1];
    if (len > METRIC_LINE_BYTES_MAX)
        len = METRIC_LINE_BYTES_MAX;
    memcpy(text, line, len);
    text[len] = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct metric *m = &set->metrics[i];
        double value = 0;
        if (!metric_expression_find(&m->expression, text, &value))
            continue;
        if (isfinite(value)) {
            m->first = m->count ? m->first : value;
            m->min = m->count ? fmin(m->min, value) : value;
            m->max = m->count ? fmax(m->max, value) : value;
            m->last = value;
            m->count++;
        }
        cb(ctx, m, value);
    }
}
