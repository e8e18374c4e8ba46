// SPDX-License-Identifier: Apache-2.0
// --watch: shows a state again and again.
#include "watch.h"

void watch_begin(struct context *s, const struct watch_flags *f) {
    static const char home[] = "\033[H\033[J";
    if (f->watch && s->screen->style == SCREEN_TERMINAL && s->screen->out_is_terminal)
        screen_write(s->screen, home, sizeof home - 1);
    else if (f->watch)
        screen_out(s->screen, "\n");
}

// Each look has memory of its own, as there may be many.
static int watch_once(struct context *s, watch_fn *fn, const struct cli_rest *rest,
                      const struct watch_flags *f, struct err *e) {
    struct arena *kept = s->arena, own = {0};
    s->arena = s->cluster.arena = &own;
    int result = fn(s, rest, f, e);
    s->arena = s->cluster.arena = kept;
    arena_fini(&own);
    return result;
}

int watch_again(struct context *s, watch_fn *fn, const struct cli_rest *rest,
                const struct watch_flags *f, struct err *e) {
    if (!f->watch)
        return fn(s, rest, f, e);
    while (!s->screen->broken) {
        // Nodes that do not answer may do so at the next look.
        int result = watch_once(s, fn, rest, f, e);
        if (result == WATCH_OVER)
            return 0;
        if (result < 0 && e->code != ERR_SOME_FAILED && e->code != ERR_NO_STATUS)
            return -1;
        err_clear(e);
        if (context_pause(s, f->every_ms, e) < 0)
            return -1;
    }
    return 0;
}
