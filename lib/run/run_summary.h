// SPDX-License-Identifier: Apache-2.0
// The outcome of a run: `summary.json`, and the screen at its end.
//
// Pure but for reading the trainer's own summary; both texts are appended to a strbuf.
#ifndef RUN_RUN_SUMMARY_H
#define RUN_RUN_SUMMARY_H

#include "follow/follow.h"
#include "run/results/results.h"

struct summary {
    const struct context *context;
    const struct run *run;
    const struct follow *follow;
    const struct collect_result *collect; // NULL: not fetched
    const struct json *trainer;           // output/summary.json of the native trainer, or NULL
    struct arena *arena;
};

void run_summary_json(const struct summary *s, struct strbuf *out);
void run_summary_text(const struct summary *s, struct strbuf *out);
// The failing rank, its last lines, its signal, its node, and one next step; empty if no rank
// failed.
void run_summary_failure(const struct summary *s, struct strbuf *out);

// Rewrites events.jsonl with all events of the nodes and of dtctl, in order of time.
int run_summary_merge_events(const struct follow *f, struct err *e);

#endif
