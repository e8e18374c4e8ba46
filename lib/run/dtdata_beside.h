// SPDX-License-Identifier: Apache-2.0
// Runs dtdata beside other work: the loop reads what it prints.
//
//     dtdata_beside_start(&d, s, &call, on_end, e);
//     … on_end, from the loop, unless dtdata_beside_stop(&d) comes first …
//
// After call->ms_max, or more output than call->bytes_max, the process is killed and on_end gets
// the error. call->in and call->on_progress have no meaning here, and the user is asked for
// nothing.
#ifndef RUN_DTDATA_BESIDE_H
#define RUN_DTDATA_BESIDE_H

#include "run/dtdata_program.h"
#include "sys/loop.h"

enum { DTDATA_BESIDE_END_MS_MAX = 3000 }; // from SIGTERM to SIGKILL

struct dtdata_beside;
// Once, after the process was reaped; d may be started again. text: the lines that it has printed,
// until the function returns. e->code is ERR_NONE, or the first error.
typedef void dtdata_beside_end(struct dtdata_beside *d, const struct strbuf *text,
                               const struct err *e);

struct dtdata_beside {
    struct dtdata_program program;
    struct watch out;
    struct child child;
    struct timer limit;
    int64_t ms_max;
    struct err err; // why it was killed
    dtdata_beside_end *on_end;
};

int dtdata_beside_start(struct dtdata_beside *d, struct context *s, const struct dtdata_call *call,
                        dtdata_beside_end *on_end, struct err *e);
bool dtdata_beside_runs(const struct dtdata_beside *d);
void dtdata_beside_stop(struct dtdata_beside *d); // ends and reaps it; no callback

#endif
