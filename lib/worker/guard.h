// SPDX-License-Identifier: Apache-2.0
// The guard: a small process between an agent and its workers, one per round. It starts the
// workers, tells how each ended, and makes sure that none outlives the agent, whatever kills the
// agent.
//
//     agent ── socket pair ── guard (subreaper, own session) ── worker 0 … n-1 (own sessions)
//
// The guard kills everything below it when the agent's end of the socket closes (the kernel does
// that for a killed agent) or when the lease that the agent has to renew runs out (a stopped or
// frozen agent). Processes that leave their group or session, or fork twice, fall to the guard
// because it is their nearest subreaper; it goes on until it has no child left. If the guard itself
// is killed, its workers get SIGKILL as their parent-death signal, and strays fall to the agent, a
// subreaper too.
//
//     guard_start(&g, loop, &spec, &events, e);     // fork, no exec
//     guard_stop(&g, SIGTERM); guard_kill(&g);      // whole groups
//     … events … on_gone                            // nothing is left; g may be reused
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
    GUARD_ORPHAN_MS = 500, // strays of workers that have all ended may end by themselves so long
    GUARD_TEXT_BYTES_MAX = 512,
};

struct guard_worker { // everything is used once, inside guard_start
    const char *const *argv;
    const char *const *env;
    int out, err;                // descriptors for its standard streams
    const cpu_set_t *processors; // that it may run on; NULL: the agent's
};

struct guard_spec {
    const struct guard_worker *workers;
    int count;
    int in;                   // standard input of the workers
    const char *cwd;          // NULL: inherit
    uint64_t descriptors_max; // RLIMIT_NOFILE (soft) of the workers; 0: as the agent's
    int64_t lease_ms;         // monotonic time at which everything dies unless renewed; 0: no lease
};

struct guard;

struct guard_exit {
    int local_rank;
    pid_t pid;
    int status;   // waitpid's; -1: it could not be started, see text
    bool stopped; // it ended after guard_stop or guard_kill, or was ended with its guard
    int64_t mono_ms, wall_ms;
    char text[GUARD_TEXT_BYTES_MAX];
};

struct guard_events {
    void (*on_started)(struct guard *g, int local_rank, pid_t pid);
    void (*on_exited)(struct guard *g, const struct guard_exit *x);
    // Once, last: no process of the round is left. orphans: strays that had to be killed.
    void (*on_gone)(struct guard *g, int orphans);
};

struct guard {
    struct loop *loop; // NULL when idle
    const struct guard_events *events;
    struct watch watch;
    struct child child;
    int fd;
    int orphans;
    bool told_gone, reaped;
    int count;
    pid_t *pids; // by local rank; 0: not running
    bool *running;
    void *ctx;
};

// Makes this process the last resort for strays. Once, at the start of the agent.
int guard_subreaper(struct err *e);
int guard_start(struct guard *g, struct loop *loop, const struct guard_spec *spec,
                const struct guard_events *events, struct err *e);
void guard_signal(struct guard *g, int signal); // to the group of every worker that is left
void guard_stop(struct guard *g, int signal);   // the same; those that end from now on are stopped
void guard_kill(struct guard *g);               // SIGKILL to everything
void guard_lease(struct guard *g, int64_t mono_ms);
bool guard_is_idle(const struct guard *g);
// All that is left is in uninterruptible sleep: one of those processes, else 0.
pid_t guard_stuck(const struct guard *g);
// Waits no longer: on_gone comes now. The guard ends what is left as soon as that can be.
void guard_abandon(struct guard *g);

#endif
