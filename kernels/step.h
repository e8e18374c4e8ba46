// SPDX-License-Identifier: Apache-2.0
// The step of a remote backend: its scalars, its totals, and whether its gradients are applied.
#ifndef DTCTL_KERNELS_STEP_H
#define DTCTL_KERNELS_STEP_H

#include <stddef.h>

struct loss_totals;

// The scalars and totals of a step, in memory of a remote backend, so that nothing of the step
// needs the host and a captured step can run again. Every number is a double.
enum { KERNEL_TOTALS = 6 }; // loss, top 1, top 5, two requests, squares of all gradients
struct kernel_step {
    // The host writes these before each step.
    double lr, clip;   // clip: most that the norm of all gradients may be; 0: any
    double request[2]; // a rank's own, of which all ranks get the mean
    // These stay from step to step.
    double loss_scale;              // of the gradients in memory
    double good;                    // updates since it changed
    double updates, power1, power2; // that were applied; beta1 and beta2 to their power
    double halted;                  // a number was not finite: no update is applied any more
    double culprit; // 1 + the last gradient that was not finite in the step that halted; 0: none
    // step_totals and step_judge write these.
    double own_loss;              // sum over this rank's rows
    double totals[KERNEL_TOTALS]; // of all ranks
    double apply;                 // whether there is an update …
    double grad_scale;            // … of so much of the gradients in memory
    double correct1, correct2;    // 1 - power1, 1 - power2
};

// The losses of a step, added up: rows' sums times `scale`, then the requests. They go to `tail`,
// five floats, or where that is NULL to step->totals, divided by `ranks`, with the squares.
struct step_totals_args {
    struct kernel_step *step;
    const struct loss_totals *losses;
    int nlosses;
    double scale;
    float *tail;
    int ranks;
    const double *squares; // their sum counts, unless other ranks have the same (nsquares 0)
    int nsquares;
};

// Whether and how the gradients are applied. tail: the mean over all ranks, with squares of this
// rank; NULL: step->totals are the sums over all ranks. The norm of all gradients is limited to
// clip. With `scaling` squares that are not finite leave one update out and halve the loss scale,
// which doubles after STEP_SCALE_UPDATES updates. Otherwise, and with a loss that is not finite,
// step->halted is set.
enum { STEP_SCALE_UPDATES = 2000, STEP_SCALE_FIRST = 65536 };
#define STEP_SCALE_LEAST (1.0 / (1 << 14)) // below it the step halts
#define STEP_SCALE_MOST  ((double)(1 << 24))
struct step_judge_args {
    struct kernel_step *step;
    const float *tail;
    const double *squares;
    int nsquares;
    double beta1, beta2;
    int scaling;
    const void *grads; // ngrads, among which the culprit is looked for
    size_t ngrads;
};

#endif
