// SPDX-License-Identifier: Apache-2.0
#include "nn/schedule.h"

#include <math.h>
#include <string.h>

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

static const struct {
    const char *name;
    double (*lr)(const struct schedule *s, double progress);
} kinds[SCHEDULE_KINDS] = {
    [SCHEDULE_CONSTANT] = {"constant", schedule_constant},
    [SCHEDULE_STEP] = {"step", schedule_step},
    [SCHEDULE_COSINE] = {"cosine", schedule_cosine},
};

const char *schedule_name(enum schedule_kind kind) {
    return kinds[kind].name;
}

int schedule_find(const char *name) {
    for (int k = 0; k < SCHEDULE_KINDS; k++)
        if (strcmp(kinds[k].name, name) == 0)
            return k;
    return -1;
}

double schedule_lr(const struct schedule *s, double begin, double end) {
    if (begin < s->warmup_epochs)
        return s->lr * fmin(end / s->warmup_epochs, 1);
    return kinds[s->kind].lr(s, begin);
}
