// SPDX-License-Identifier: Apache-2.0
// The failure report that a person reads: torchrun's box, root cause of all nodes, last lines.
// Pure.
#ifndef ELASTIC_REPORT_H
#define ELASTIC_REPORT_H

#include "base/str.h"
#include "elastic/wire.h"

// failures by time, the root cause first; title is the script's or program's name.
void report_failures(struct strbuf *out, const char *title, const struct wire_failure *failures,
                     int64_t count);
// "exitcode: 1", torchrun's convention: the negative number of a signal.
int report_exit_code(const struct wire_failure *f);

#endif
