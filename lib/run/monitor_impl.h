// SPDX-License-Identifier: Apache-2.0
// Private to monitor.
#ifndef RUN_MONITOR_IMPL_H
#define RUN_MONITOR_IMPL_H

#include "run/agent_restart.h"
#include "run/inputs/input_source.h"
#include "run/monitor.h"
#include "run/monitor_view.h"
#include "run/node_replace.h"
#include "run/results/output_published.h"
#include "run/results/output_upload.h"
#include "run/results/state_published.h"

struct attention {
    struct follow follow;
    struct monitor_view view;
    const struct monitor_options *options;
    struct agent_restart restart;
    struct replace replace;
    struct publish states, outputs;
    struct output_upload upload;
    struct input_source source;
    struct timer leave; // fires when no second Ctrl-C follows
    int64_t stop_ms;    // when the run was asked to stop; 0: it was not
    int64_t first_ms;
};

// monitor_signals.c: a context_listen callback; ctx is the struct attention.
void monitor_on_signal(void *ctx, int signal);

#endif
