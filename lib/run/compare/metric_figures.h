// SPDX-License-Identifier: Apache-2.0
// The figures of each metric in metrics.jsonl of a run: last, smallest and largest value.
//
// Lines of [metrics] have a name and a value. Records of the native trainer have an event, a step,
// an epoch and several numbers; each number is a metric called EVENT.MEMBER, such as "eval.acc1".
// Every byte may come from a node: a line that is neither is counted, and left out. All memory is
// in the caller's arena, and does not depend on the number of lines.
#ifndef RUN_METRIC_FIGURES_H
#define RUN_METRIC_FIGURES_H

#include "base/arena.h"
#include "base/err.h"
#include "base/name_map.h"
#include "conf/option.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    METRIC_FIGURES_MAX = 256,              // metrics of a run; later ones are only counted
    METRIC_FIGURES_LINE_BYTES_MAX = 65536, // of a line
};
#define METRIC_FIGURES_FILE_BYTES_MAX ((uint64_t)1 << 30)

// The better end of a metric. Only those of the native trainer have one: the names of [metrics]
// are the user's.
enum metric_goal { METRIC_GOAL_NONE, METRIC_GOAL_MIN, METRIC_GOAL_MAX };

struct metric_point {
    double value;
    uint64_t number;     // among the values of the metric, from 1
    int64_t step, epoch; // -1: the line has none
};

struct metric_figure {
    const char *name;
    enum metric_goal goal;
    uint64_t count;                     // of finite values
    uint64_t not_finite;                // values that are no finite number
    struct metric_point last, min, max; // last: of the lowest rank that has a value
    int64_t rank;                       // that of last; -1: its line has none
};

// One value of a line, and what the line says of its place.
struct metric_value {
    size_t metric;                // its place in items
    int64_t time_ms, step, epoch; // -1: the line has none
    int64_t rank;                 // -1: the same
    double value;                 // may be no finite number
};

struct metric_figures;
typedef void metric_value_cb(void *ctx, const struct metric_figures *f,
                             const struct metric_value *v);

struct metric_figures {
    struct arena *arena, scratch;
    metric_value_cb *on_value; // is called for each value of a wanted metric; NULL: nothing is
    void *ctx;
    const struct option_list *wanted; // names; NULL or empty: every metric
    struct metric_figure *items;      // in the order of their first lines
    size_t count, room;
    struct name_map by_name;
    uint64_t left_out;       // numbers of metrics beyond METRIC_FIGURES_MAX
    uint64_t bad, first_bad; // lines that are no metrics, and the number of the first
};

void metric_figures_init(struct metric_figures *f, struct arena *a,
                         const struct option_list *wanted);
// Takes the line of that number, from 1. False: it is no metric.
bool metric_figures_take(struct metric_figures *f, const char *line, size_t len, uint64_t number);
void metric_figures_end(struct metric_figures *f); // the figures stay
const struct metric_figure *metric_figures_find(const struct metric_figures *f, const char *name);
// Reads a file. active: its last line may still be written.
int metric_figures_read(struct metric_figures *f, const char *path, bool active, struct err *e);

#endif
