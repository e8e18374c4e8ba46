// SPDX-License-Identifier: Apache-2.0
// A program that prepares the node, run by `dtrun --node setup`. Its output goes to a log and to
// standard error, which dtctl reads. Standard input is the connection of dtctl: its end stops the
// program.
#ifndef NODE_SETUP_PROGRAM_H
#define NODE_SETUP_PROGRAM_H

#include "base/err.h"

struct setup_program {
    const char *name; // for messages: "the setup"
    const char *const *argv;
    char *const *env;
    const char *cwd;
    const char *log; // is emptied first
};

// Blocking. ERR_FAILED with the status of a program that failed; ERR_INTERRUPTED.
int setup_program_run(const struct setup_program *p, struct err *e);
// ERR_INTERRUPTED when the connection of dtctl has ended.
int setup_program_check(struct err *e);

#endif
