// SPDX-License-Identifier: Apache-2.0
// Questions to the person at the terminal.
#include "job/session.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 64 };

struct question {
    struct watch watch;
    ssize_t len; // -1: no answer yet
    char text[ANSWER_BYTES_MAX];
};

static void on_answer(struct watch *w, unsigned events) {
    (void)events;
    struct question *q = container_of(w, struct question, watch);
    ssize_t n = read(w->fd, q->text, sizeof q->text);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    q->len = n < 0 ? 0 : n;
    watch_stop(w);
}

bool session_can_ask(const struct session *s) {
    return s->screen->style != SCREEN_JSON && isatty(STDIN_FILENO) && isatty(s->screen->note_fd);
}

int session_interrupted(const struct session *s, struct err *e) {
    return err_set(e, ERR_INTERRUPTED, "stopped by %s",
                   s->last_signal == SIGINT ? "Ctrl-C" : "a signal");
}

int session_ask(struct session *s, const char *question, struct err *e) {
    struct question q = {.len = -1};
    if (s->config->yes)
        return 1;
    if (!session_can_ask(s))
        return err_set(e, ERR_USAGE, "there is no terminal to ask '%s' on (try: -y)", question);
    screen_erase(s->screen);
    // Also when quiet: without the question nobody knows what is waited for.
    dprintf(s->screen->note_fd, "%s [y/N] ", question);
    if (watch_start(s->loop, &q.watch, STDIN_FILENO, LOOP_READ, on_answer, e) < 0)
        return -1;
    int before = s->interrupts;
    while (q.len < 0 && s->interrupts == before)
        loop_once(s->loop, -1);
    watch_stop(&q.watch);
    if (q.len <= 0) // a signal, or the end of the input: the line still stands
        dprintf(s->screen->note_fd, "\n");
    if (q.len < 0)
        return session_interrupted(s, e);
    return q.len > 0 && (q.text[0] == 'y' || q.text[0] == 'Y');
}
