// SPDX-License-Identifier: Apache-2.0
// lib/sys/loop: watches, timers, children, signals, and stopping inside callbacks.
#include "base/clock.h"
#include "sys/loop.h"
#include "sys/proc.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct loop *loop;
static struct err e;

// ---- timers run in order, and one may stop another of the same batch ----
static int order[8], order_len;
static struct timer t1, t2, t3, t4;

static void note(int id) {
    order[order_len++] = id;
}
static void on_t1(struct timer *t) {
    (void)t;
    note(1);
    timer_stop(&t3);
}
static void on_t2(struct timer *t) {
    note(2);
    if (order_len < 5)
        timer_start(loop, t, 0, on_t2); // restart from inside
}
static void on_t3(struct timer *t) {
    (void)t;
    note(3);
}
static void on_t4(struct timer *t) {
    (void)t;
    note(4);
}

static void test_timers(void) {
    timer_start(loop, &t4, 1000, on_t4); // late, also where the machine is busy
    timer_start(loop, &t2, 10, on_t2);
    timer_start(loop, &t1, 1, on_t1);
    timer_start(loop, &t3, 20, on_t3);
    loop_run(loop); // ends by itself: nothing is left
    is_int(order[0], 1, "the earliest timer is first");
    is_int(order[1], 2, "the later timer fires second");
    is_int(order[order_len - 1], 4, "the latest timer is last");
    is_int(order_len, 6, "a stopped timer does not run, a restarted one does");
}

enum { COUNT = 2000 };

// Timers that would be due before one that stands before them.
static int count_disordered(struct timer *many) {
    static const struct timer *at[COUNT];
    int running = 0, disordered = 0;
    for (int i = 0; i < COUNT; i++)
        if (many[i].loop) {
            at[many[i].heap_index] = &many[i];
            running++;
        }
    for (int i = 1; i < running; i++)
        disordered += at[(i - 1) / 2]->due_ms > at[i]->due_ms;
    return disordered;
}

static void test_many_timers(void) {
    static struct timer many[COUNT];
    uint32_t seed = 7;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        timer_start(loop, &many[i], 100000 + seed % 1000, on_t3);
    }
    is_int(count_disordered(many), 0, "timers are in order, whenever they were started");
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        timer_stop(&many[seed % COUNT]);
    }
    is_int(count_disordered(many), 0, "timers are in order after others were stopped");
    int running = 0, broken = 0;
    for (int i = 0; i < COUNT; i++)
        running += many[i].loop != NULL;
    for (int i = 0; i < COUNT; i++) {
        if (many[i].loop && many[i].heap_index >= (size_t)running)
            broken++;
        timer_stop(&many[i]);
    }
    is_int(broken, 0, "the heap stays dense under random removal");
}

// ---- two watches are ready in one batch; the first stops the second ----
static struct watch wa, wb;
static int fired;

static void on_either(struct watch *w, unsigned events) {
    (void)events;
    fired++;
    watch_stop(w == &wa ? &wb : &wa);
    watch_stop(w);
}

static void test_stop_in_batch(void) {
    int p[2], q[2];
    if (pipe(p) < 0 || pipe(q) < 0)
        bail_out("no pipes");
    is_int(write(p[1], "x", 1) + write(q[1], "x", 1), 2, "two pipes are readable");
    watch_start(loop, &wa, p[0], LOOP_READ, on_either, &e);
    watch_start(loop, &wb, q[0], LOOP_READ, on_either, &e);
    loop_run(loop);
    is_int(fired, 1, "a watch stopped by another one of the same batch does not run");
    close(p[0]), close(p[1]), close(q[0]), close(q[1]);
}

// ---- children ----
static int child_status = -1;
static void on_child(struct child *c, int status) {
    (void)c;
    child_status = status;
}

