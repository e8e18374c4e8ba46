// SPDX-License-Identifier: Apache-2.0
// One loop timer serves the earliest of all timers. The FIFO is also held open for writing, so that
// it does not reach end of file when the last client closes it.
#include "worker/file_timer.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANCESTORS_MAX = 64 };
#define FAR_MS INT64_C(31536000000) // a year, as good as never

// ---- one line ----

int file_timer_parse(struct arena *a, const char *line, size_t len, struct file_timer_request *out,
                     struct err *e) {
    struct json *root;
    if (len > FILE_TIMER_LINE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "longer than %d bytes", FILE_TIMER_LINE_BYTES_MAX);
    if (json_parse(a, line, len, &root, e) < 0)
        return -1;
    if (root->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "not an object");
    const struct json *scope = json_get(root, "scope_id");
    const struct json *expires = json_get(root, "expiration_time");
    int64_t pid = json_get_int(root, "pid", 0), signal = json_get_int(root, "signal", NSIG);
    if (pid <= 1 || pid > INT32_MAX)
        return err_set(e, ERR_FORMAT, "no process id in 'pid'");
    if (!scope || scope->type != JSON_STR)
        return err_set(e, ERR_FORMAT, "no text in 'scope_id'");
    if (!expires || (expires->type != JSON_INT && expires->type != JSON_NUM))
        return err_set(e, ERR_FORMAT, "no number in 'expiration_time'");
    if (signal >= NSIG)
        return err_set(e, ERR_FORMAT, "no signal in 'signal'");
    *out = (struct file_timer_request){.pid = (pid_t)pid,
                                       .scope = scope->str,
                                       .scope_len = scope->len,
                                       .expires_s = expires->number,
                                       .signal = signal > 0 ? (int)signal : 0};
    return 0;
}

// ---- the table ----

static void on_due(struct timer *timer);

static void plan(struct file_timers *t) {
    int64_t next = INT64_MAX, now = clock_mono_ms();
    for (int i = 0; i < t->count; i++)
        if (t->list[i].due_ms < next)
            next = t->list[i].due_ms;
    if (next == INT64_MAX || t->held)
        timer_stop(&t->next);
    else
        timer_start(t->loop, &t->next, next > now ? next - now : 0, on_due);
}

static void drop(struct file_timers *t, int i) {
    t->list[i] = t->list[--t->count];
}

static void drop_process(struct file_timers *t, pid_t pid) {
    for (int i = t->count - 1; i >= 0; i--)
        if (t->list[i].pid == pid)
            drop(t, i);
}

static bool still_there(const struct file_timer *x) {
    struct proc_facts f;
    return proc_look(x->pid, &f) == 0 && f.started_ticks == x->started_ticks;
}

// Workers and their descendants are reparented to the guard and then to this process. No other
// process is accepted.
static int descendant(pid_t pid, uint64_t *started_ticks) {
    struct proc_facts f;
    pid_t self = getpid(), at = pid;
    for (int i = 0; i < ANCESTORS_MAX && at > 1; i++) {
        if (proc_look(at, &f) < 0)
            return -1;
        if (i == 0)
            *started_ticks = f.started_ticks;
        if (f.parent == self)
            return 0;
        at = f.parent;
    }
    return -1;
}

static int room_for_one(struct file_timers *t) {
    int64_t now = clock_mono_ms();
    if (t->count == FILE_TIMERS_MAX && now >= t->swept_ms + FILE_TIMER_SWEEP_MS) {
        t->swept_ms = now;
        for (int i = t->count - 1; i >= 0; i--)
            if (!still_there(&t->list[i]))
                drop(t, i);
    }
    if (t->count == FILE_TIMERS_MAX)
        return -1;
    array_grow(t->list, &t->room, (size_t)t->count + 1);
    return 0;
}

static int acquire(struct file_timers *t, const struct file_timer_request *r, struct err *e) {
    struct file_timer x = {.pid = r->pid, .signal = r->signal};
    struct arena a = {0};
    int i = 0;
    hash_of(x.scope_hash, r->scope, r->scope_len);
    while (i < t->count && (t->list[i].pid != r->pid ||
                            memcmp(t->list[i].scope_hash, x.scope_hash, HASH_BYTES) != 0))
        i++;
    if (r->expires_s < 0) {
        if (i < t->count)
            drop(t, i);
        return 0;
    }
    if (descendant(r->pid, &x.started_ticks) < 0)
        return err_set(e, ERR_FORMAT, "process %d is none of this agent's workers", (int)r->pid);
    if (i == t->count && room_for_one(t) < 0)
        return err_set(e, ERR_LIMIT, "there are %d timers already", FILE_TIMERS_MAX);
    size_t shown = r->scope_len < sizeof x.scope / 4 ? r->scope_len : sizeof x.scope / 4;
    snprintf(x.scope, sizeof x.scope, "%s", str_printable(&a, r->scope, shown));
    arena_fini(&a);
    double left_ms = r->expires_s * 1e3 - (double)clock_wall_ms();
    x.due_ms = clock_mono_ms() + (left_ms < 0                ? 0
                                  : left_ms > (double)FAR_MS ? FAR_MS
                                                             : (int64_t)left_ms + 1);
    i = i < t->count ? i : t->count++;
    t->list[i] = x;
    return 0;
}

