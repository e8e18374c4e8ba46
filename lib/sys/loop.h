// SPDX-License-Identifier: Apache-2.0
// The event loop: one thread, one epoll, level-triggered. Watches, timers, signals, children.
//
// Watches, timers and children are embedded in the object they serve; the caller owns the memory.
// Stopping any of them is safe inside any callback, and afterwards its memory may be reused at
// once: events of the same batch that were meant for it are dropped.
//
//     struct loop *loop = loop_open(e);
//     watch_start(loop, &c->watch, fd, LOOP_READ, on_readable);   // container_of in the callback
//     timer_start(loop, &c->timer, 2000, on_timeout);
//     loop_run(loop);                                             // until loop_stop
#ifndef SYS_LOOP_H
#define SYS_LOOP_H

#include "base/err.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#define container_of(p, T, member) ((T *)((char *)(p)-offsetof(T, member)))

struct loop;

enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 /* reported always, with READ set too */ };

struct watch;
typedef void watch_cb(struct watch *w, unsigned events);
struct watch {
    struct loop *loop; // NULL while stopped
    watch_cb *cb;
    int fd;
    unsigned events;
};

struct timer;
typedef void timer_cb(struct timer *t);
struct timer {
    struct loop *loop; // NULL while stopped
    timer_cb *cb;
    int64_t due_ms; // monotonic
    size_t heap_index;
};

// A deferred action, run when no other callback is on the stack.
struct deferred;
typedef void deferred_cb(struct deferred *d);
struct deferred {
    struct loop *loop; // NULL unless it waits
    deferred_cb *cb;
    struct deferred *next;
};

// One process; exactly one callback, after it was reaped. status is waitpid's.
struct child;
typedef void child_cb(struct child *c, int status);
struct child {
    struct watch watch; // on the pidfd
    child_cb *cb;
    pid_t pid;
};

typedef void signal_cb(void *ctx, const struct signalfd_siginfo *info);

struct loop *loop_open(struct err *e); // NULL on error
void loop_close(struct loop *loop);    // everything must have been stopped
void loop_run(struct loop *loop); // returns after loop_stop, or when nothing is left to wait for
void loop_stop(struct loop *loop);
// One batch: waits at most timeout_ms (-1: no limit), runs what is due. For tests and nested
// drivers.
void loop_once(struct loop *loop, int timeout_ms);
// For a driver that waits for other things too: readable when loop_once has events to deliver.
// Timers are not seen in it.
int loop_fd(const struct loop *loop);
// For a callback that has just answered a client which usually asks again at once. Before the loop
// sleeps it polls for LOOP_LINGER_NS, since sleeping and waking take longer than most requests.
// Each time no event arrives, twice as many later calls have no effect (LOOP_LINGER_SKIP_MAX at
// most), so rare requests cost almost nothing.
void loop_linger(struct loop *loop);
enum { LOOP_LINGER_NS = 50 * 1000, LOOP_LINGER_SKIP_MAX = 255 };

// Takes fd's readiness; does not own fd. events: LOOP_READ | LOOP_WRITE (0 watches for hang-up
// only).
int watch_start(struct loop *loop, struct watch *w, int fd, unsigned events, watch_cb *cb,
                struct err *e);
void watch_modify(struct watch *w, unsigned events);
void watch_stop(struct watch *w); // no-op when stopped; call before closing fd

void timer_start(struct loop *loop, struct timer *t, int64_t delay_ms, timer_cb *cb); // restarts
void timer_stop(struct timer *t); // no-op if idle

// Calls cb once, after the callbacks of this batch and before the loop sleeps, in order of the
// calls. Used for memory that a callback further up the stack may still use. loop_close runs
// pending ones.
void loop_defer(struct loop *loop, struct deferred *d, deferred_cb *cb);

// Follows a child of this process by pidfd and reaps it.
int child_start(struct loop *loop, struct child *c, pid_t pid, child_cb *cb, struct err *e);
void child_stop(struct child *c); // forgets it without reaping

// Blocks the signals of the set for this process and delivers them to cb through signalfd. One set
// per loop; children started by proc.h get the previous mask back. NULL set stops.
int loop_signals(struct loop *loop, const sigset_t *set, signal_cb *cb, void *ctx, struct err *e);
// Delivers pending signals only; does not block.
void loop_take_signals(struct loop *loop);

#endif
