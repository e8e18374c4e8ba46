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

enum { NEWEST_RECORD_NAMES = 5 };

struct newest_metrics {
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
