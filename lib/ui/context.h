// SPDX-License-Identifier: Apache-2.0
// What every operation of dtctl shares: configuration, cluster folder, screen, loop, interrupts.
//
// Made once by cmd/dtctl for a command and lent to lib/job; everything in it is the caller's.
//
// A signal that asks dtctl to end (SIGINT, SIGTERM, SIGHUP) is kept until somebody acts on it: it
// stops what waits, and each step that would begin after it, until the operation has ended and
// undone what it must. It is never lost between two steps.
#ifndef UI_CONTEXT_H
#define UI_CONTEXT_H

#include "base/arena.h"
#include "base/err.h"
#include "cluster/state.h"
#include "conf/config.h"
#include "sys/loop.h"
#include "ui/screen.h"

#include <stdbool.h>

typedef void session_signal(void *ctx, int signal);

struct session {
    struct arena *arena; // lives as long as the command
    const struct config *config;
    struct cluster cluster;
    struct screen *screen;
    struct loop *loop;
    int interrupt;   // the newest signal that nobody has acted on; 0: none
    int last_signal; // the newest of all; 0: none came
    session_signal *on_signal;
    void *signal_ctx;
};

// Blocks the signals and receives them from now on.
int session_signals(struct session *s, struct err *e);
// The signal that nobody has acted on yet, 0: none. One that has not been read yet counts.
int session_interrupt(struct session *s);
// The same, and the caller acts on it: what it does next is stopped by another signal only.
int session_take_interrupt(struct session *s);
// 0, or ERR_INTERRUPTED when there is such a signal; it stays.
int session_check(struct session *s, struct err *e);
// fn acts on signals (and SIGWINCH) from now on, first on one that is waiting. NULL: they stop what
// waits again.
void session_listen(struct session *s, session_signal *fn, void *ctx);
// Turns the loop for that long. ERR_INTERRUPTED at once when a signal comes.
int session_pause(struct session *s, int64_t ms, struct err *e);
// Whether somebody sits there who can be asked.
bool session_can_ask(const struct session *s);
// Asks "<question> [y/N]" on the terminal: 1 yes (also with -y, unasked), 0 no. -1 when a signal
// came instead of an answer (ERR_INTERRUPTED), and when nobody can be asked (ERR_USAGE, which names
// -y).
int session_ask(struct session *s, const char *question, struct err *e);

#endif
