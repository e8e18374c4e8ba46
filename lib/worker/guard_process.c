// SPDX-License-Identifier: Apache-2.0
// The guard process. Single-threaded, no allocation after the start, one poll on the agent's socket
// and on SIGCHLD.
#include "base/arena.h"
#include "base/clock.h"
#include "sys/file_entries.h"
#include "worker/guard_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORTS_MAX = 2 * GUARD_WORKERS_MAX + 1 }; // a start and an end per worker, and GONE

struct guard_state {
    const struct guard_spec *spec;
    int fd, signal_fd;
    pid_t pids[GUARD_WORKERS_MAX]; // 0: ended or never started
    int left;
    bool stopping, killing, agent_gone, lease_ended;
    int64_t lease_ms, orphan_ms;
    int orphans;
    int reported, sent;
    struct guard_report reports[REPORTS_MAX];
};

static bool has_unsent(const struct guard_state *s) {
    return s->sent < s->reported && !s->agent_gone;
}

// Never waits for the agent, since a frozen agent must not delay the lease.
static void send_reports(struct guard_state *s) {
    while (has_unsent(s)) {
        const struct guard_report *r = &s->reports[s->sent];
        if (send(s->fd, r, sizeof *r, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            s->sent++;
        else if (errno == EPIPE || errno == ECONNRESET)
            s->agent_gone = s->killing = true;
        else
            return;
    }
}

static void report(struct guard_state *s, const struct guard_report *r) {
    must(s->reported < REPORTS_MAX);
    s->reports[s->reported++] = *r;
    send_reports(s);
}

// Sends the remaining reports at the end, when nothing is left to guard.
static void send_rest(struct guard_state *s) {
    while (has_unsent(s)) {
        struct pollfd p = {.fd = s->fd, .events = POLLOUT};
        poll(&p, 1, -1);
        send_reports(s);
    }
}

static int compare_ints(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

// Closes every descriptor from 3 up except the kept ones, since the agent's sockets must close with
// the agent.
static void close_others(int *kept, size_t count) {
    qsort(kept, count, sizeof *kept, compare_ints);
    int from = 3;
    for (size_t i = 0; i <= count; i++) {
        int to = i < count ? kept[i] - 1 : INT32_MAX;
        if (to >= from && syscall(SYS_close_range, from, to, 0) < 0)
            for (int fd = from; fd <= to && fd < (1 << 16); fd++) // kernels before 5.9
                close(fd);
        if (i < count && kept[i] >= from)
            from = kept[i] + 1;
    }
}

static void close_inherited(struct guard_state *s) {
    int *kept = heap_alloc(((size_t)s->spec->count * 2 + 2) * sizeof *kept);
    size_t n = 0;
    kept[n++] = s->fd;
    kept[n++] = s->spec->in;
    for (int i = 0; i < s->spec->count; i++) {
        kept[n++] = s->spec->workers[i].out;
        kept[n++] = s->spec->workers[i].err;
    }
    close_others(kept, n);
    free(kept);
}

// Starts a process on the given processors; a child inherits those of its parent.
static pid_t start_bound(const struct proc_spec *p, const cpu_set_t *processors, struct err *e) {
    cpu_set_t own;
    if (!processors)
        return proc_start(p, e);
    if (sched_getaffinity(0, sizeof own, &own) < 0 ||
        sched_setaffinity(0, sizeof *processors, processors) < 0)
        return err_errno(e, ERR_SYS, "cannot bind a worker to its processors");
    pid_t pid = proc_start(p, e);
    sched_setaffinity(0, sizeof own, &own);
    return pid;
}

static void report_unstarted(struct guard_state *s, int i, const char *why) {
    const struct guard_worker *w = &s->spec->workers[i];
    struct guard_report r = {
        .kind = REPORT_EXITED,
        .exit = {
            .local_rank = i, .status = -1, .mono_ms = clock_mono_ms(), .wall_ms = clock_wall_ms()}};
    snprintf(r.exit.text, sizeof r.exit.text, "%.500s", why);
    if (w->err >= 0)
        dprintf(w->err, "dtrun: %s\n", why);
    report(s, &r);
}

static void start_worker(struct guard_state *s, int i) {
    const struct guard_worker *w = &s->spec->workers[i];
    struct proc_spec p = {.argv = w->argv,
                          .env = (char *const *)w->env,
                          .cwd = s->spec->cwd,
                          .in = s->spec->in,
                          .out = w->out,
                          .err = w->err,
                          .new_session = true,
                          .parent_death_signal = SIGKILL};
    struct err e;
    pid_t pid = start_bound(&p, w->processors, &e);
    if (pid < 0) {
        report_unstarted(s, i, e.text);
        return;
    }
    s->pids[i] = pid;
    s->left++;
    report(s,
           &(struct guard_report){.kind = REPORT_STARTED, .exit = {.local_rank = i, .pid = pid}});
}

static void start_workers(struct guard_state *s) {
    const struct guard_spec *spec = s->spec;
    struct err e;
    bool entered = !spec->enter || spec->enter(spec->enter_ctx, &e) == 0;
    for (int i = 0; i < spec->count && !s->killing; i++)
        if (entered)
            start_worker(s, i);
        else
            report_unstarted(s, i, e.text);
}

static void drop_streams(struct guard_state *s) {
    int kept[] = {s->fd, s->signal_fd};
    close_others(kept, 2);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

pid_t guard_next_child(struct file_entries *in, pid_t parent, struct proc_facts *f) {
    while (file_entries_next(in)) {
        pid_t pid = (pid_t)strtol(in->name, NULL, 10);
        if (pid > 0 && proc_look(pid, f) == 0 && f->parent == parent && f->state != 'Z')
            return pid;
    }
    return 0;
}

int guard_kill_children(void) {
    struct proc_facts f;
    int killed = 0;
    struct file_entries in = file_entries_open("/proc");
    for (pid_t pid; (pid = guard_next_child(&in, getpid(), &f)) > 0;) {
        if (getpgid(pid) == pid)
            kill(-pid, SIGKILL);
        killed += kill(pid, SIGKILL) == 0;
    }
    (void)file_entries_close(&in, 0, NULL);
    return killed;
}

static void kill_all(struct guard_state *s) {
    for (int i = 0; i < s->spec->count; i++)
        if (s->pids[i] > 0)
            kill(-s->pids[i], SIGKILL);
    int killed = guard_kill_children();
    if (s->left == 0)
        s->orphans += killed;
}

// Stays true: a renewal that comes later than the end of the lease renews nothing.
static bool lease_has_ended(struct guard_state *s) {
    s->lease_ended |= s->lease_ms > 0 && clock_mono_ms() >= s->lease_ms;
    return s->lease_ended;
}

static void reaped(struct guard_state *s, pid_t pid, int status) {
    for (int i = 0; i < s->spec->count; i++) {
        if (s->pids[i] != pid)
            continue;
        struct guard_report r = {.kind = REPORT_EXITED,
                                 .exit = {.local_rank = i,
                                          .pid = pid,
                                          .status = status,
                                          .stopped = s->stopping || s->killing,
                                          .lease_ended = lease_has_ended(s),
                                          .mono_ms = clock_mono_ms(),
                                          .wall_ms = clock_wall_ms()}};
        s->pids[i] = 0;
        s->left--;
        report(s, &r);
        return;
    }
}

// Reaps all ended processes. False when there is no child left.
static bool reap(struct guard_state *s) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0)
            reaped(s, pid, status);
        else
            return pid == 0 || errno != ECHILD;
    }
}

static void take_orders(struct guard_state *s) {
    for (;;) {
        struct guard_order o;
        ssize_t n = recv(s->fd, &o, sizeof o, MSG_DONTWAIT);
        if (err_not_yet(n))
            return;
        if (n != (ssize_t)sizeof o) {
            s->agent_gone = s->killing = true;
            return;
        }
        // A worker that ended before the order counts as ended by itself.
        if (o.kind == ORDER_STOP || o.kind == ORDER_KILL)
            reap(s);
        s->stopping |= o.kind == ORDER_STOP;
        s->killing |= o.kind == ORDER_KILL;
        if (o.kind == ORDER_LEASE)
            s->lease_ms = o.lease_ms;
        bool signals = o.kind == ORDER_SIGNAL || o.kind == ORDER_STOP;
        for (int i = 0; signals && i < s->spec->count; i++)
            if (s->pids[i] > 0)
                kill(-s->pids[i], o.signal);
    }
}

static int wait_ms(const struct guard_state *s, int64_t now) {
    int64_t at = INT64_MAX;
    if (s->lease_ms > 0 && !s->killing)
        at = s->lease_ms;
    if (s->orphan_ms > 0 && !s->killing && s->orphan_ms < at)
        at = s->orphan_ms;
    if (at == INT64_MAX)
        return -1;
    return at <= now ? 0 : (at - now > INT32_MAX ? INT32_MAX : (int)(at - now));
}

static void become_guard(struct guard_state *s) {
    sigset_t chld, all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); // Ctrl-C and hang-ups are handled by the agent
    setsid();
    prctl(PR_SET_NAME, "dtrun-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close_inherited(s);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    s->signal_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    struct rlimit lim;
    if (s->spec->descriptors_max > 0 && getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = s->spec->descriptors_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
}

_Noreturn void guard_main(const struct guard_spec *spec, int fd) {
    static struct guard_state state; // the fork's own copy
    struct guard_state *s = &state;
    *s = (struct guard_state){.spec = spec, .fd = fd, .lease_ms = spec->lease_ms};
    become_guard(s);
    start_workers(s);
    drop_streams(s);
    while (reap(s) || s->left > 0) {
        int64_t now = clock_mono_ms();
        if (s->left == 0 && s->orphan_ms == 0)
            s->orphan_ms = now + GUARD_ORPHAN_MS;
        if (lease_has_ended(s) || (s->orphan_ms > 0 && now >= s->orphan_ms))
            s->killing = true;
        if (s->killing)
            kill_all(s);
        short wanted = has_unsent(s) ? POLLIN | POLLOUT : POLLIN;
        struct pollfd p[] = {{.fd = s->signal_fd, .events = POLLIN},
                             {.fd = s->agent_gone ? -1 : s->fd, .events = wanted}};
        if (poll(p, 2, wait_ms(s, now)) < 0)
            continue;
        struct signalfd_siginfo info;
        while (read(s->signal_fd, &info, sizeof info) > 0)
            ;
        if (p[1].revents & POLLOUT)
            send_reports(s);
        if (p[1].revents & ~POLLOUT)
            take_orders(s);
    }
    struct guard_report gone = {.kind = REPORT_GONE, .orphans = s->orphans};
    report(s, &gone);
    send_rest(s);
    _exit(0);
}
