// SPDX-License-Identifier: Apache-2.0
// The worker processes of one node in one round: folders, streams and environment, start, stop with
// a grace period, description of failures.
//
//     workers_init(&w, loop, &config, &events);
//     workers_start(&w, &facts, 0, e); // on_started, then on_exited per worker, then on_gone
//     workers_stop(&w, SIGTERM, 30000); // SIGKILL after the grace period
//
// Log tree: <base>/attempt_<round>/<local rank>/{stdout.log,stderr.log,error.json}; filtered lines
// are in <base>/attempt_<round>/filtered_{stdout,stderr}.log. Ownership: the module owns everything
// made by workers_start until on_gone; w->list stays readable until the next start.
#ifndef WORKER_WORKERS_H
#define WORKER_WORKERS_H

#include "base/arena.h"
#include "base/err.h"
#include "protocol/failure.h"
#include "worker/guard.h"
#include "worker/log_tee.h"
#include "worker/sagemaker.h"
#include "worker/worker_env.h"
#include "worker/worker_postmortem.h"

#include <sched.h>
#include <stdbool.h>

enum { STREAM_OUT = 1, STREAM_ERR = 2 }; // torchrun's numbers for redirects and tee
enum { WORKERS_TAIL_BYTES_MAX = 8 << 10, WORKERS_TAIL_LINES_MAX = 20 };

struct workers_config {
    const char *const *command; // ${local_rank} in it is replaced
    char *const *env;           // inherited by workers
    const char *cwd;            // NULL: the agent's
    int nproc;
    const char *log_base;                                   // NULL: no log files
    const unsigned char *streams_to_file, *streams_to_both; // per local rank, STREAM_* bits
    const bool *on_console;                                 // per local rank
    const char *const *words_out, *const *words_err; // duplicate filters, NULL-terminated or NULL
    const char *prefix; // template; NULL: "[${role_name}${local_rank}]:"
    const char *role, *host;
    uint64_t descriptors_max;
    const cpu_set_t *processors; // per local rank; NULL: the agent's
    struct sagemaker *sagemaker; // the tree and variables of compat.sagemaker; NULL: none
};

struct worker {
    int local_rank, rank;
    pid_t pid;
    bool running, ended;
    bool stopped;     // ended after a stop order of the agent
    bool lease_ended; // ended after the lease that its guard knew
    int status;       // of waitpid; -1: not started (see text)
    int64_t started_mono_ms, ended_mono_ms, ended_wall_ms;
    const char *dir, *out_path, *err_path, *error_path; // NULL without such a file
    const char *text;                                   // why it was not started, or was ended
    int64_t stuck_mono_ms; // when it was first seen in uninterruptible sleep; 0: it is not
};

struct workers;
struct workers_events {
    void (*on_started)(struct workers *w); // all workers run or have failed to start
    void (*on_exited)(struct workers *w, const struct worker *x);
    void (*on_gone)(struct workers *w, int orphans); // no process is left
};

struct workers {
    struct loop *loop;
    const struct workers_config *config;
    const struct workers_events *events;
    struct arena arena; // of the round
    struct guard guard;
    struct tee *tee;
    struct worker_evidence evidence;
    struct timer kill;
    int filtered_fds[2];
    struct worker *list;
    int count, reported, round;
    bool stopping;
    void *ctx;
};

void workers_init(struct workers *w, struct loop *loop, const struct workers_config *config,
                  const struct workers_events *events);
void workers_fini(struct workers *w); // must be idle
int workers_start(struct workers *w, const struct worker_facts *f, int64_t lease_ms, struct err *e);
// Sends the signal, and SIGKILL after grace_ms. A repeated call sends no signal; a shorter grace
// period replaces the longer one.
void workers_stop(struct workers *w, int signal, int64_t grace_ms);
void workers_signal(struct workers *w, int signal); // to every worker, without stopping it
void workers_lease(struct workers *w, int64_t mono_ms);
bool workers_is_idle(const struct workers *w);
pid_t workers_stuck(const struct workers *w); // guard_stuck
void workers_abandon(struct workers *w);      // the rest cannot be killed: on_gone is called now
// True when it exited with 0 by itself.
bool worker_succeeded(const struct worker *x);
// Describes a worker that failed; texts in the arena.
void workers_failure(struct workers *w, const struct worker *x, struct arena *a,
                     struct worker_failure *out);
// The last lines of a log file, in the arena; "" when there is none.
const char *workers_tail(struct arena *a, const char *path);

#endif
