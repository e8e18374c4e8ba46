// SPDX-License-Identifier: Apache-2.0
// The context of a command: configuration, cluster folder, screen, loop, interrupts.
//
// cmd/dtctl creates it once per command and lends it to lib; the caller owns all its parts.
//
// A signal that asks dtctl to end (SIGINT, SIGTERM, SIGHUP) stays pending until the operation acts
// on it. A pending signal stops the current wait and every later step, until the operation has
// ended and undone its changes. It is never lost between two steps.
#ifndef UI_CONTEXT_H
#define UI_CONTEXT_H

#include "base/arena.h"
#include "base/err.h"
#include "cluster/cluster_folder.h"
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
    int interrupt;   // the newest pending signal; 0: none
    int last_signal; // the newest signal; 0: none
    context_signal *on_signal;
    void *signal_ctx;
};

// Blocks the signals and receives them from now on.
int context_signals(struct context *s, struct err *e);
// The pending signal, 0: none. Includes a signal that has not been read yet.
int context_interrupt(struct context *s);
// The same, and clears it: the caller's next steps are stopped only by another signal.
int context_take_interrupt(struct context *s);
// 0, or ERR_INTERRUPTED when a signal is pending; it stays pending.
int context_check(struct context *s, struct err *e);
// Calls fn for signals (and SIGWINCH) from now on, first for a pending one. NULL: signals stop
// waits again.
void context_listen(struct context *s, context_signal *fn, void *ctx);
// Runs the loop for `ms`. ERR_INTERRUPTED at once when a signal comes.
int context_pause(struct context *s, int64_t ms, struct err *e);
// True when a user at a terminal can be asked.
bool context_can_ask(const struct context *s);
// Asks "<question> [y/N]" on the terminal. 1: yes (with -y without asking), 0: no. -1: a signal
// came instead of an answer (ERR_INTERRUPTED), or there is no terminal (ERR_USAGE, which names -y).
int context_ask(struct context *s, const char *question, struct err *e);
// Asks for a word on the terminal. -1: a signal, no answer, one that does not fit (ERR_USAGE), or
// there is no terminal.
int context_ask_text(struct context *s, const char *question, char *out, size_t room,
                     struct err *e);

#endif
