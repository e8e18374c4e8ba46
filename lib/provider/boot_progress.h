// SPDX-License-Identifier: Apache-2.0
// The boot progress of each node of a new cluster, and the time spent in `up`.
//
//     boot_progress_open(&p, context, names, count);
//     boot_progress_reach(&p, i, PHASE_RUNNING); // for each phase of a node
//     boot_progress_hide(&p); // before another step draws
//     boot_progress_format(&p, &text);                 // the table at the end
//
// While shown, the screen has one row per node. In JSON style each step is an event
// {"event":"phase","node":…,"phase":…,"ms":…}. Times count from boot_progress_open. Memory is the
// context's.
#ifndef PROVIDER_BOOT_PROGRESS_H
#define PROVIDER_BOOT_PROGRESS_H

#include "ui/context.h"
#include "ui/progress.h"

#include <stdbool.h>
#include <stdint.h>

// name, heading of its column
#define PHASES(X)                                                                                  \
    X(PHASE_REQUESTED, "requested", "REQUESTED")                                                   \
    X(PHASE_RUNNING, "running", "RUNNING")                                                         \
    X(PHASE_SSH, "ssh", "SSH")                                                                     \
    X(PHASE_CLOUD_INIT, "cloud-init", "CLOUD-INIT")                                                \
    X(PHASE_CHECKS, "checks", "CHECKS")                                                            \
    X(PHASE_READY, "ready", "READY")

enum boot_phase {
#define X(id, name, heading) id,
    PHASES(X)
#undef X
        PHASE_COUNT
};

struct boot_progress {
    struct context *context;
    const char **names;
    size_t count;
    struct boot_progress_node {
        int64_t at_ms[PHASE_COUNT]; // -1: not reached
        bool failed;
    } * nodes;
    int64_t started_ms, outside_ms, boot_ms, total_ms;
    struct progress progress;
    struct timer tick;
    bool shown;
};

struct boot_progress *boot_progress_open(struct context *s, const char *const *names, size_t count);
// Shows the rows until boot_progress_hide.
void boot_progress_show(struct boot_progress *p);
void boot_progress_hide(struct boot_progress *p);
void boot_progress_reach(struct boot_progress *p, size_t node, enum boot_phase phase);
void boot_progress_say(struct boot_progress *p, size_t node,
                       const char *words); // shown until the node's next phase
void boot_progress_fail(struct boot_progress *p, size_t node, const char *words);
// Time outside of other programs and of the boot of the slowest node is counted as dtctl's own.
void boot_progress_finish(struct boot_progress *p, int64_t outside_ms, int64_t boot_ms);
void boot_progress_format(const struct boot_progress *p, struct strbuf *out);
void boot_progress_json(const struct boot_progress *p,
                        struct json_out *j); // members of an open object

#endif
