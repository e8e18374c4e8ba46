// SPDX-License-Identifier: Apache-2.0
// Computes the learning rate of each schedule.
#include "nn/lr_schedule.h"

#include <math.h>

// A step: where it begins, and how long it is; epochs.
struct moment {
    double at, step;
};

static double lr_schedule_constant(const struct lr_schedule *s, struct moment now) {
    (void)now;
    return s->lr;
}

// Whole epochs that are done. Rounding noise must not put the first step of an epoch into the one
// before.
static double epochs_done(struct moment now) {
    return floor(now.at + 1e-9);
}

static double lr_schedule_step(const struct lr_schedule *s, struct moment now) {
    double drops = s->step_epochs > 0 ? floor(epochs_done(now) / s->step_epochs) : 0;
    return s->lr * pow(s->gamma, drops);
}

static double lr_schedule_multistep(const struct lr_schedule *s, struct moment now) {
    int drops = 0;
    for (size_t i = 0; i < s->nmilestones; i++)
        drops += epochs_done(now) >= (double)s->milestones[i];
    return s->lr * pow(s->gamma, drops);
}

static double lr_schedule_exponential(const struct lr_schedule *s, struct moment now) {
    return s->lr * pow(s->gamma, epochs_done(now));
}

// The position behind the warm-up, from 0 to 1.
static double share_done(const struct lr_schedule *s, struct moment now) {
    double span = s->epochs - s->warmup_epochs;
    double t = span > 0 ? (now.at - s->warmup_epochs) / span : 1;
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

// From one rate to the other, t = 0 to 1.
static double along_line(double from, double to, double t) {
    return from + (to - from) * t;
}

static double along_cosine(double from, double to, double t) {
    return to + 0.5 * (from - to) * (1 + cos(M_PI * t));
}

// Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017,
// without the restarts.
static double lr_schedule_cosine(const struct lr_schedule *s, struct moment now) {
    return along_cosine(s->lr, s->lr_min, share_done(s, now));
}

static double lr_schedule_linear(const struct lr_schedule *s, struct moment now) {
    return along_line(s->lr, s->lr_min, share_done(s, now));
}

// Smith and Topin, "Super-convergence: very fast training of neural networks using large learning
// rates", 2018, in PyTorch's form: the last step of each part has the rate that the part goes to.
static double cycle(const struct lr_schedule *s, struct moment now,
                    double (*along)(double from, double to, double t)) {
    double top = s->peak * s->epochs - now.step, end = s->epochs - now.step;
    if (now.at <= top)
        return along(s->cycle_start * s->lr, s->lr, top > 0 ? now.at / top : 1);
    double t = end > top ? (now.at - top) / (end - top) : 1;
    return along(s->lr, s->cycle_end * s->lr, t > 1 ? 1 : t);
}

static double lr_schedule_onecycle(const struct lr_schedule *s, struct moment now) {
    return cycle(s, now, along_cosine);
}

static double lr_schedule_triangle(const struct lr_schedule *s, struct moment now) {
    return cycle(s, now, along_line);
}

static double (*const kinds[TRAIN_SCHEDULES])(const struct lr_schedule *s, struct moment now) = {
    [TRAIN_CONSTANT] = lr_schedule_constant,   [TRAIN_STEP] = lr_schedule_step,
    [TRAIN_MULTISTEP] = lr_schedule_multistep, [TRAIN_EXPONENTIAL] = lr_schedule_exponential,
    [TRAIN_COSINE] = lr_schedule_cosine,       [TRAIN_LINEAR] = lr_schedule_linear,
    [TRAIN_ONECYCLE] = lr_schedule_onecycle,   [TRAIN_TRIANGLE] = lr_schedule_triangle,
};

double lr_schedule_rate(const struct lr_schedule *s, double begin, double end) {
    if (begin < s->warmup_epochs)
        return s->lr * fmin(end / s->warmup_epochs, 1);
    return kinds[s->kind](s, (struct moment){begin, end - begin});
}
