// SPDX-License-Identifier: Apache-2.0
// The runs of a comparison, their metrics and their settings.
#include "compare_show.h"

#include <string.h>

int compare_add_run(struct run *runs, size_t *count, const struct run *r, const char *text,
                    struct err *e) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(runs[i].id, r->id) == 0)
            return err_set(e, ERR_USAGE, "'%.200s': run '%s' is named twice", text, r->id);
    runs[(*count)++] = *r;
    return 0;
}

bool compare_has_name(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

void compare_find_metrics(struct comparison *c) {
    c->metrics = arena_new(c->context->arena, const char *, METRIC_FIGURES_MAX + 1);
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->runs[i].metrics.count; k++) {
            const char *name = c->runs[i].metrics.items[k].name;
            if (c->metric_count < METRIC_FIGURES_MAX &&
                !compare_has_name(c->metrics, c->metric_count, name))
                c->metrics[c->metric_count++] = name;
        }
}

void compare_find_settings(const struct comparison *c, struct compared_settings *out) {
    struct arena *a = c->context->arena;
    struct compare_settings *settings = arena_new(a, struct compare_settings, c->count + 1);
    *out = (struct compared_settings){0};
    for (size_t i = 0; i < c->count; i++)
        settings[i] = c->runs[i].settings;
    compare_settings_rows(a, settings, c->count, &out->rows, &out->count);
    for (size_t r = 0; r < out->count; r++)
        out->equal += !out->rows[r].differs;
}
