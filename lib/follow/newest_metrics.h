// SPDX-License-Identifier: Apache-2.0
// The newest value of each metric of a run, from the ends of what rank 0 has printed and of the
// native trainer's records. The same text may be given again and again.
//
//     newest_metrics_open(&m, &arena, &run.metrics);
//     newest_metrics_lines(&m, text, len);
//     newest_metrics_records(&m, text, len);
//     newest_metrics_each(&m, on_metric, ctx);
//     newest_metrics_close(&m);
#ifndef FOLLOW_NEWEST_METRICS_H
#define FOLLOW_NEWEST_METRICS_H

#include "conf/option.h"
#include "follow/metrics.h"

enum { NEWEST_RECORD_NAMES = 5, NEWEST_STEP_MS_MAX = 1000000000 };

// The steps of the native trainer: figures of rank 0, which waits for the others in each step. A
// record has the means of the steps since the record before.
struct newest_steps {
    size_t records;                    // that the text had; 0: none with the time of steps
    double newest_ms;                  // of a step, by the last record
    double least_ms, most_ms;          // of all records
    double data_percent, comm_percent; // of the time: waiting for data, and for other ranks
};

struct newest_metrics {
    struct newest_steps steps; // of the newest text that had some
    struct metric_set set;
    struct {
        bool known;
        double value;
    } records[NEWEST_RECORD_NAMES];
};

// Expressions that cannot be used are left out with a warning.
void newest_metrics_open(struct newest_metrics *m, struct arena *a, const struct option_map *all);
void newest_metrics_close(struct newest_metrics *m);
// Lines of rank 0, parted by newlines or carriage returns. Text behind the last one is left out,
// since the rest of its line has not been printed yet.
void newest_metrics_lines(struct newest_metrics *m, const char *text, size_t len);
// Records of the native trainer, one JSON object per line.
void newest_metrics_records(struct newest_metrics *m, const char *text, size_t len);
// Calls fn for each metric with a value: those of the configuration, then the trainer's own.
void newest_metrics_each(const struct newest_metrics *m,
                         void (*fn)(void *ctx, const char *name, double value), void *ctx);

#endif
