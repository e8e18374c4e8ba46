// SPDX-License-Identifier: Apache-2.0
// The check of the tasks of a configuration file, for dtctl run and dtctl config check.
#ifndef DTCTL_CMD_RUN_H
#define DTCTL_CMD_RUN_H

#include "ui/context.h"

// Reads the settings of all tasks of the file and puts the tasks in order. The error has a line for
// each task whose settings are wrong.
int cmd_run_check(struct context *s, struct err *e);

#endif
