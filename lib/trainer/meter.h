// SPDX-License-Identifier: Apache-2.0
// Progress output during training: lines in the format of PyTorch's ImageNet example, so that
// expressions for its logs keep matching, and JSON lines.
#ifndef TRAINER_METER_H
#define TRAINER_METER_H

#include "base/str.h"

#include <stdint.h>

// The last value and the mean of all; zero at first.
struct meter {
    double value, sum;
    int64_t count;
};
void meter_add(struct meter *m, double value, int64_t weight);
double meter_mean(const struct meter *m);

struct meter_set {
    struct meter time_s, data_s, loss, top1, top5; // top: percent
};

// "Epoch: [0][ 10/782]\tTime  0.123 ( 0.125)\tData  0.001 ( 0.001)\tLoss 1.2345e+00 (…)\t…"
void meter_train_line(struct strbuf *out, int64_t epoch, int64_t batch, int64_t batches,
                      const struct meter_set *m);
// " * Acc@1 46.340 Acc@5 72.484"
void meter_eval_line(struct strbuf *out, double top1, double top5);

struct meter_interval {
    int64_t step, epoch;                      // epoch from 0
    double loss, lr, grad_norm, images_per_s; // grad_norm: of the last step, before clipping
    double data_ms, compute_ms, comm_ms;      // per step; comm: time that backward did not hide
    double top1, top5;                        // percent, on training batches
    int64_t batch, batches, epochs; // how far: batches of this epoch, epochs wanted in all
};
void meter_interval_json(struct strbuf *out, const struct meter_interval *m); // with newline

struct meter_eval {
    int64_t step, epoch;
    double loss, top1, top5;
    int64_t images;
    double time_ms;
};
void meter_eval_json(struct strbuf *out, const struct meter_eval *m);

#endif
