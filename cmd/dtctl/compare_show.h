// SPDX-License-Identifier: Apache-2.0
// What `dtctl compare` shows of its runs: as tables, or as JSON events.
#ifndef DTCTL_COMPARE_SHOW_H
#define DTCTL_COMPARE_SHOW_H

#include "run/compare/compare.h"
#include "ui/side_by_side.h"

struct compare_flags {
    struct option_list metrics;
    const char *sort;
    bool all;
};

struct left_out {
    const char *name;
    struct err why;
};

struct comparison {
    struct context *context;
    const struct compare_flags *flags;
    struct option_list wanted; // metrics to read: those of the flags
    struct compare_run *runs;
    size_t count;
    struct left_out *left; // runs whose records cannot be read
    size_t left_count;
    const char **metrics; // names of the metrics that are shown, in the order of the runs
    size_t metric_count;
};

// All settings of the runs.
struct compared_settings {
    struct compare_row *rows;
    size_t count, equal; // equal: rows in which no runs differ
};

// Adds a run that is not among the others yet; text: its name on the command line.
int compare_add_run(struct run *runs, size_t *count, const struct run *r, const char *text,
                    struct err *e);
bool compare_has_name(const char *const *names, size_t count, const char *name);
// The metrics of all runs, at most METRIC_FIGURES_MAX, NULL-terminated.
void compare_find_metrics(struct comparison *c);
void compare_find_settings(const struct comparison *c, struct compared_settings *out);
// The runs side by side: settings, those that differ first, and figures.
void compare_show_tables(const struct comparison *c, const struct compared_settings *s,
                         struct side_table *settings, struct side_table *figures);
void compare_show_text(const struct comparison *c, const struct compared_settings *s);
void compare_show_json(const struct comparison *c, const struct compared_settings *s);

#endif
