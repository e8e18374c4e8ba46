// SPDX-License-Identifier: Apache-2.0
// Long work on files of this computer. Between its pieces signals are seen, the loop runs, so that
// connections to nodes stay, and a row shows how far it is.
//
//     struct local_work w;
//     local_work_begin(&w, s, "merge");
//     result = tree_merge(…, &w.ticks, e); // ERR_INTERRUPTED by a signal
//     local_work_end(&w);
//
// Not inside a callback of the loop. Work of less than a moment shows nothing.
#ifndef FLEET_LOCAL_WORK_H
#define FLEET_LOCAL_WORK_H

#include "content/content_tick.h"
#include "ui/context.h"
#include "ui/progress.h"

#include <stddef.h>

struct local_work {
    struct content_ticks ticks;
    struct context *context;
    struct progress progress;
    uint64_t bytes;
    size_t steps; // between entries
    int64_t looked_ms;
};

void local_work_begin(struct local_work *w, struct context *s, const char *operation);
void local_work_end(struct local_work *w);

#endif
