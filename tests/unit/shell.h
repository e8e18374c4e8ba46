// SPDX-License-Identifier: Apache-2.0
// The shell, for tests that prepare or compare files with it.
#ifndef TESTS_UNIT_SHELL_H
#define TESTS_UNIT_SHELL_H

#include "sys/proc.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <unistd.h>

// Runs a line in sh; its exit status, or -1.
static int shell(const char *line) {
    struct err e;
    char *out = NULL;
    int status = -1;
    struct proc_spec spec = {.argv = (const char *const[]){"/bin/sh", "-c", line, NULL},
                             .env = environ,
                             .in = -1,
                             .out = -1,
                             .err = 2};
    if (proc_run(&spec, &out, 1 << 20, 30000, &status, &e) < 0)
        diag("%s", e.text);
    free(out);
    return status < 0 ? -1 : proc_status_code(status);
}

#endif
