// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and other signals while a run is followed: detach, or stop the run.
#include "run/monitor_impl.h"

#include "base/clock.h"

static void on_leave(struct timer *t) {
    struct attention *a = container_of(t, struct attention, leave);
    a->follow.leave = true;
}

static void ask_to_stop(struct attention *a, int signal, int64_t now_ms) {
    struct context *s = a->follow.context;
    timer_stop(&a->leave);
    if (a->stop_ms) { // a second request only detaches
        a->follow.leave |= now_ms - a->stop_ms > MONITOR_SAME_MS_MAX;
        return;
    }
    a->stop_ms = now_ms;
    a->view.muted = false;
    screen_note(s->screen, "stopping the run on all nodes …");
    monitor_note(s, a->follow.run, "stop-asked", "by", signal == SIGINT ? "Ctrl-C" : "signal",
                 NULL);
    follow_stop_run(&a->follow, "a signal");
}

void monitor_on_signal(void *ctx, int signal) {
    struct attention *a = ctx;
    struct context *s = a->follow.context;
    int64_t now = clock_mono_ms();
    if (signal == SIGWINCH)
        return;
    if (signal == SIGHUP || a->options->until_now) { // reading a run does not end it
        a->follow.leave = true;
        if (!a->options->until_now)
            screen_note(s->screen, "detached; the run continues\n  follow:  dtctl logs -f %s",
                        a->follow.run->id);
    } else if (!a->options->interactive || signal == SIGTERM || a->stop_ms) {
        ask_to_stop(a, signal, now);
    } else if (a->first_ms && now - a->first_ms <= MONITOR_SECOND_MS_MAX) {
        ask_to_stop(a, signal, now);
    } else {
        a->first_ms = now;
        a->view.muted = true;
        screen_note(s->screen,
                    "\ndetached; the run continues (Ctrl-C again within 2 s stops it)\n"
                    "  follow:  dtctl logs -f %s\n"
                    "  stop:    dtctl stop %s",
                    a->follow.run->id, a->follow.run->id);
        if (a->source.follow)
            screen_note(s->screen, "  streamed inputs of this computer are served while dtctl "
                                   "follows the run; reads of the ranks wait 5 minutes for it");
        timer_start(s->loop, &a->leave, MONITOR_SECOND_MS_MAX, on_leave);
    }
}
