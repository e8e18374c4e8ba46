// SPDX-License-Identifier: Apache-2.0
// Theory of operation: epoll_wait fills a batch of events that point at watches. While the batch is
// being delivered, watch_stop clears the pending entries of the stopped watch, so nothing runs on
// freed memory. Timers live in a binary heap ordered by due time; each knows its own index. The
// signalfd and pidfds are ordinary watches. The loop ends by itself when nothing is registered.
#include "sys/loop.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH_EVENTS_MAX = 256 };

struct loop {
    int epoll_fd;
    bool stopping;
    size_t watches; // registered, the signal watch not counted
    struct epoll_event batch[BATCH_EVENTS_MAX];
    int batch_len, batch_next;
    struct timer **heap;
    size_t timers, heap_room;
    struct deferred *deferred, **deferred_end;
    bool linger;
    int linger_skip, linger_penalty; // calls to pass over; how many the next failure costs
    struct watch signals;
    signal_cb *signal_cb;
    void *signal_ctx;
};

// Callbacks deferred by a callback wait for the next batch, so that this loop ends.
static void run_deferred(struct loop *loop) {
    struct deferred *d = loop->deferred;
    loop->deferred = NULL;
    loop->deferred_end = &loop->deferred;
    while (d) {
        struct deferred *next = d->next;
        d->loop = NULL;
        d->cb(d);
        d = next;
    }
}

void loop_defer(struct loop *loop, struct deferred *d, deferred_cb *cb) {
    must(!d->loop);
    *d = (struct deferred){.loop = loop, .cb = cb};
    *loop->deferred_end = d;
    loop->deferred_end = &d->next;
}

struct loop *loop_open(struct err *e) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) {
        err_errno(e, ERR_SYS, "cannot create an event loop");
        return NULL;
    }
    struct loop *loop = heap_alloc(sizeof *loop);
    loop->epoll_fd = fd;
    loop->deferred_end = &loop->deferred;
    return loop;
}

void loop_close(struct loop *loop) {
    if (!loop)
        return;
    loop_signals(loop, NULL, NULL, NULL, NULL);
    while (loop->deferred)
        run_deferred(loop);
    must(loop->watches == 0 && loop->timers == 0);
    close(loop->epoll_fd);
    free(loop->heap);
    free(loop);
}

void loop_stop(struct loop *loop) {
    loop->stopping = true;
}

// ---- watches ------------------------------------------------------------------------------------

static uint32_t to_epoll(unsigned events) {
    return (events & LOOP_READ ? EPOLLIN | EPOLLRDHUP : 0u) | (events & LOOP_WRITE ? EPOLLOUT : 0u);
}

int watch_start(struct loop *loop, struct watch *w, int fd, unsigned events, watch_cb *cb,
                struct err *e) {
    must(w->loop == NULL);
    struct epoll_event ev = {.events = to_epoll(events), .data.ptr = w};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return err_errno(e, ERR_SYS, "cannot watch descriptor %d", fd);
    *w = (struct watch){.loop = loop, .cb = cb, .fd = fd, .events = events};
    loop->watches++;
    return 0;
}

void watch_modify(struct watch *w, unsigned events) {
    if (!w->loop || w->events == events)
        return;
    struct epoll_event ev = {.events = to_epoll(events), .data.ptr = w};
    must(epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) == 0);
    w->events = events;
}

void watch_stop(struct watch *w) {
    struct loop *loop = w->loop;
    if (!loop)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    for (int i = loop->batch_next; i < loop->batch_len; i++)
        if (loop->batch[i].data.ptr == w)
            loop->batch[i].data.ptr = NULL;
    loop->watches--;
    w->loop = NULL;
}

// ---- timers -------------------------------------------------------------------------------------

static void heap_put(struct loop *loop, size_t i, struct timer *t) {
    loop->heap[i] = t;
    t->heap_index = i;
}

