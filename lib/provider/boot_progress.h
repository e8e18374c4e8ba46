// SPDX-License-Identifier: Apache-2.0
// The boot progress of each node of a new cluster, and the time spent in `up`.
//
//     phases_open(&p, context, names, count);
//     phases_reach(&p, i, PHASE_RUNNING); // for each phase of a node
//     phases_hide(&p); // before another step draws
//     phases_format(&p, &text);                 // the table at the end
//
// While shown, the screen has one row per node. In JSON style each step is an event
// {"event":"phase","node":…,"phase":…,"ms":…}. Times count from phases_open. Memory is the
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

enum phase {
#define X(id, name, heading) id,
    PHASES(X)
#undef X
        PHASE_COUNT
};

struct phases {
    struct context *context;
    const char **names;
    size_t count;
    struct phases_node {
        int64_t at_ms[PHASE_COUNT]; // -1: not reached
        bool failed;
    } * nodes;
    int64_t started_ms, terraform_ms, boot_ms, total_ms;
    struct progress progress;
    struct timer tick;
    bool shown;
};

struct phases *phases_open(struct context *s, const char *const *names, size_t count);
// Shows the rows until phases_hide.
void phases_show(struct phases *p);
void phases_hide(struct phases *p);
void phases_reach(struct phases *p, size_t node, enum phase phase);
void phases_say(struct phases *p, size_t node,
                const char *words); // shown until the node's next phase
void phases_fail(struct phases *p, size_t node, const char *words);
// Time outside Terraform and the boot of the slowest node is counted as dtctl's own.
void phases_finish(struct phases *p, int64_t terraform_ms, int64_t boot_ms);
void phases_format(const struct phases *p, struct strbuf *out);
void phases_json(const struct phases *p, struct json_out *j); // members of an open object

#endif
