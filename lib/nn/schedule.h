// SPDX-License-Identifier: Apache-2.0
// Learning rate as a pure function of progress. Progress is counted in epochs (2.5 = half of the
// third epoch is done), not in steps, so that a run resumed on another world size, whose epochs
// have another number of steps, goes on along the same curve.
#ifndef NN_SCHEDULE_H
#define NN_SCHEDULE_H

#include "conf/train_names.h"

struct schedule {
    enum train_schedule kind;
    double lr;            // the peak
    double lr_min;        // cosine ends here
    double epochs;        // length of the whole run
    double warmup_epochs; // linear up to the peak; 0: none
    int step_epochs;      // step: multiply by gamma every so many epochs
    double gamma;
};

// Of the step from one progress to the other, in epochs. A warm-up goes by where the step ends: by
// where it begins, the first step would be made with a rate of 0.
double schedule_lr(const struct schedule *s, double begin, double end);

#endif
