// SPDX-License-Identifier: Apache-2.0
// Metrics from worker lines: each metric has a name and a regular expression that captures a
// number.
//
//     metrics_add(&set, "loss", "Loss ([0-9.]+)", e);
//     metrics_match(&set, rank, line, len, on_value, ctx); // once for each metric that matches
//
// conf/metric_regex.h describes names and expressions. The caller owns the set: metrics_fini
// frees the compiled expressions.
#ifndef FOLLOW_METRICS_H
#define FOLLOW_METRICS_H

#include "base/arena.h"
#include "base/err.h"
#include "conf/metric_regex.h"
#include "follow/metric_literal.h"

#include <stdint.h>

enum {
    METRIC_LINE_BYTES_MAX = 4096,  // the rest of a line is not searched
    METRIC_SILENT_LINES_MAX = 100, // without a match, until the user is warned
    METRIC_OVERRUNS_MAX =
        16, // lines that may exceed the match limit before an expression is given up
};

struct metric {
    const char *name;
    struct metric_regex expression;
    char literal[METRIC_LITERAL_BYTES_MAX]; // a line without it is not searched
    size_t literal_len;
    double first, last; // of the lowest rank that has printed a value
    double min, max;    // of all ranks
    int rank;           // that of first and last
    uint64_t count;
    bool matched; // also a value that is no finite number
    int overruns; // lines that were skipped because the search reached a limit
    bool warned;  // of a value that is no number
};

struct metric_set {
    struct metric metrics[METRIC_COUNT_MAX];
    size_t count;
    int lines; // that were counted; METRIC_SILENT_LINES_MAX: no more are
};

typedef void metric_cb(void *ctx, const struct metric *m, double value);

// ERR_CONFIG names the metric and the fault of its expression. name is copied to the arena.
int metrics_add(struct metric_set *set, struct arena *a, const char *name, const char *regex,
                struct err *e);
void metrics_fini(struct metric_set *set);
// Matches one line of a rank, without its newline; -1: its rank is not known. Updates the figures
// of each metric that matched, then calls cb. Logs the first line on which an expression exceeds
// the match limit, and the first one with a value that is no number.
void metrics_match(struct metric_set *set, int rank, const char *line, size_t len, metric_cb *cb,
                   void *ctx);
// Counts a line of rank 0 after its match. The last one that counts logs a warning with the metrics
// that no line has matched yet. is_first: nothing is in front of the line in its file. Where the
// first line is not, an earlier one may have matched, and nothing is counted.
void metrics_count_line(struct metric_set *set, const char *line, size_t len, bool is_first);

#endif