static void test_child(void) {
    struct child c = {0};
    const char *argv[] = {"sh", "-c", "exit 7", NULL};
    pid_t pid = proc_start(
        &(struct proc_spec){.argv = argv, .env = environ, .in = -1, .out = 1, .err = 2}, &e);
    ok(pid > 0, "a child is started");
    is_int(child_start(loop, &c, pid, on_child, &e), 0, "the child is followed");
    loop_run(loop);
    is_int(proc_status_code(child_status), 7, "the child's status arrives once, and the loop ends");
}

// ---- signals ----
static int got_signal;
static void on_signal(void *ctx, const struct signalfd_siginfo *info) {
    (void)ctx;
    got_signal = (int)info->ssi_signo;
    loop_stop(loop);
}
static void on_raise(struct timer *t) {
    (void)t;
    kill(getpid(), SIGUSR1);
    static struct timer guard;
    timer_start(loop, &guard, 5000, on_t4); // keeps the loop alive for the signal
}

static void test_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    is_int(loop_signals(loop, &set, on_signal, NULL, &e), 0, "signals");
    timer_start(loop, &t1, 0, on_raise);
    loop_run(loop);
    is_int(got_signal, SIGUSR1, "a signal is an event");
    loop_signals(loop, NULL, NULL, NULL, &e);
}

// ---- lingering ----
static int lingered;
static void on_linger(struct timer *t) {
    loop_linger(loop);
    if (++lingered < 4000)
        timer_start(loop, t, 0, on_linger);
}
static void on_byte(struct watch *w, unsigned events) {
    char byte;
    (void)events;
    is_int(read(w->fd, &byte, 1), 1, "an event during lingering is delivered");
    watch_stop(w);
}

static void test_linger(void) {
    struct timespec before, after;
    timer_start(loop, &t1, 0, on_linger);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    loop_run(loop);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    int64_t ns =
        (after.tv_sec - before.tv_sec) * INT64_C(1000000000) + after.tv_nsec - before.tv_nsec;
    ok(ns < INT64_C(2000) * LOOP_LINGER_NS, "4000 times of lingering without an event cost %lld us",
       (long long)ns / 1000);
    int fds[2];
    struct watch w = {0};
    is_int(pipe(fds), 0, "a pipe is made");
    is_int(watch_start(loop, &w, fds[0], LOOP_READ, on_byte, &e), 0, "the pipe is watched");
    is_int(write(fds[1], "x", 1), 1, "a byte is written");
    loop_linger(loop);
    loop_run(loop);
    ok(!w.loop, "the watch is removed and the loop ends");
    close(fds[0]), close(fds[1]);
}

// ---- deferred ----
struct late {
    struct deferred gone;
    struct timer timer;
    int *order;
};
static int late_count, inner_count;

static void on_inner(struct deferred *d) {
    (void)d;
    inner_count++;
}
static void on_late(struct deferred *d) {
    static struct deferred inner;
    struct late *l = container_of(d, struct late, gone);
    *l->order = ++late_count;
    if (late_count == 1)
        loop_defer(loop, &inner, on_inner);
    free(l);
}
static void on_defer(struct timer *t) {
    struct late *l = container_of(t, struct late, timer);
    loop_defer(loop, &l->gone, on_late);
    ok(*l->order == 0 && l->gone.loop == loop, "nothing is done inside of the callback");
}

static void test_deferred(void) {
    int done[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct late *l = calloc(1, sizeof *l);
        l->order = &done[i];
        timer_start(loop, &l->timer, i, on_defer);
    }
    loop_run(loop);
    is_int(done[0], 1, "the first deferred function is called afterwards,");
    is_int(done[1], 2, "the second deferred call runs second");
    is_int(inner_count, 1, "a call that was deferred meanwhile runs before the loop ends");
    struct deferred last = {0};
    loop_defer(loop, &last, on_inner);
    loop_close(loop);
    is_int(inner_count, 2, "closing the loop does what waits");
}

int main(void) {
    loop = loop_open(&e);
    test_timers();
    test_many_timers();
    test_stop_in_batch();
    test_child();
    test_signals();
    test_linger();
    test_deferred();
    return done_testing();
}
