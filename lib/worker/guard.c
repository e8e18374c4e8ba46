// SPDX-License-Identifier: Apache-2.0
// The agent's side of the guard: forks it, reads its reports, cleans up if it was killed.
#include "worker/guard.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file_entries.h"
#include "worker/console.h"
#include "worker/guard_protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STRAY_TRIES_MAX = 200, STRAY_PAUSE_MS = 5 };

int guard_subreaper(struct err *e) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_errno(e, ERR_SYS, "cannot become a subreaper");
    return 0;
}

bool guard_is_idle(const struct guard *g) {
    return g->loop == NULL;
}

static void order(struct guard *g, const struct guard_order *o) {
    if (g->loop && g->fd >= 0 && send(g->fd, o, sizeof *o, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EPIPE)
        log_warn("an order to the guard was lost", "errno=%d", errno);
}

void guard_signal(struct guard *g, int signal) {
    order(g, &(struct guard_order){.kind = ORDER_SIGNAL, .signal = signal});
}

void guard_stop(struct guard *g, int signal) {
    order(g, &(struct guard_order){.kind = ORDER_STOP, .signal = signal});
}

void guard_kill(struct guard *g) {
    order(g, &(struct guard_order){.kind = ORDER_KILL});
}

void guard_lease(struct guard *g, int64_t mono_ms) {
    order(g, &(struct guard_order){.kind = ORDER_LEASE, .lease_ms = mono_ms});
}

// After the guard was killed, the kernel sends SIGKILL to its workers, and their descendants become
// children of this process. Kills them all; they die at once, so the wait is short and bounded.
static int kill_strays(void) {
    int killed = 0;
    for (int i = 0; i < STRAY_TRIES_MAX; i++) {
        killed += guard_kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return killed;
        nanosleep(&(struct timespec){0, STRAY_PAUSE_MS * 1000000L}, NULL);
    }
    log_error("processes of a worker do not die", "killed=%d", killed);
    return killed;
}

static void over(struct guard *g) {
    free(g->pids);
    free(g->running);
    g->pids = NULL;
    g->running = NULL;
    g->loop = NULL;
    g->events->on_gone(g, g->orphans);
}

static void finish(struct guard *g) {
    if (!g->reaped || g->fd >= 0)
        return;
    if (!g->reported_gone) {
        log_error("the guard was killed; ending its workers", "workers=%d", g->count);
        g->orphans += kill_strays();
    }
    for (int i = 0; i < g->count; i++) {
        if (!g->running[i])
            continue;
        struct guard_exit x = {.local_rank = i,
                               .pid = g->pids[i],
                               .status = SIGKILL,
                               .stopped = true,
                               .mono_ms = clock_mono_ms(),
                               .wall_ms = clock_wall_ms(),
                               .text = "its guard was killed"};
        g->running[i] = false;
        g->events->on_exited(g, &x);
    }
    over(g);
}

pid_t guard_stuck(const struct guard *g) {
    struct proc_facts f;
    pid_t stuck = 0;
    if (!g->loop || g->reaped)
        return 0;
    struct file_entries in = file_entries_open("/proc");
    for (pid_t pid; (pid = guard_next_child(&in, g->child.pid, &f)) > 0;) {
        stuck = f.state == 'D' ? pid : 0;
        if (!stuck)
            break;
    }
    (void)file_entries_close(&in, 0, NULL);
    return stuck;
}

void guard_abandon(struct guard *g) {
    must(!guard_is_idle(g));
    watch_stop(&g->watch);
    child_stop(&g->child);
    if (g->fd >= 0)
        close(g->fd); // which orders the guard to kill
    g->fd = -1;
    over(g);
}

static void on_report(struct guard *g, const struct guard_report *r) {
    int i = r->exit.local_rank;
    if (r->kind == REPORT_GONE) {
        g->reported_gone = true;
        g->orphans = r->orphans;
    } else if (r->kind == REPORT_STARTED) {
        g->pids[i] = r->exit.pid;
        g->running[i] = true;
        g->events->on_started(g, i, r->exit.pid);
    } else {
        g->running[i] = false;
        g->events->on_exited(g, &r->exit);
    }
}

static void on_socket(struct watch *w, unsigned events) {
    struct guard *g = container_of(w, struct guard, watch);
    (void)events;
    for (bool reset = false;;) {
        struct guard_report r;
        ssize_t n = recv(g->fd, &r, sizeof r, MSG_DONTWAIT);
        if (err_not_yet(n))
            return;
        if (n < 0 && errno == ECONNRESET && !reset) { // ended before it read its last order;
            reset = true;                             // its reports are still readable
            continue;
        }
        if (n != (ssize_t)sizeof r)
            break;
        on_report(g, &r);
    }
    watch_stop(&g->watch);
    close(g->fd);
    g->fd = -1;
    finish(g);
}

static void on_child(struct child *c, int status) {
    (void)status;
    struct guard *g = container_of(c, struct guard, child);
    g->reaped = true;
    finish(g);
}

int guard_start(struct guard *g, struct loop *loop, const struct guard_spec *spec,
                const struct guard_events *events, struct err *e) {
    int pair[2];
    must(g->loop == NULL && spec->count <= GUARD_WORKERS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket pair for the guard");
    pid_t pid = fork();
    if (pid < 0) {
        err_errno(e, ERR_SYS, "cannot start the guard");
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    if (pid == 0) {
        console_leave();
        guard_main(spec, pair[1]);
    }
    close(pair[1]);
    *g = (struct guard){
        .loop = loop, .events = events, .fd = pair[0], .count = spec->count, .ctx = g->ctx};
    g->pids = heap_alloc((size_t)spec->count * sizeof *g->pids);
    g->running = heap_alloc((size_t)spec->count * sizeof *g->running);
    if (watch_start(loop, &g->watch, g->fd, LOOP_READ, on_socket, e) < 0 ||
        child_start(loop, &g->child, pid, on_child, e) < 0) {
        watch_stop(&g->watch);
        close(g->fd); // the guard sees it and ends
        waitpid(pid, NULL, 0);
        free(g->pids);
        free(g->running);
        g->loop = NULL;
        return -1;
    }
    return 0;
}
