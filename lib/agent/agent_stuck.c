// SPDX-License-Identifier: Apache-2.0
// Workers that do not get out of the kernel: in uninterruptible sleep (state D of /proc/PID/stat),
// where a lost file server, a frozen file system or a driver keeps them, and where most cannot be
// killed. TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT says for how long that may last; without it
// nobody looks, as in torchrun.
//
// Longer, and this node has failed: it takes no part in another round, because what the process
// holds (a GPU, memory, a port) a new worker would need. The others are stopped as always. When all
// that is left has been stuck for that long, it is killed; and what that does not end is left to
// the guard, which stays until the kernel lets it go. None of it will do another step of its own.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WHERE_BYTES_MAX = 64 };

static void on_look(struct timer *t);

// The function of the kernel that it waits in, as far as that tells.
static const char *where_is(pid_t pid, char out[WHERE_BYTES_MAX]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/wchan", (int)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, WHERE_BYTES_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            *c = '?';
    if (!out[0] || strcmp(out, "0") == 0)
        snprintf(out, WHERE_BYTES_MAX, "the kernel");
    return out;
}

// x: NULL when it is something that workers have left behind.
static void fail(struct agent *a, struct worker *x, pid_t pid, int64_t since_ms) {
    struct worker_failure f;
    struct arena texts = {0};
    char where[WHERE_BYTES_MAX], reason[RENDEZVOUS_REASON_BYTES_MAX];
    int64_t now = clock_mono_ms(), ms = now - since_ms;
    where_is(pid, where);
    snprintf(reason, sizeof reason,
             "%s %d (pid %d) has been in uninterruptible sleep for %.1f s, in %s: no other worker "
             "can run here before that ends",
             x ? "rank" : "a process of round", x ? x->rank : a->round, (int)pid, (double)ms / 1e3,
             where);
    if (x) {
        x->text = arena_strdup(&a->workers.arena, reason);
        workers_failure(&a->workers, x, &texts, &f);
        f.status = 1; // it has none yet
        f.age_ms = 0;
        f.wall_ms = clock_wall_ms();
    }
    a->round_failed = true;
    agent_end(a, NODE_FAILED, reason, x ? &f : NULL, x != NULL);
    arena_fini(&texts);
}

// One that has been there for too long, or NULL.
static struct worker *look_at_workers(struct agent *a, int64_t now) {
    struct worker *stuck = NULL;
    for (int i = 0; i < a->workers.count; i++) {
        struct worker *x = &a->workers.list[i];
        struct proc_facts f;
        char where[WHERE_BYTES_MAX];
        if (!x->running || proc_look(x->pid, &f) < 0 || f.state != 'D') {
            x->stuck_mono_ms = 0;
        } else if (x->stuck_mono_ms == 0) {
            x->stuck_mono_ms = now;
            log_debug("a worker is in uninterruptible sleep", "rank=%d pid=%d in=%s", x->rank,
                      (int)x->pid, where_is(x->pid, where));
        } else if (now - x->stuck_mono_ms >= a->config->stuck_ms_max && !stuck) {
            stuck = x;
        }
    }
    return stuck;
}

static bool have_ended(const struct workers *w) {
    for (int i = 0; i < w->count; i++)
        if (w->list[i].running)
            return false;
    return true;
}

// When the last of them got there; now, when only strays are left.
static int64_t since(const struct workers *w, int64_t now) {
    int64_t ms = 0;
    for (int i = 0; i < w->count; i++)
        if (w->list[i].running && w->list[i].stuck_mono_ms > ms)
            ms = w->list[i].stuck_mono_ms;
    return ms > 0 ? ms : now;
}

// Nothing but such processes is left of a round that is over here.
static void look_at_rest(struct agent *a, int64_t now) {
    char where[WHERE_BYTES_MAX];
    pid_t pid = a->over || have_ended(&a->workers) ? workers_stuck(&a->workers) : 0;
    if (pid == 0)
        a->all_stuck_ms = a->killed_ms = 0;
    else if (a->all_stuck_ms == 0)
        a->all_stuck_ms = since(&a->workers, now);
    if (pid == 0 || now - a->all_stuck_ms < a->config->stuck_ms_max)
        return;
    if (!a->over)
        fail(a, NULL, pid, a->all_stuck_ms);
    if (a->killed_ms == 0) {
        a->killed_ms = now;
        workers_stop(&a->workers, SIGKILL, 0);
    } else if (now - a->killed_ms >= AGENT_STUCK_KILL_MS) {
        log_error("what was killed does not end and is left to the kernel", "pid=%d in=%s guard=%d",
                  (int)pid, where_is(pid, where), (int)a->workers.guard.child.pid);
        workers_abandon(&a->workers);
    }
}

static void on_look(struct timer *t) {
    struct agent *a = container_of(t, struct agent, stuck);
    int64_t now = clock_mono_ms();
    if (workers_is_idle(&a->workers))
        return;
    struct worker *x = look_at_workers(a, now);
    if (x && !a->over)
        fail(a, x, x->pid, x->stuck_mono_ms);
    look_at_rest(a, now);
    agent_stuck_watch(a);
}

void agent_stuck_watch(struct agent *a) {
    if (a->config->stuck_ms_max > 0 && !workers_is_idle(&a->workers))
        timer_start(a->loop, &a->stuck, AGENT_STUCK_LOOK_MS, on_look);
}

void agent_stuck_close(struct agent *a) {
    timer_stop(&a->stuck);
}
