// SPDX-License-Identifier: Apache-2.0
// Threads that take items from one counter, and the caller's, which reports progress.
#include "data/decode_threads.h"

#include "base/arena.h"
#include "base/clock.h"
#include "sys/proc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { PARALLEL_GRAIN = 16, PARALLEL_PROGRESS_MS = 100 };

struct parallel_job {
    const struct decode_threads *p;
    _Atomic uint64_t next, done;
    pthread_mutex_t lock;
    uint64_t failed_item; // UINT64_MAX: none
    _Atomic int failed;
    struct err *e;
};

struct parallel_thread {
    struct parallel_job *job;
    int number;
    pthread_t id;
};

int decode_threads_count(int wanted) {
    int n = wanted > 0 ? wanted : proc_cpu_count();
    return n < 1 ? 1 : n > DECODE_THREADS_MAX ? DECODE_THREADS_MAX : n;
}

static void parallel_fail(struct parallel_job *job, uint64_t item, const struct err *e) {
    pthread_mutex_lock(&job->lock);
    if (item < job->failed_item) {
        job->failed_item = item;
        *job->e = *e;
    }
    atomic_store(&job->failed, 1);
    pthread_mutex_unlock(&job->lock);
}

static void *parallel_work(void *arg) {
    struct parallel_thread *t = arg;
    struct parallel_job *job = t->job;
    const struct decode_threads *p = job->p;
    int64_t reported = clock_mono_ms();
    struct err e;
    while (!atomic_load(&job->failed)) {
        uint64_t first = atomic_fetch_add(&job->next, PARALLEL_GRAIN);
        if (first >= p->count)
            break;
        uint64_t last = p->count - first < PARALLEL_GRAIN ? p->count : first + PARALLEL_GRAIN;
        for (uint64_t i = first; i < last; i++) {
            err_clear(&e);
            if (p->item(p->ctx, i, t->number, &e) < 0) {
                parallel_fail(job, i, &e);
                break;
            }
        }
        uint64_t done = atomic_fetch_add(&job->done, last - first) + (last - first);
        if (t->number == 0 && p->progress && clock_mono_ms() - reported >= PARALLEL_PROGRESS_MS) {
            reported = clock_mono_ms();
            err_clear(&e);
            if (p->progress(p->progress_ctx, p->progress_base + done, p->progress_total, &e) < 0)
                parallel_fail(job, 0, &e);
        }
    }
    return NULL;
}

int decode_threads_run(const struct decode_threads *p, struct err *e) {
    int threads = decode_threads_count(p->threads);
    struct err first_error;
    err_clear(&first_error);
    struct parallel_job job = {.p = p, .failed_item = UINT64_MAX, .e = &first_error};
    pthread_mutex_init(&job.lock, NULL);
    struct parallel_thread *thread = heap_alloc((size_t)threads * sizeof *thread);
    int started = 1; // fewer threads than wanted only take longer
    for (int i = 0; i < threads; i++)
        thread[i] = (struct parallel_thread){&job, i, 0};
    while (started < threads && (uint64_t)started * PARALLEL_GRAIN < p->count &&
           pthread_create(&thread[started].id, NULL, parallel_work, &thread[started]) == 0)
        started++;
    parallel_work(&thread[0]);
    for (int i = 1; i < started; i++)
        pthread_join(thread[i].id, NULL);
    free(thread);
    pthread_mutex_destroy(&job.lock);
    if (!atomic_load(&job.failed))
        return 0;
    *e = first_error;
    return -1;
}