// Of a process's expired timers, the earliest with a signal; else the earliest.
static const struct file_timer *chosen(const struct file_timers *t, pid_t pid, int64_t now) {
    const struct file_timer *best = NULL;
    for (int i = 0; i < t->count; i++) {
        const struct file_timer *x = &t->list[i];
        if (x->pid != pid || x->due_ms > now)
            continue;
        bool more = best && (x->signal > 0) != (best->signal > 0);
        if (!best || (more ? x->signal > 0 : x->due_ms < best->due_ms))
            best = x;
    }
    return best;
}

static void on_due(struct timer *timer) {
    struct file_timers *t = container_of(timer, struct file_timers, next);
    int64_t now = clock_mono_ms();
    for (int i = 0; i < t->count;) {
        if (t->list[i].due_ms > now) {
            i++;
            continue;
        }
        struct file_timer x = *chosen(t, t->list[i].pid, now);
        struct err e;
        int signal = still_there(&x) ? x.signal : 0;
        drop_process(t, x.pid);
        if (signal > 0 && proc_signal(x.pid, x.started_ticks, signal, &e) < 0) {
            log_warn("cannot signal a worker whose timer has expired", "reason=%s", e.text);
            signal = 0;
        }
        t->on_expired(t, &x, signal);
        if (!t->loop)
            return;
        i = 0;
    }
    plan(t);
}

// ---- the FIFO ----

static void refuse(struct file_timers *t, const char *why) {
    t->refused++;
    if ((t->refused & (t->refused - 1)) == 0) // 1, 2, 4, 8, …
        log_warn("cannot parse a timer request", "reason=%s count=%llu", why,
                 (unsigned long long)t->refused);
}

static void take_line(struct file_timers *t, const char *line, size_t len) {
    struct file_timer_request r;
    struct arena a = {0};
    struct err e;
    if (file_timer_parse(&a, line, len, &r, &e) < 0 || acquire(t, &r, &e) < 0)
        refuse(t, e.text);
    arena_fini(&a);
}

static void take_lines(struct file_timers *t) {
    size_t at = 0;
    for (const char *end; (end = memchr(t->line + at, '\n', t->len - at));) {
        size_t len = (size_t)(end - (t->line + at));
        if (!t->skipping)
            take_line(t, t->line + at, len);
        t->skipping = false;
        at += len + 1;
    }
    t->len -= at;
    memmove(t->line, t->line + at, t->len);
    if (t->len < sizeof t->line)
        return;
    if (!t->skipping)
        refuse(t, "the line is too long");
    t->skipping = true;
    t->len = 0;
}

static void on_readable(struct watch *w, unsigned events) {
    struct file_timers *t = container_of(w, struct file_timers, watch);
    (void)events;
    for (int i = 0; i < FILE_TIMER_READS_MAX; i++) {
        ssize_t n = read(w->fd, t->line + t->len, sizeof t->line - t->len);
        if (n <= 0)
            break;
        t->len += (size_t)n;
        take_lines(t);
    }
    plan(t);
}

static int make_fifo(const char *path, struct err *e) {
    struct stat st;
    int rc = mkfifo(path, 0600);
    if (rc < 0 && errno == EEXIST) {
        if (lstat(path, &st) < 0 || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid())
            return err_set(e, ERR_EXISTS, "'%s' is there and no FIFO of this user", path);
        rc = unlink(path) < 0 ? -1 : mkfifo(path, 0600);
    }
    return rc < 0 ? err_errno(e, ERR_SYS, "cannot make the FIFO '%s'", path) : 0;
}

int file_timers_open(struct file_timers *t, struct loop *loop, const char *path,
                     file_timer_cb *on_expired, struct err *e) {
    *t = (struct file_timers){.on_expired = on_expired};
    if (strlen(path) >= sizeof t->path)
        return err_set(e, ERR_LIMIT, "timer file '%.100s…' is longer than %zu bytes", path,
                       sizeof t->path - 1);
    memcpy(t->path, path, strlen(path) + 1);
    if (make_fifo(path, e) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        err_errno(e, ERR_SYS, "cannot open the FIFO '%s'", path);
    else if (watch_start(loop, &t->watch, fd, LOOP_READ, on_readable, e) == 0) {
        t->loop = loop;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    unlink(path);
    return -1;
}

void file_timers_clear(struct file_timers *t) {
    t->count = 0;
    timer_stop(&t->next);
}

void file_timers_hold(struct file_timers *t, bool held) {
    t->held = held;
    if (t->loop)
        plan(t);
}

void file_timers_close(struct file_timers *t) {
    if (!t->loop)
        return;
    int fd = t->watch.fd;
    file_timers_clear(t);
    watch_stop(&t->watch);
    close(fd);
    unlink(t->path);
    free(t->list);
    t->list = NULL;
    t->loop = NULL;
}
