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

static void *work(void *arg) {
    struct hashing *h = arg;
    h->result = manifest_hash(h->manifest, h->cache, on_progress, h, &h->err);
    (void)eventfd_write(h->end_fd, 1);
    return NULL;
}

int hashing_start(struct hashing *h, struct context *s, struct manifest *m, struct err *e) {
    sigset_t all, before;
    *h = (struct hashing){.context = s, .manifest = m};
    h->cache = file_join(s->arena, s->cluster.dir, "hashes");
    h->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->end_fd < 0)
        return err_errno(e, ERR_SYS, "cannot make an eventfd");
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&h->thread, NULL, work, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return 0;
    close(h->end_fd);
    return err_set(e, ERR_SYS, "cannot start a thread to hash with: %s", strerror(error));
}

static void join(struct hashing *h) {
    pthread_join(h->thread, NULL);
    close(h->end_fd);
}

static void on_end(struct watch *w, unsigned events) {
    (void)events;
    watch_stop(w);
}

int hashing_finish(struct hashing *h, struct err *e) {
    static const char *const names[] = {"here"};
    struct context *s = h->context;
    struct progress progress;
    struct watch end = {0};
    progress_init(&progress, s->arena, s->screen, "hash", names, 1, clock_mono_ms());
    if (watch_start(s->loop, &end, h->end_fd, LOOP_READ, on_end, e) < 0) {
        hashing_cancel(h);
        return -1;
    }
    while (end.loop) {
        if (context_interrupt(s))
            atomic_store(&h->stop, true);
        loop_once(s->loop, HASHING_SHOW_MS);
        if (end.loop) {
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
    atomic_store(&h->stop, true);
    join(h);
}

int hashing_run(struct context *s, struct manifest *m, struct err *e) {
    struct hashing h;
    return hashing_start(&h, s, m, e) < 0 ? -1 : hashing_finish(&h, e);
}
