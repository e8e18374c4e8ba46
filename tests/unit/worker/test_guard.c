// SPDX-License-Identifier: Apache-2.0
// The guard below an agent that does not read keeps the lease and loses no report. The guard says
// of each worker whether an order of the agent came before its end.
#include "worker/guard.h"

#include "base/clock.h"
#include "tests/tap.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 300, LEASE_MS = 10000, WAIT_MS_MAX = 60000 }; // all but one end within the lease

static struct err e;
static int started, ended_well, killed, gone, late;

static void on_started(struct guard *g, int local_rank, pid_t pid) {
    (void)g;
    started += local_rank >= 0 && pid > 0;
}

static void on_exited(struct guard *g, const struct guard_exit *x) {
    (void)g;
    ended_well += x->status == 0;
    killed += x->local_rank == WORKERS - 1 && WIFSIGNALED(x->status);
    late += x->lease_ended;
}

static void on_gone(struct guard *g, int orphans) {
    (void)g;
    gone += orphans == 0;
}

// All workers but the last end at once. The last one holds the pipe.
static void test_frozen_agent(void) {
    static const char *const ends[] = {"true", NULL}, *const stays[] = {"sleep", "600", NULL};
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    static const struct guard_events events = {on_started, on_exited, on_gone};
    static struct guard_worker workers[WORKERS];
    static struct guard g;
    int held[2];
    if (pipe(held) < 0)
        bail_out("no pipe");
    for (int i = 0; i < WORKERS; i++)
        workers[i] = (struct guard_worker){.argv = ends, .env = env, .out = -1, .err = -1};
    workers[WORKERS - 1].argv = stays;
    workers[WORKERS - 1].out = held[1];
    struct guard_spec spec = {
        .workers = workers, .count = WORKERS, .in = -1, .lease_ms = clock_mono_ms() + LEASE_MS};
    struct loop *loop = loop_open(&e);
    if (!loop || guard_start(&g, loop, &spec, &events, &e) < 0)
        bail_out("no guard: %s", e.text);
    close(held[1]);
    struct pollfd p = {.fd = held[0], .events = POLLIN};
    is_int(poll(&p, 1, WAIT_MS_MAX), 1, "the lease holds while %d reports are unread", 2 * WORKERS);
    guard_lease(&g, clock_mono_ms() + WAIT_MS_MAX);
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; !gone && clock_mono_ms() < until;)
        loop_once(loop, 100);
    is_int(gone, 1, "an agent that reads again sees the end");
    is_int(started, WORKERS, "the agent sees every start");
    is_int(ended_well, WORKERS - 1, "the agent sees how each worker ended");
    is_int(killed, 1, "the agent sees that the last worker was killed");
    is_int(late, 1, "the last worker ended with the lease, although a renewal came later");
    ok(guard_is_idle(&g), "the guard can be used again");
    close(held[0]);
    loop_close(loop);
}

// Two events may have the same time stamp. Their order is known all the same.
static bool stopped[3];

static void note_stopped(struct guard *g, const struct guard_exit *x) {
    (void)g;
    stopped[x->local_rank] = x->stopped;
    ended_well++;
}

static void wait_ends(struct loop *loop, int count) {
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX;
         ended_well < count && clock_mono_ms() < until;)
        loop_once(loop, 100);
}

static void test_stopped(void) {
    static const char *const fails[] = {"false", NULL}, *const sleeps[] = {"sleep", "600", NULL},
                             *const ignores[] = {"sh", "-c", "trap '' USR1; echo; exec sleep 600",
                                                 NULL};
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    static const struct guard_events events = {on_started, note_stopped, on_gone};
    struct guard_worker workers[] = {{.argv = fails, .env = env, .out = -1, .err = -1},
                                     {.argv = sleeps, .env = env, .out = -1, .err = -1},
                                     {.argv = ignores, .env = env, .out = -1, .err = -1}};
    struct guard_spec spec = {.workers = workers, .count = 3, .in = -1};
    struct guard g = {0};
    struct loop *loop = loop_open(&e);
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        bail_out("no pipe");
    workers[2].out = ready[1];
    if (!loop || guard_start(&g, loop, &spec, &events, &e) < 0)
        bail_out("no guard: %s", e.text);
    wait_ends(loop, 1);
    is_int(read(ready[0], &byte, 1), 1, "three workers run");
    guard_signal(&g, SIGUSR1);
    wait_ends(loop, 2);
    guard_stop(&g, SIGTERM);
    wait_ends(loop, 3);
    ok(!stopped[0], "a worker that ended by itself was not stopped");
    ok(!stopped[1], "a worker that ended by a notice signal was not stopped");
    ok(stopped[2], "a worker that ended after the order to stop was stopped");
    while (!gone)
        loop_once(loop, 100);
    close(ready[0]);
    close(ready[1]);
    loop_close(loop);
}

int main(void) {
    test_stopped();
    started = ended_well = killed = gone = 0;
    test_stopped();
    started = ended_well = killed = gone = 0;
    test_frozen_agent();
    return done_testing();
}
