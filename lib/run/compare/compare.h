// SPDX-License-Identifier: Apache-2.0
// The figures and settings of one run, from its files on this side, so that runs can be compared.
// No node is asked.
//
// A file that is missing, damaged, too large or another run's is a problem of that run: it is named
// in one line, and the figures that it would give are missing.
#ifndef RUN_COMPARE_H
#define RUN_COMPARE_H

#include "follow/run_history.h"
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
    bool has_metrics;                // its summary says that there is a file of them
    int restarts, world_size;        // -1: not known
    int64_t train_ms;                // so far; -1: not known
    double results[COMPARE_RESULTS]; // NAN: none
    struct compare_settings settings;
    struct metric_figures metrics;
    const struct json *inputs, *summary; // the files, if they are kept; NULL: there is none
    const char *problems[COMPARE_PROBLEMS_MAX];
    size_t problem_count;
};

// Reads all but the metrics. Memory is in the context's arena, and that of inputs and summary in
// `kept`; NULL: they are not kept.
void compare_load(struct context *s, const struct run *r, struct arena *kept,
                  struct compare_run *out);
// Reads the metrics. wanted: names; NULL or empty: all. on_value: see metric_figures.h; may be
// NULL.
void compare_load_metrics(struct context *s, struct compare_run *c,
                          const struct option_list *wanted, metric_value_cb *on_value, void *ctx);
// A line for people; after COMPARE_PROBLEMS_MAX of them it is left out.
void compare_add_problem(struct context *s, struct compare_run *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Goes through events.jsonl. on_event is called for each event, also for those of dtctl and of
// unknown kinds; NULL: nothing is. *h is initialised, and takes the events of the nodes; its memory
// is in its arena. ERR_NOT_FOUND: the run has no events on this side.
typedef void compare_event_cb(void *ctx, const struct json *event);
int compare_load_events(struct context *s, const struct run *r, struct run_history *h,
                        compare_event_cb *on_event, void *ctx, struct err *e);
// The last two runs of the cluster that have finished, the older one first. ERR_NOT_FOUND: there
// are not that many.
int compare_newest(struct context *s, struct run out[2], struct err *e);

#endif
