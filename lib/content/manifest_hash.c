// SPDX-License-Identifier: Apache-2.0
// Hashes a manifest: cached hashes first, then threads that take file by file. The threads share
// only a counter; each file belongs to one thread.
#include "base/log.h"
#include "content/hash_cache.h"
#include "content/manifest.h"
#include "sys/cond.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROGRESS_MS = 100, THREAD_STACK_BYTES = 256 << 10, FEW_BYTES = 4 << 20 };

struct work {
    struct manifest *m;
    size_t *todo; // indices of entries
    struct stat *stats;
    int64_t *read_ns;
    size_t count;
    atomic_size_t next;
    atomic_ullong bytes_done;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int running;
    struct err err; // the first error; under lock
};

static void work_fail(struct work *w, const struct err *e) {
    pthread_mutex_lock(&w->lock);
    if (w->err.code == ERR_NONE)
        w->err = *e;
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->stop, true);
}

// One file may be most of the work.
static int on_piece(void *ctx, uint64_t bytes, struct err *e) {
    struct work *w = ctx;
    atomic_fetch_add(&w->bytes_done, bytes);
    return atomic_load(&w->stop) ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

static int hash_one(struct work *w, size_t k, struct err *e) {
    struct manifest_entry *n = &w->m->entries[w->todo[k]];
    const struct content_ticks ticks = {on_piece, w};
    auto_close int fd = open(n->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat *st = &w->stats[k];
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "cannot open '%s'",
                         n->source);
    w->read_ns[k] = hash_cache_now_ns();
    if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
        return err_set(e, ERR_FORMAT, "'%s' is not a file any more", n->source);
    n->size = (uint64_t)st->st_size;
    n->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    if (hash_cache_file(fd, n->size, n->hash, &ticks, e) < 0)
        return err_wrap(e, "'%s'", n->source);
    n->hashed = true;
    return 0;
}

static void *hash_thread(void *arg) {
    struct work *w = arg;
    struct err e;
    for (size_t k; !atomic_load(&w->stop) && (k = atomic_fetch_add(&w->next, 1)) < w->count;) {
        if (hash_one(w, k, &e) < 0)
            work_fail(w, &e);
    }
    pthread_mutex_lock(&w->lock);
    w->running--;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void wait_for_threads(struct work *w, manifest_progress_cb *on_progress, void *ctx,
                             uint64_t bytes) {
    pthread_mutex_lock(&w->lock);
    while (w->running > 0) {
        cond_wait_ms(&w->changed, &w->lock, PROGRESS_MS);
        if (!on_progress || atomic_load(&w->stop))
            continue;
        pthread_mutex_unlock(&w->lock);
        int stop = on_progress(ctx, atomic_load(&w->bytes_done), bytes);
        pthread_mutex_lock(&w->lock);
        if (stop && w->err.code == ERR_NONE)
            (void)err_set(&w->err, ERR_INTERRUPTED, "stopped");
        if (stop)
            atomic_store(&w->stop, true);
    }
    pthread_mutex_unlock(&w->lock);
}

static void run_threads(struct work *w, manifest_progress_cb *on_progress, void *ctx,
                        uint64_t bytes) {
    pthread_t threads[MANIFEST_THREADS_MAX];
    int wanted = proc_cpu_count() < MANIFEST_THREADS_MAX ? proc_cpu_count() : MANIFEST_THREADS_MAX;
    int started = 0;
    pthread_attr_t attr;
    sigset_t all, before;
    if ((size_t)wanted > w->count)
        wanted = (int)w->count;
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    w->running = wanted;
    for (; bytes > FEW_BYTES && started < wanted; started++)
        if (pthread_create(&threads[started], &attr, hash_thread, w) != 0)
            break;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&w->lock);
    w->running -= wanted - started;
    pthread_mutex_unlock(&w->lock);
    if (started == 0) {
        w->running = 1;
        (void)hash_thread(w);
    }
    wait_for_threads(w, on_progress, ctx, bytes);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

// Lists the entries without a known or cached hash; returns their total bytes.
static uint64_t choose(struct work *w, struct hash_cache *cache) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->m->count; i++) {
        struct manifest_entry *n = &w->m->entries[i];
        struct stat st;
        if (n->kind != MANIFEST_FILE || n->hashed)
            continue;
        if (!n->source) {
            hash_of(n->hash, n->bytes, n->size);
            n->hashed = true;
            continue;
        }
        if (stat(n->source, &st) == 0 && (uint64_t)st.st_size == n->size &&
            hash_cache_get(cache, &st, n->hash)) {
            n->hashed = true;
            n->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
            continue;
        }
        w->todo[w->count++] = i;
        bytes += n->size;
    }
    return bytes;
}

int manifest_hash(struct manifest *m, const char *cache_path, manifest_progress_cb *on_progress,
                  void *ctx, struct err *e) {
    struct work w = {.m = m};
    struct hash_cache cache;
    struct err saved;
    if (manifest_sort(m, e) < 0)
        return -1;
    hash_cache_open(&cache, cache_path, false);
    w.todo = heap_alloc((m->count + 1) * sizeof *w.todo);
    uint64_t bytes = choose(&w, &cache);
    w.stats = heap_alloc((w.count + 1) * sizeof *w.stats);
    w.read_ns = heap_alloc((w.count + 1) * sizeof *w.read_ns);
    pthread_mutex_init(&w.lock, NULL);
    cond_init(&w.changed);
    if (w.count)
        run_threads(&w, on_progress, ctx, bytes);
    for (size_t k = 0; k < w.count; k++)
        if (m->entries[w.todo[k]].hashed)
            hash_cache_put(&cache, &w.stats[k], m->entries[w.todo[k]].hash, w.read_ns[k]);
    if (hash_cache_save(&cache, &saved) < 0)
        log_warn("cannot keep the cache of hashes", "error=\"%s\"", saved.text);
    m->bytes = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE)
            m->bytes += m->entries[i].size;
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
    hash_cache_fini(&cache);
    free(w.todo);
    free(w.stats);
    free(w.read_ns);
    if (w.err.code == ERR_NONE)
        return 0;
    *e = w.err;
    return -1;
}
