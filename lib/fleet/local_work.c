// SPDX-License-Identifier: Apache-2.0
// Sees signals, runs the loop and shows progress between the pieces of long work on files.
#include "fleet/local_work.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>

enum { LOOK_MS = 20 };

static int on_tick(void *ctx, uint64_t bytes, struct err *e) {
    struct local_work *w = ctx;
    char size[STR_HUMAN_BYTES_MAX], text[64];
    int64_t now_ms = clock_mono_ms();
    w->bytes += bytes;
    w->steps += bytes == 0;
    if (now_ms - w->looked_ms < LOOK_MS)
        return 0;
    loop_once(w->context->loop, 0);
    snprintf(text, sizeof text, "%zu steps, %s read", w->steps, str_human_bytes(size, w->bytes));
    progress_state(&w->progress, 0, text);
    progress_show(&w->progress, now_ms);
    w->looked_ms = clock_mono_ms();
    return context_check(w->context, e);
}

void local_work_begin(struct local_work *w, struct context *s, const char *operation) {
    static const char *const names[] = {"here"};
    *w = (struct local_work){.context = s, .looked_ms = clock_mono_ms()};
    w->ticks = (struct content_ticks){.tick = on_tick, .ctx = w};
    progress_init(&w->progress, s->arena, s->screen, operation, names, 1, w->looked_ms);
}

void local_work_end(struct local_work *w) {
    screen_erase(w->context->screen);
}
