// SPDX-License-Identifier: Apache-2.0
#include "nn/schedule.h"

#include <math.h>

static double schedule_constant(const struct schedule *s, double progress) {
    (void)progress;
    return s->lr;
}

static double schedule_step(const struct schedule *s, double progress) {
    // Rounding noise in progress must not put the first step of an epoch into the one before.
    double drops = s->step_epochs > 0 ? floor((progress + 1e-9) / s->step_epochs) : 0;
    return s->lr * pow(s->gamma, drops);
}

// Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017,
// without the restarts; the cosine spans what the warm-up leaves.
static double schedule_cosine(const struct schedule *s, double progress) {
    double span = s->epochs - s->warmup_epochs;
    double t = span > 0 ? (progress - s->warmup_epochs) / span : 1;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return s->lr_min + 0.5 * (s->lr - s->lr_min) * (1 + cos(M_PI * t));
}

static double (*const kinds[TRAIN_SCHEDULES])(const struct schedule *s, double progress) = {
    [TRAIN_CONSTANT] = schedule_constant,
    [TRAIN_STEP] = schedule_step,
    [TRAIN_COSINE] = schedule_cosine,
};

double schedule_lr(const struct schedule *s, double begin, double end) {
    if (begin < s->warmup_epochs)
        return s->lr * fmin(end / s->warmup_epochs, 1);
    return kinds[s->kind](s, begin);
}