static void heap_up(struct loop *loop, size_t i) {
    struct timer *t = loop->heap[i];
    while (i > 0 && loop->heap[(i - 1) / 2]->due_ms > t->due_ms) {
        heap_put(loop, i, loop->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(loop, i, t);
}

static void heap_down(struct loop *loop, size_t i) {
    struct timer *t = loop->heap[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= loop->timers)
            break;
        if (c + 1 < loop->timers && loop->heap[c + 1]->due_ms < loop->heap[c]->due_ms)
            c++;
        if (loop->heap[c]->due_ms >= t->due_ms)
            break;
        heap_put(loop, i, loop->heap[c]);
        i = c;
    }
    heap_put(loop, i, t);
}

void timer_start(struct loop *loop, struct timer *t, int64_t delay_ms, timer_cb *cb) {
    timer_stop(t);
    array_grow(loop->heap, &loop->heap_room, loop->timers + 1);
    *t = (struct timer){.loop = loop, .cb = cb, .due_ms = clock_mono_ms() + delay_ms};
    heap_put(loop, loop->timers++, t);
    heap_up(loop, t->heap_index);
}

void timer_stop(struct timer *t) {
    struct loop *loop = t->loop;
    if (!loop)
        return;
    size_t i = t->heap_index;
    struct timer *last = loop->heap[--loop->timers];
    t->loop = NULL;
    if (last == t)
        return;
    heap_put(loop, i, last);
    heap_up(loop, i);
    heap_down(loop, last->heap_index);
}

// Timers started by a callback without delay wait for the next batch, so that this loop ends.
static void run_timers(struct loop *loop) {
    int64_t limit = clock_mono_ms();
    for (size_t budget = loop->timers; budget > 0 && loop->timers > 0; budget--) {
        struct timer *t = loop->heap[0];
        if (t->due_ms > limit)
            return;
        timer_stop(t);
        t->cb(t);
    }
}

// ---- running ------------------------------------------------------------------------------------

static int wait_ms(const struct loop *loop, int timeout_ms) {
    if (loop->deferred)
        return 0;
    if (loop->timers == 0)
        return timeout_ms;
    int64_t left = loop->heap[0]->due_ms - clock_mono_ms();
    if (left < 0)
        left = 0;
    if (timeout_ms >= 0 && left > timeout_ms)
        left = timeout_ms;
    return left > 1000000 ? 1000000 : (int)left;
}

void loop_linger(struct loop *loop) {
    if (loop->linger)
        return;
    if (loop->linger_skip > 0)
        loop->linger_skip--;
    else
        loop->linger = true;
}

// Polls without sleeping. A delay of timers by LOOP_LINGER_NS is within their resolution.
static int poll_events(struct loop *loop) {
    int n;
    int64_t end = 0, now;
    loop->linger = false;
    do {
        n = epoll_wait(loop->epoll_fd, loop->batch, BATCH_EVENTS_MAX, 0);
        if (n != 0) {
            loop->linger_penalty = 0;
            return n;
        }
        now = clock_mono_ns();
        if (end == 0)
            end = now + LOOP_LINGER_NS;
    } while (now < end);
    if (loop->linger_penalty < LOOP_LINGER_SKIP_MAX)
        loop->linger_penalty = 2 * loop->linger_penalty + 1;
    loop->linger_skip = loop->linger_penalty;
    return 0;
}

int loop_fd(const struct loop *loop) {
    return loop->epoll_fd;
}

void loop_once(struct loop *loop, int timeout_ms) {
    must(loop->batch_next == loop->batch_len); // must not be called inside a callback
    int n = loop->linger && timeout_ms != 0 ? poll_events(loop) : 0;
    if (n == 0)
        n = epoll_wait(loop->epoll_fd, loop->batch, BATCH_EVENTS_MAX, wait_ms(loop, timeout_ms));
    must(n >= 0 || errno == EINTR);
    loop->batch_len = n > 0 ? n : 0;
    loop->batch_next = 0;
    while (loop->batch_next < loop->batch_len) {
        struct epoll_event *ev = &loop->batch[loop->batch_next++];
        struct watch *w = ev->data.ptr;
        if (!w)
            continue;
        unsigned events = 0;
        if (ev->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            events |= LOOP_READ;
        if (ev->events & (EPOLLHUP | EPOLLERR))
            events |= LOOP_HANGUP | (w->events & LOOP_WRITE);
        if (ev->events & EPOLLOUT)
            events |= LOOP_WRITE;
        w->cb(w, events);
    }
    run_timers(loop);
    run_deferred(loop);
}

void loop_run(struct loop *loop) {
    loop->stopping = false;
    while (!loop->stopping && (loop->watches > 0 || loop->timers > 0 || loop->deferred))
        loop_once(loop, -1);
}

// ---- children and signals -----------------------------------------------------------------------

static void on_child(struct watch *w, unsigned events) {
    (void)events;
    struct child *c = container_of(w, struct child, watch);
    int status = 0;
    pid_t got = waitpid(c->pid, &status, WNOHANG);
    if (got == 0)
        return;
    // If another part of the program has reaped it, that is a bug and must not count as success.
    must(got == c->pid);
    child_cb *cb = c->cb;
    child_stop(c);
    cb(c, status);
}

int child_start(struct loop *loop, struct child *c, pid_t pid, child_cb *cb, struct err *e) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot follow process %d", (int)pid);
    c->cb = cb;
    c->pid = pid;
    if (watch_start(loop, &c->watch, fd, LOOP_READ, on_child, e) < 0) {
        close(fd);
        return -1;
    }
    return 0;
}

void child_stop(struct child *c) {
    if (!c->watch.loop)
        return;
    int fd = c->watch.fd;
    watch_stop(&c->watch);
    close(fd);
}

static void on_signal(struct watch *w, unsigned events) {
    (void)events;
    struct loop *loop = container_of(w, struct loop, signals);
    struct signalfd_siginfo info;
    while (w->loop && read(w->fd, &info, sizeof info) == (ssize_t)sizeof info)
        loop->signal_cb(loop->signal_ctx, &info);
}

void loop_take_signals(struct loop *loop) {
    if (loop->signals.loop)
        on_signal(&loop->signals, LOOP_READ);
}

int loop_signals(struct loop *loop, const sigset_t *set, signal_cb *cb, void *ctx, struct err *e) {
    if (loop->signals.loop) {
        int fd = loop->signals.fd;
        watch_stop(&loop->signals);
        loop->watches++; // was not counted
        close(fd);
    }
    if (!set)
        return 0;
    int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot receive signals");
    must(sigprocmask(SIG_BLOCK, set, NULL) == 0);
    loop->signal_cb = cb;
    loop->signal_ctx = ctx;
    if (watch_start(loop, &loop->signals, fd, LOOP_READ, on_signal, e) < 0) {
        close(fd);
        return -1;
    }
    loop->watches--; // a loop that waits only for signals ends
    return 0;
}
