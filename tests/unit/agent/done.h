// SPDX-License-Identifier: Apache-2.0
// The calls of stand-ins, in order, as one text.
#ifndef TESTS_UNIT_AGENT_DONE_H
#define TESTS_UNIT_AGENT_DONE_H

#include "tests/tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char done[1024];

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...) {
    size_t len = strlen(done);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(done + len, sizeof done - len, fmt, ap);
    va_end(ap);
}

// One point; the text begins anew.
static void is_done(const char *want, const char *what) {
    is_str(done, want, "%s", what);
    done[0] = '\0';
}

#endif
