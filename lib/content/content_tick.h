// SPDX-License-Identifier: Apache-2.0
// Long work on files and folders calls its caller between two entries and between two pieces of
// content, so that neither signals nor a loop wait for its end.
#ifndef CONTENT_CONTENT_TICK_H
#define CONTENT_CONTENT_TICK_H

#include "base/err.h"

#include <stdint.h>

enum { CONTENT_TICK_BYTES = 1 << 20 }; // compared or copied between two calls, at most

// bytes: of content that were read since the last call. -1 with an error ends the work. A caller
// that has nothing else to do passes NULL.
typedef int content_tick(void *ctx, uint64_t bytes, struct err *e);

struct content_ticks { // zeroed: there is no caller; functions that take NULL say so
    content_tick *tick;
    void *ctx;
};

static inline int content_tick_call(const struct content_ticks *t, uint64_t bytes, struct err *e) {
    return t && t->tick ? t->tick(t->ctx, bytes, e) : 0;
}

#endif
