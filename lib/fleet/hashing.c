// SPDX-License-Identifier: Apache-2.0
// Hashes files in a thread, so that the loop is not blocked.
#include "fleet/hashing.h"

#include "base/clock.h"
#include "sys/file.h"
#include "ui/progress.h"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { HASHING_SHOW_MS = 100 };

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    struct hashing *h = ctx;
    atomic_store(&h->done, done);
    atomic_store(&h->total, total);
    return atomic_load(&h->stop);
}

static int on_entry(void *ctx, uint64_t bytes, struct err *e) {
    struct hashing *h = ctx;
    (void)bytes;
    return atomic_load(&h->stop) ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

static void *work(void *arg) {
    struct hashing *h = arg;
    if (h->local)
        h->result = manifest_add_path(h->manifest, h->local, h->path,
                                      &(struct manifest_rules){.ticks = {on_entry, h}}, &h->err);
    if (h->result == 0)
        h->result = manifest_hash(h->manifest, h->cache, on_progress, h, &h->err);
    (void)eventfd_write(h->end_fd, 1);
    return NULL;
}

static int start(struct hashing *h, struct err *e) {
    sigset_t all, before;
    h->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->end_fd < 0) {
        h->context = NULL;
        return err_errno(e, ERR_SYS, "cannot make an eventfd");
    }
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&h->thread, NULL, work, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return 0;
    close(h->end_fd);
    h->context = NULL;
    return err_set(e, ERR_SYS, "cannot start a thread to hash with: %s", strerror(error));
}

int hashing_start(struct hashing *h, struct context *s, struct manifest *m, struct err *e) {
    *h = (struct hashing){.context = s, .manifest = m};
    h->cache = file_join(s->arena, s->cluster.dir, "hashes");
    return start(h, e);
}

static void join(struct hashing *h) {
    watch_stop(&h->watch);
    pthread_join(h->thread, NULL);
    close(h->end_fd);
    h->context = NULL;
}

static void on_over(struct watch *w, unsigned events) {
    (void)events;
    struct hashing *h = container_of(w, struct hashing, watch);
    join(h);
    if (h->result == 0)
        err_clear(&h->err);
    h->on_end(h, &h->err);
}

int hashing_follow(struct hashing *h, struct context *s, struct manifest *m, const char *local,
                   const char *path, hashing_end *on_end, struct err *e) {
    *h = (struct hashing){
        .context = s, .manifest = m, .local = local, .path = path, .on_end = on_end};
    if (start(h, e) < 0)
        return -1;
    if (watch_start(s->loop, &h->watch, h->end_fd, LOOP_READ, on_over, e) == 0)
        return 0;
    hashing_cancel(h);
    return -1;
}

static void on_end(struct watch *w, unsigned events) {
    (void)events;
    watch_stop(w);
}

int hashing_finish(struct hashing *h, struct err *e) {
    static const char *const names[] = {"here"};
    struct context *s = h->context;
    struct progress progress;
    progress_init(&progress, s->arena, s->screen, "hash", names, 1, clock_mono_ms());
    if (watch_start(s->loop, &h->watch, h->end_fd, LOOP_READ, on_end, e) < 0) {
        hashing_cancel(h);
        return -1;
    }
    while (h->watch.loop) {
        if (context_interrupt(s))
            atomic_store(&h->stop, true);
        loop_once(s->loop, HASHING_SHOW_MS);
        if (h->watch.loop) {
            progress_set(&progress, 0, atomic_load(&h->done), atomic_load(&h->total));
            progress_show(&progress, clock_mono_ms());
        }
    }
    join(h);
    screen_erase(s->screen);
    if (h->result < 0)
        *e = h->err;
    return h->result;
}

void hashing_cancel(struct hashing *h) {
    if (!h->context)
        return;
    atomic_store(&h->stop, true);
    join(h);
}

int hashing_run(struct context *s, struct manifest *m, struct err *e) {
    struct hashing h;
    return hashing_start(&h, s, m, e) < 0 ? -1 : hashing_finish(&h, e);
}
