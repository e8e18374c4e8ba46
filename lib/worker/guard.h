// SPDX-License-Identifier: Apache-2.0
// The guard: a small process between an agent and its workers, one per round. It starts the
// workers, reports the end of each, and ensures that none outlives the agent, whatever kills the
// agent.
//
//     agent ── socket pair ── guard (subreaper, own session) ── worker 0 … n-1 (own sessions)
//
// The guard kills everything below it when the agent's end of the socket closes (the kernel closes
// it for a killed agent), or when the lease that the agent must renew expires (a stopped or frozen
// agent). Processes that leave their group or session, or fork twice, are reparented to the guard,
// their nearest subreaper. It runs until it has no child left. If the guard itself is killed, its
// workers get SIGKILL as parent-death signal, and strays are reparented to the agent, also a
// subreaper.
//
//     guard_start(&g, loop, &spec, &events, e);     // fork, no exec
//     guard_stop(&g, SIGTERM); guard_kill(&g);      // whole groups
//     … events … on_gone // no process is left; g may be reused
#ifndef WORKER_GUARD_H
#define WORKER_GUARD_H

#include "base/err.h"
#include "sys/loop.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    GUARD_WORKERS_MAX = 1024,
    GUARD_ORPHAN_MS =
        500, // after the end of all workers their strays may end by themselves within this time
    GUARD_TEXT_BYTES_MAX = 512,
};

struct guard_worker { // all members are used only inside guard_start
    const char *const *argv;
    const char *const *env;
    int out, err;                // descriptors for its standard streams
    const cpu_set_t *processors; // processors it may run on; NULL: the agent's
};

struct guard_spec {
    const struct guard_worker *workers;
    int count;
    int in;                   // standard input of the workers
    const char *cwd;          // NULL: inherit
    uint64_t descriptors_max; // RLIMIT_NOFILE (soft) of the workers; 0: as the agent's
    // Called in the guard before the workers start; -1: none is started. NULL: nothing to do.
    int (*enter)(const void *ctx, struct err *e);
    const void *enter_ctx;
    int64_t lease_ms; // monotonic time at which everything is killed unless renewed; 0: no lease
};

struct guard;

struct guard_exit {
    int local_rank;
    pid_t pid;
    int status;       // of waitpid; -1: it could not be started, see text
    bool stopped;     // it ended after guard_stop or guard_kill, or with its guard
    bool lease_ended; // it ended after the lease that the guard knew
    int64_t mono_ms, wall_ms;
    char text[GUARD_TEXT_BYTES_MAX];
};

struct guard_events {
    void (*on_started)(struct guard *g, int local_rank, pid_t pid);
    void (*on_exited)(struct guard *g, const struct guard_exit *x);
    // Called once, last: no process of the round is left. orphans: killed strays.
    void (*on_gone)(struct guard *g, int orphans);
};

struct guard {
    struct loop *loop; // NULL when idle
    const struct guard_events *events;
    struct watch watch;
    struct child child;
    int fd;
    int orphans;
    bool reported_gone, reaped;
    int count;
    pid_t *pids; // by local rank; 0: not running
    bool *running;
    void *ctx;
};

// Makes this process the subreaper for strays. Call once, at the start of the agent.
int guard_subreaper(struct err *e);
int guard_start(struct guard *g, struct loop *loop, const struct guard_spec *spec,
                const struct guard_events *events, struct err *e);
void guard_signal(struct guard *g, int signal); // to the group of every remaining worker
void guard_stop(struct guard *g,
                int signal);      // the same; workers that end from now on count as stopped
void guard_kill(struct guard *g); // SIGKILL to all
void guard_lease(struct guard *g, int64_t mono_ms);
bool guard_is_idle(const struct guard *g);
// If all remaining processes are in uninterruptible sleep: one of them, else 0.
pid_t guard_stuck(const struct guard *g);
// Stops waiting: on_gone is called now. The guard kills the remaining processes as soon as
// possible.
void guard_abandon(struct guard *g);

#endif
