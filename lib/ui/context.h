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

typedef void context_signal(void *ctx, int signal);

struct context {
    struct arena *arena; // lives as long as the command
    const struct config *config;
    char *const *env; // of the program
    struct cluster cluster;
    struct screen *screen;
    struct loop *loop;
    int interrupt;   // the newest signal that nobody has acted on; 0: none
    int last_signal; // the newest of all; 0: none came
    context_signal *on_signal;
    void *signal_ctx;
};

// Blocks the signals and receives them from now on.
int context_signals(struct context *s, struct err *e);
// The signal that nobody has acted on yet, 0: none. One that has not been read yet counts.
int context_interrupt(struct context *s);
// The same, and the caller acts on it: what it does next is stopped by another signal only.
int context_take_interrupt(struct context *s);
// 0, or ERR_INTERRUPTED when there is such a signal; it stays.
int context_check(struct context *s, struct err *e);
// fn acts on signals (and SIGWINCH) from now on, first on one that is waiting. NULL: they stop what
// waits again.
void context_listen(struct context *s, context_signal *fn, void *ctx);
// Turns the loop for that long. ERR_INTERRUPTED at once when a signal comes.
int context_pause(struct context *s, int64_t ms, struct err *e);
// Whether somebody sits there who can be asked.
bool context_can_ask(const struct context *s);
// Asks "<question> [y/N]" on the terminal: 1 yes (also with -y, unasked), 0 no. -1 when a signal
// came instead of an answer (ERR_INTERRUPTED), and when nobody can be asked (ERR_USAGE, which names
// -y).
int context_ask(struct context *s, const char *question, struct err *e);

#endif
