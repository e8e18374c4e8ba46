// SPDX-License-Identifier: Apache-2.0
// The plan of a run, which train shows before the start.
#ifndef DTCTL_TRAIN_PLAN_H
#define DTCTL_TRAIN_PLAN_H

#include "run/inputs/input_look.h"

// Lines for a person: command, nodes, files, inputs and their deal.
void train_plan_show(const struct run_start *l);
// Lines with the sizes of inputs, for a plan without nodes.
void train_plan_inputs(struct context *s, const struct input_look *look);
// The plan as an event of --json, of this kind.
void train_plan_event(const struct run_start *l, const char *kind);
// Memory and time that the native trainer needs. The plan is complete without them: -1 only for
// wrong settings.
int train_plan_forecast(const struct run_start *l, struct err *e);

#endif
