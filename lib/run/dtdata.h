// SPDX-License-Identifier: Apache-2.0
// Runs the dtdata that dtctl carries on this computer, with the user's AWS credentials.
#ifndef RUN_DTDATA_H
#define RUN_DTDATA_H

#include "ui/context.h"

#define DTDATA_PROGRAM "dtdata"

struct dtdata_call {
    const char *const *args; // words after the program's name, NULL-terminated
    size_t bytes_max;        // of the output, without lines of progress
    int64_t ms_max;          // 0: no limit
    bool alone;              // the user is asked for nothing
    int in;                  // its standard input; 0: nothing
    // At least ten times a second. total 0: nothing is known yet. NULL: not called.
    void (*on_progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

// *text is heap memory with the lines that the program has printed, without those of progress,
// also after an error. A signal ends the program (ERR_INTERRUPTED). The program's own error
// becomes e.
int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *e);

// The source of the AWS credentials, in words, and their end. The error has the remedy.
struct dtdata_account {
    const char *from, *region;
    int64_t ends_ms; // wall clock; 0: no end is known
};
int dtdata_account(struct context *s, struct dtdata_account *out, struct err *e);

#endif
