// SPDX-License-Identifier: Apache-2.0
// A run, for the commands that start one: dtctl train and dtctl bench.
#ifndef DTCTL_CMD_TRAIN_H
#define DTCTL_CMD_TRAIN_H

#include "run/run_start.h"

// Makes the local cluster where there is none, starts the run, follows it, and fetches its results.
// Returns as the function of a command does.
int cmd_train_request(struct context *s, const struct run_start_request *request, struct err *e);

#endif
