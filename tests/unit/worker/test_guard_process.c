// SPDX-License-Identifier: Apache-2.0
// The open descriptors of a guard, the limits and processors of its workers, and how workers and
// strays end. Functions of the guard itself look from the callback before the workers start.
#include "base/clock.h"
#include "base/cpu_list.h"
#include "sys/proc.h"
#include "tests/tap.h"
#include "worker/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000, WORKERS_MAX = 3, FILLED_FDS = 40, HIGH_FD = 900, FDS_MAX = 1000 };

static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
static const char *const sleeps[] = {"sleep", "600", NULL}, *const ends[] = {"true", NULL};

static struct err e;
static struct loop *loop;
static struct guard g;
static struct guard_exit exits[WORKERS_MAX];
static int started, ended, gone, killed_strays, held[2];
static cpu_set_t bound[WORKERS_MAX];

// The view of the guard, in memory that it shares with this process.
static struct seen {
    int called, open_count;
    bool open[FDS_MAX];
    rlim_t descriptors_max;
} * seen;

static int look(const void *ctx, struct err *err) {
    struct rlimit lim;
    seen->called++;
    seen->open_count = 0;
    for (int fd = 3; fd < FDS_MAX; fd++)
        seen->open_count += seen->open[fd] = fcntl(fd, F_GETFD) >= 0;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0)
        seen->descriptors_max = lim.rlim_cur;
    return ctx ? err_set(err, ERR_SYS, "%s", (const char *)ctx) : 0;
}

static void on_started(struct guard *of, int local_rank, pid_t pid) {
    (void)of;
    started++;
    if (sched_getaffinity(pid, sizeof bound[0], &bound[local_rank]) < 0)
        CPU_ZERO(&bound[local_rank]);
}

static void on_exited(struct guard *of, const struct guard_exit *x) {
    (void)of;
    ended++;
    exits[x->local_rank] = *x;
}

static void on_gone(struct guard *of, int orphans) {
    (void)of;
    gone++;
    killed_strays = orphans;
}

static const struct guard_events events = {on_started, on_exited, on_gone};

static struct guard_worker worker(const char *const *argv) {
    return (struct guard_worker){.argv = argv, .env = env, .out = -1, .err = -1};
}

static void start(const struct guard_spec *spec) {
    started = ended = gone = killed_strays = 0;
    memset(exits, 0, sizeof exits);
    memset(seen, 0, sizeof *seen);
    g = (struct guard){0};
    loop = loop_open(&e);
    if (!loop || guard_start(&g, loop, spec, &events, &e) < 0)
        bail_out("no guard: %s", e.text);
}

static void wait_until(const int *number, int value) {
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; *number < value && clock_mono_ms() < until;)
        loop_once(loop, 50);
}

static void finish(void) {
    wait_until(&gone, 1);
    is_int(gone, 1, "the guard reports that no process is left");
    loop_close(loop);
}

static void hold(struct guard_worker *w) {
    if (pipe2(held, O_CLOEXEC) < 0)
        bail_out("no pipe");
    w->out = held[1];
}

// Whether every process that holds the pipe has ended.
static bool is_released(void) {
    struct pollfd p = {.fd = held[0], .events = POLLIN};
    bool released = poll(&p, 1, WAIT_MS_MAX) == 1 && (p.revents & POLLHUP);
    close(held[0]);
    return released;
}

// The open descriptors of a process, and whether the standard streams are the null device.
static int open_fds(pid_t pid, bool *null_streams) {
    char path[64], target[64];
    int count = 0;
    *null_streams = true;
    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        count += n > 0;
        if (fd < 3)
            *null_streams &= n == 9 && memcmp(target, "/dev/null", 9) == 0;
    }
    return count;
}

