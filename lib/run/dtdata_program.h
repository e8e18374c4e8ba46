// SPDX-License-Identifier: Apache-2.0
// A dtdata that runs: its process, its pipes, and what it has printed so far. Private to
// lib/run/dtdata.c, which waits for it, and dtdata_beside.c, which does not.
#ifndef RUN_DTDATA_PROGRAM_H
#define RUN_DTDATA_PROGRAM_H

#include "run/dtdata.h"

#include <sys/types.h>

struct dtdata_program {
    struct context *context;
    pid_t pid;
    int from, to; // its standard output, its standard input
    bool alone;
    size_t bytes_max;
    struct strbuf text, begun; // complete lines; the line that is not complete yet
    uint64_t done, total;
    int64_t waited_ms; // for the user
};

// The caller reads `from`, reaps the process, and closes.
int dtdata_program_start(struct dtdata_program *p, struct context *s,
                         const struct dtdata_call *call, struct err *e);
int dtdata_program_take(struct dtdata_program *p, const char *bytes, size_t len, struct err *e);
// All output was taken. status: waitpid's. -1: e is the error that the program has printed.
int dtdata_program_ended(struct dtdata_program *p, int status, struct err *e);
void dtdata_program_close(struct dtdata_program *p); // not the process

#endif
