// SPDX-License-Identifier: Apache-2.0
// The figures and settings of one run, from its files on this side, so that runs can be compared.
// No node is asked.
//
// A file that is missing, damaged, too large or another run's is a problem of that run: it is named
// in one line, and the figures that it would give are missing.
#ifndef RUN_COMPARE_H
#define RUN_COMPARE_H

#include "run/compare/compare_settings.h"
#include "run/compare/metric_figures.h"
#include "ui/context.h"

enum {
    COMPARE_SUMMARY_BYTES_MAX = 64 << 20,
    COMPARE_EVENTS_BYTES_MAX = 64 << 20,
    COMPARE_EVENT_BYTES_MAX = 1 << 20, // of a line
    COMPARE_PROBLEMS_MAX = 8,
};

// Figures of the native trainer in summary.json.
struct compare_result {
    const char *name;
    enum metric_goal goal;
};
enum { COMPARE_RESULTS = 3 };
extern const struct compare_result compare_results[COMPARE_RESULTS];

struct compare_run {
    struct run run;
    bool active;                     // it is not over, as far as this side knows
    int restarts, world_size;        // -1: not known
    int64_t train_ms;                // so far; -1: not known
    double results[COMPARE_RESULTS]; // NAN: none
    struct compare_settings settings;
    struct metric_figures metrics;
    const char *problems[COMPARE_PROBLEMS_MAX];
    size_t problem_count;
};

// wanted: names of metrics; NULL or empty: all. Memory is in the context's arena.
void compare_load(struct context *s, const struct run *r, const struct option_list *wanted,
                  struct compare_run *out);
// The last two runs of the cluster that have finished, the older one first. ERR_NOT_FOUND: there
// are not that many.
int compare_newest(struct context *s, struct run out[2], struct err *e);

#endif
