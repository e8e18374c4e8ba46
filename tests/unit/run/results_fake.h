// SPDX-License-Identifier: Apache-2.0
// In place of results.h: results are here without a transfer, after some time of the turned clock.
//
//     collect_fails = true; … is_int(collected, 1, "…"); is_str(collect_gone, "010", "…");
#ifndef DTCTL_TESTS_UNIT_RUN_RESULTS_FAKE_H
#define DTCTL_TESTS_UNIT_RUN_RESULTS_FAKE_H

#include "run/results/results.h"
#include "tests/unit/turned_clock.h"

enum { COLLECT_NODES_MAX = 8, COLLECT_MS = 300, COLLECT_BYTES = 77 };

static int collected;        // calls
static bool collect_is_part; // something is missing
static bool collect_fails;
static char collect_gone[COLLECT_NODES_MAX + 1]; // by node, '1': its part is lost

struct xfer *fake_collect_start(struct fleet_node *n, const struct run *r, unsigned kinds,
                                const struct xfer_events *events, void *ctx,
                                struct err *why) __asm__("results_collect_start");
unsigned fake_with_work(const struct run *r) __asm__("results_with_work");
int fake_collect(struct fleet *f, struct run *r, const struct run_history *history, bool *gone,
                 struct collect_result *out, struct err *why) __asm__("results_collect");

struct xfer *fake_collect_start(struct fleet_node *n, const struct run *r, unsigned kinds,
                                const struct xfer_events *events, void *ctx, struct err *why) {
    (void)n, (void)r, (void)kinds, (void)events, (void)ctx, (void)why;
    return NULL;
}

unsigned fake_with_work(const struct run *r) {
    return r->bring_work ? RESULT_WORK : 0;
}

int fake_collect(struct fleet *f, struct run *r, const struct run_history *history, bool *gone,
                 struct collect_result *out, struct err *why) {
    (void)r, (void)history;
    collected++;
    for (size_t i = 0; i < f->count && i < COLLECT_NODES_MAX; i++)
        collect_gone[i] = gone[i] ? '1' : '0';
    *out =
        (struct collect_result){.complete = !collect_is_part, .totals = {.bytes = COLLECT_BYTES}};
    clock_ahead_ms += COLLECT_MS;
    return collect_fails ? err_set(why, ERR_SYS, "no room") : 0;
}

#endif
