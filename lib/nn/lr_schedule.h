// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of progress. Progress is counted in epochs (2.5: half of the
// third epoch is done), not in steps, so that a run resumed with another world size, which has
// another number of steps per epoch, continues on the same curve.
#ifndef NN_LR_SCHEDULE_H
#define NN_LR_SCHEDULE_H

#include "conf/train_names.h"

#include <stddef.h>
#include <stdint.h>

struct lr_schedule {
    enum train_schedule kind;
    double lr;                 // the peak
    double lr_min;             // cosine and linear end here
    double epochs;             // length of the whole run
    double warmup_epochs;      // linear up to the peak; 0: none
    int step_epochs;           // step: multiply by gamma every so many epochs
    const int64_t *milestones; // multistep: and at each of these epochs
    size_t nmilestones;
    double gamma;                        // step, multistep; exponential: of each epoch
    double peak, cycle_start, cycle_end; // onecycle, triangle: share of the run, shares of lr
};

// The rate of a step from one progress to another, in epochs. A warm-up uses the end of the step,
// since with its beginning the first step would have the rate 0.
double lr_schedule_rate(const struct lr_schedule *s, double begin, double end);

#endif