static void test_descriptors_of(int in, int out, int err, int next_out, int next_err) {
    enum { OWN = 2 }; // the socket to the agent, and the descriptor of signals
    struct guard_worker w[] = {worker(sleeps), worker(sleeps)};
    struct guard_spec spec = {.workers = w, .count = 2, .in = in, .enter = look};
    const int kept[] = {in, out, err, next_out, next_err};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), expected = OWN, open_count = 0;
    bool all = true, null_streams = false;
    for (int fd = 3; fd < FILLED_FDS; fd++)
        if (fd != null)
            dup2(null, fd);
    dup2(null, HIGH_FD);
    w[0].out = out, w[0].err = err, w[1].out = next_out, w[1].err = next_err;
    start(&spec);
    wait_until(&started, 2);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        expected += kept[i] >= 0;
        all &= kept[i] < 0 || seen->open[kept[i]];
    }
    is_int(started, 2, "workers start on streams %d, %d, %d, %d and %d", in, out, err, next_out,
           next_err);
    ok(all, "the guard keeps the streams of its workers open");
    is_int(seen->open_count, expected, "the guard closes every other descriptor of the agent");
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX;
         !(null_streams && open_count == 3 + OWN) && clock_mono_ms() < until; usleep(1000))
        open_count = open_fds(g.child.pid, &null_streams);
    is_int(open_count, 3 + OWN, "the guard closes the streams of running workers");
    ok(null_streams, "the standard streams of the guard are the null device");
    guard_kill(&g);
    finish();
    for (int fd = 3; fd < FILLED_FDS; fd++)
        close(fd);
    close(HIGH_FD);
}

static void test_descriptors(void) {
    test_descriptors_of(-1, 9, 4, 6, 10);
    test_descriptors_of(3, 8, 5, 6, -1);
    test_descriptors_of(20, 4, HIGH_FD, 12, 11);
}

static void test_limits(void) {
    static const rlim_t limits[] = {0, 1, 64};
    struct guard_worker w = worker(sleeps);
    struct rlimit own;
    getrlimit(RLIMIT_NOFILE, &own);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct guard_spec spec = {.workers = &w,
                                  .count = 1,
                                  .in = -1,
                                  .enter = look,
                                  .enter_ctx = "no",
                                  .descriptors_max = limits[i]};
        start(&spec);
        finish();
        ok(seen->descriptors_max == (limits[i] ? limits[i] : own.rlim_cur),
           "the limit of descriptors is %d (0: the agent's)", (int)limits[i]);
    }
}

static void test_unstarted(void) {
    static const char *const missing[] = {"/no/such/program", NULL};
    struct guard_worker w[] = {worker(ends), worker(missing), worker(ends)};
    struct guard_spec spec = {.workers = w, .count = 3, .in = -1, .enter = look};
    char text[600] = "";
    hold(&w[1]);
    w[1].out = -1, w[1].err = held[1];
    int64_t before = clock_mono_ms(), wall_before = clock_wall_ms();
    start(&spec);
    close(held[1]);
    finish();
    is_int(started, 2, "workers beside a missing program start");
    is_int(exits[0].status, 0, "the worker before a missing program ends well");
    is_int(exits[2].status, 0, "the worker after a missing program ends well");
    is_int(exits[2].local_rank, 2, "an end has the rank of its worker");
    ok(exits[2].pid > 0, "an end has the process of its worker");
    is_int(exits[1].status, -1, "a missing program has no status");
    ok(strstr(exits[1].text, "/no/such/program"), "the agent gets the name of a missing program");
    ok(exits[1].mono_ms >= before && exits[1].wall_ms >= wall_before - 1000,
       "a worker that did not start ended after the start of its guard");
    ok(read(held[0], text, sizeof text - 1) > 0 && strstr(text, "dtrun: ") == text &&
           strstr(text, exits[1].text),
       "the standard error of a missing program has the reason");
    close(held[0]);
    spec.enter_ctx = "the mount is gone";
    w[1].err = -1;
    start(&spec);
    finish();
    is_int(seen->called, 1, "a guard prepares its workers once");
    is_int(started, 0, "no worker starts when the preparation fails");
    is_int(ended, 3, "every worker ends when the preparation fails");
    is_str(exits[2].text, "the mount is gone", "the end of a worker has the reason");
    is_int(exits[2].local_rank, 2, "the end of a worker has its rank");
}

