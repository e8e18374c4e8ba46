// SPDX-License-Identifier: Apache-2.0
// What every operation of dtctl shares: configuration, cluster folder, screen, loop, interrupts.
//
// Made once by cmd/dtctl for a command and lent to lib/job; everything in it is the caller's.
#ifndef JOB_SESSION_H
#define JOB_SESSION_H

#include "base/arena.h"
#include "base/err.h"
#include "cluster/state.h"
#include "conf/config.h"
#include "job/screen.h"
#include "sys/loop.h"

#include <stdbool.h>

struct session {
    struct arena *arena; // lives as long as the command
    const struct config *config;
    struct cluster cluster;
    struct screen *screen;
    struct loop *loop;
    int interrupts; // SIGINT, SIGTERM, SIGHUP seen so far
    int last_signal;
    // Called for each of those signals (and SIGWINCH); NULL: they stop what fleet_each waits for.
    void (*on_signal)(void *ctx, int signal);
    void *signal_ctx;
};

// Whether somebody sits there who can be asked.
bool session_can_ask(const struct session *s);
// Asks "<question> [y/N]" on the terminal: 1 yes (also with -y, unasked), 0 no. -1 when a signal
// came instead of an answer (ERR_INTERRUPTED), and when nobody can be asked (ERR_USAGE, which names
// -y).
int session_ask(struct session *s, const char *question, struct err *e);
// Fills in ERR_INTERRUPTED with what interrupted; -1.
int session_interrupted(const struct session *s, struct err *e);

#endif
