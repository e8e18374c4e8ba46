// SPDX-License-Identifier: Apache-2.0
// Interrupts of dtctl, and questions to the user at the terminal.
#include "ui/context.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 64 };

// ---- signals -----------------------------------------------------------------------------------

static void on_signal(void *ctx, const struct signalfd_siginfo *info) {
    struct context *s = ctx;
    int signal = (int)info->ssi_signo;
    if (signal != SIGWINCH) {
        s->last_signal = signal;
        s->screen->hurried = true;
    }
    if (s->on_signal)
        s->on_signal(s->signal_ctx, signal);
    else if (signal != SIGWINCH)
        s->interrupt = signal;
}

int context_signals(struct context *s, struct err *e) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    return loop_signals(s->loop, &set, on_signal, s, e);
}

int context_interrupt(struct context *s) {
    if (!s->interrupt)
        loop_take_signals(s->loop);
    return s->interrupt;
}

int context_take_interrupt(struct context *s) {
    int signal = context_interrupt(s);
    s->interrupt = 0;
    return signal;
}

int context_check(struct context *s, struct err *e) {
    int signal = context_interrupt(s);
    return signal ? err_set(e, ERR_INTERRUPTED, "stopped by %s",
                            signal == SIGINT ? "Ctrl-C" : "a signal")
                  : 0;
}

void context_listen(struct context *s, context_signal *fn, void *ctx) {
    int waiting = fn ? context_take_interrupt(s) : 0;
    s->on_signal = fn;
    s->signal_ctx = ctx;
    if (waiting)
        fn(ctx, waiting);
}

int context_pause(struct context *s, int64_t ms, struct err *e) {
    int64_t left_ms, until_ms = clock_mono_ms() + ms;
    while (!context_interrupt(s) && (left_ms = until_ms - clock_mono_ms()) > 0)
        loop_once(s->loop, (int)left_ms);
    return context_check(s, e);
}

// ---- questions ---------------------------------------------------------------------------------

struct question {
    struct watch watch;
    ssize_t len; // -1: no answer yet
    char text[ANSWER_BYTES_MAX];
};

static void on_answer(struct watch *w, unsigned events) {
    (void)events;
    struct question *q = container_of(w, struct question, watch);
    ssize_t n = read(w->fd, q->text, sizeof q->text);
    if (err_not_yet(n))
        return;
    q->len = n < 0 ? 0 : n;
    watch_stop(w);
}

bool context_can_ask(const struct context *s) {
    return s->screen->style != SCREEN_JSON && isatty(STDIN_FILENO) && isatty(s->screen->note_fd);
}

// Reads a line of the terminal into q. A signal leaves q->len at -1.
static int read_answer(struct context *s, struct question *q, struct err *e) {
    if (watch_start(s->loop, &q->watch, STDIN_FILENO, LOOP_READ, on_answer, e) < 0)
        return -1;
    while (q->len < 0 && !context_interrupt(s))
        loop_once(s->loop, -1);
    watch_stop(&q->watch);
    if (q->len <= 0) // a signal, or the end of input: end the line
        dprintf(s->screen->note_fd, "\n");
    return q->len < 0 ? context_check(s, e) : 0;
}

int context_ask(struct context *s, const char *question, struct err *e) {
    struct question q = {.len = -1};
    if (s->config->yes)
        return 1;
    if (!context_can_ask(s))
        return err_set(e, ERR_USAGE, "there is no terminal to ask '%s' on (try: -y)", question);
    screen_erase(s->screen);
    // Printed even when quiet, or the user would not know what dtctl waits for.
    dprintf(s->screen->note_fd, "%s [y/N] ", question);
    if (read_answer(s, &q, e) < 0)
        return -1;
    return q.len > 0 && (q.text[0] == 'y' || q.text[0] == 'Y');
}

int context_ask_text(struct context *s, const char *question, char *out, size_t room,
                     struct err *e) {
    struct question q = {.len = -1};
    if (!context_can_ask(s))
        return err_set(e, ERR_USAGE, "there is no terminal to ask '%s' on", question);
    screen_erase(s->screen);
    dprintf(s->screen->note_fd, "%s ", question);
    if (read_answer(s, &q, e) < 0)
        return -1;
    size_t len = 0, from = 0, end = (size_t)q.len;
    while (from < end && strchr(" \t", q.text[from]))
        from++;
    while (from + len < end && !strchr(" \t\r\n", q.text[from + len]))
        len++;
    if (len == 0 || len >= room)
        return err_set(e, ERR_USAGE, "the answer to '%s' is empty or too long", question);
    memcpy(out, q.text + from, len);
    out[len] = '\0';
    return 0;
}
