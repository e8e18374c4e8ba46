// SPDX-License-Identifier: Apache-2.0
// The time of the steps of a native training that count.
#include "base/array.h"
#include "run/report/report.h"

#include <math.h>
#include <string.h>

// Every second mark is left out: sums up to a step stay right.
static void thin_out(struct report_steps *s) {
    size_t kept = 0;
    for (size_t i = 1; i < s->count; i += 2)
        s->marks[kept++] = s->marks[i];
    s->count = kept;
}

static double sum_of(const struct report_step_mark *m) {
    return m->ms[REPORT_STEP_DATA] + m->ms[REPORT_STEP_COMPUTE] + m->ms[REPORT_STEP_COMM];
}

// Takes back the steps from this one on: they are repeated.
static void repeat(struct report_steps *s, int64_t step) {
    double before = report_steps_ms(s, -1);
    while (s->count && s->marks[s->count - 1].step >= step)
        s->count--;
    s->repeated_ms += before - report_steps_ms(s, -1);
}

void report_steps_take(struct report_steps *s, struct arena *a, int part, int64_t step, double ms) {
    if (step < 0 || !isfinite(ms) || ms < 0)
        return;
    struct report_step_mark *last = s->count ? &s->marks[s->count - 1] : NULL;
    if (!last || last->step != step || part == REPORT_STEP_DATA) {
        if (last && last->step >= step)
            repeat(s, step);
        if (s->count == REPORT_STEPS_MAX)
            thin_out(s);
        array_grow_in(a, s->marks, &s->room, s->count + 1);
        must(s->marks);
        struct report_step_mark next = {.step = step};
        if (s->count)
            memcpy(next.ms, s->marks[s->count - 1].ms, sizeof next.ms);
        s->marks[s->count++] = next;
        last = &s->marks[s->count - 1];
    }
    // A line has the mean of the steps since the line before. The first line is one step: a
    // training that resumes begins at any.
    int64_t steps = s->count > 1 ? step - s->marks[s->count - 2].step : 1;
    last->ms[part] += ms * (double)steps;
}

double report_steps_ms(const struct report_steps *s, int part) {
    if (s->count == 0)
        return 0;
    const struct report_step_mark *m = &s->marks[s->count - 1];
    return part < 0 ? sum_of(m) : m->ms[part];
}