static void test_processors(void) {
    struct guard_worker w[] = {worker(sleeps), worker(sleeps), worker(sleeps)};
    struct guard_spec spec = {.workers = w, .count = 3, .in = -1};
    cpu_set_t own, first, missing;
    CPU_ZERO(&first);
    CPU_ZERO(&missing);
    CPU_SET(CPU_LIST_MAX - 1, &missing);
    if (sched_getaffinity(0, sizeof own, &own) < 0)
        bail_out("no processors");
    for (int i = 0; i < CPU_LIST_MAX && CPU_COUNT(&first) == 0; i++)
        if (CPU_ISSET(i, &own))
            CPU_SET(i, &first);
    w[0].processors = &first;
    w[2].processors = &missing;
    start(&spec);
    wait_until(&started, 2);
    wait_until(&ended, 1);
    ok(CPU_EQUAL(&bound[0], &first), "a worker runs on its processors");
    ok(CPU_EQUAL(&bound[1], &own), "a worker without processors runs on the agent's");
    is_int(exits[2].status, -1, "a worker whose processors are missing does not start");
    ok(strstr(exits[2].text, "cannot bind a worker to its processors"),
       "the end of a worker says that its processors are missing");
    guard_kill(&g);
    finish();
    ok(exits[0].stopped && exits[1].stopped, "workers that the agent kills were stopped");
    is_int(exits[0].status, SIGKILL, "workers that the agent kills get SIGKILL");
    ok(!exits[0].lease_ended, "workers of a guard without a lease end without one");
}

static bool is_asleep(void) {
    struct proc_facts f = {0};
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; f.state != 'S' && clock_mono_ms() < until;
         usleep(1000))
        if (proc_look(g.child.pid, &f) < 0)
            return false;
    return f.state == 'S';
}

static void test_leases(void) {
    struct guard_worker w = worker(sleeps);
    struct guard_spec spec = {.workers = &w, .count = 1, .in = -1};
    const int64_t far[] = {0, clock_mono_ms() + 600000, clock_mono_ms() + ((int64_t)1 << 40)};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        spec.lease_ms = far[i];
        start(&spec);
        wait_until(&started, 1);
        ok(is_asleep(), "a guard sleeps until a lease at %" PRId64, far[i]);
        int64_t soon = clock_mono_ms() + 100;
        guard_lease(&g, soon);
        finish();
        is_int(exits[0].status, SIGKILL, "a worker is killed when its lease ends");
        ok(exits[0].lease_ended && exits[0].stopped, "the agent sees that the lease ended");
        ok(exits[0].mono_ms >= soon, "a worker runs until its lease ends");
    }
    spec.lease_ms = 1;
    start(&spec);
    finish();
    ok(exits[0].lease_ended, "a lease of the past ends at once");
}

static void test_groups(void) {
    static const char *const parent[] = {"sh", "-c", "sleep 600 & echo; wait", NULL};
    struct guard_worker w = worker(parent);
    struct guard_spec spec = {.workers = &w, .count = 1, .in = -1};
    char byte;
    hold(&w);
    start(&spec);
    close(held[1]);
    wait_until(&started, 1);
    is_int(read(held[0], &byte, 1), 1, "a worker has a child");
    guard_stop(&g, SIGTERM);
    ok(is_released(), "a signal ends the child of a worker");
    finish();
    is_int(exits[0].status, SIGTERM, "a worker ends by the signal of the agent");
    is_int(killed_strays, 0, "a signal to a worker leaves no stray");
}

static void test_strays(void) {
    static const char *const leaves[] = {"sh", "-c", "setsid sleep 600 & exit 7", NULL};
    struct guard_worker w = worker(leaves);
    struct guard_spec spec = {.workers = &w, .count = 1, .in = -1};
    hold(&w);
    start(&spec);
    close(held[1]);
    wait_until(&ended, 1);
    ok(!exits[0].stopped, "a worker that leaves a stray ended by itself");
    is_int(exits[0].status, 7 << 8, "the agent sees the status of a worker");
    ok(is_asleep(), "a guard sleeps while a stray may end");
    ok(is_released(), "a stray is killed");
    ok(clock_mono_ms() >= exits[0].mono_ms + GUARD_ORPHAN_MS, "a stray has time to end");
    finish();
    is_int(killed_strays, 1, "the guard counts the stray that it killed");
}

static void test_abandoned(void) {
    struct guard_worker w = worker(sleeps);
    struct guard_spec spec = {.workers = &w, .count = 1, .in = -1};
    hold(&w);
    start(&spec);
    close(held[1]);
    wait_until(&started, 1);
    pid_t pid = g.child.pid;
    guard_abandon(&g);
    finish();
    ok(is_released(), "the guard kills its workers when the agent closes the socket");
    is_int(waitpid(pid, NULL, 0), pid, "a guard ends after its agent");
}

int main(void) {
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        bail_out("no memory");
    test_descriptors();
    test_limits();
    test_unstarted();
    test_processors();
    test_leases();
    test_groups();
    test_strays();
    test_abandoned();
    return done_testing();
}
