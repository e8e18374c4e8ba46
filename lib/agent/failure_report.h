// SPDX-License-Identifier: Apache-2.0
// Reports failed workers: as text (torchrun's box, root cause over all nodes, last lines) and as an
// event.
#ifndef AGENT_FAILURE_REPORT_H
#define AGENT_FAILURE_REPORT_H

#include "agent/event_log.h"
#include "base/str.h"
#include "protocol/failure.h"

// failures by time, the root cause first; title is the script's or program's name.
void failure_report_print(struct strbuf *out, const char *title,
                          const struct worker_failure *failures, int64_t count);
// "exitcode: 1", torchrun's convention: the negative number of a signal.
int failure_report_exit_code(const struct worker_failure *f);
void failure_report_event(struct events *ev, const struct worker_failure *f, int64_t round,
                          bool is_root);

#endif
