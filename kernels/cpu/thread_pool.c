// SPDX-License-Identifier: Apache-2.0
// A pool of worker threads, which spin for a moment and then sleep on a futex.
#include "kernels/cpu/thread_pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Longer than the gap between two ops of a training step, short enough not to hurt when there are
// more threads than CPUs. By the clock: a pause takes 1 ns on one processor and 50 on another.
enum { spin_ns_max = 50 * 1000, rounds_per_look = 16 };

struct pool_worker {
    struct thread_pool *pool;
    pthread_t thread;
    int index;
};

struct thread_pool {
    int workers, started;
    int pinned;
    cpu_set_t caller_cpus; // as before thread_pool_open
    void (*fn)(void *arg, int worker, int workers);
    void *arg;
    _Alignas(64) _Atomic uint32_t generation; // one up per run; workers wait for it to change
    _Atomic int stop;
    _Alignas(64) _Atomic uint32_t pending; // workers that have not finished this run
    struct pool_worker worker[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t while_equal) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_equal, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The low bit of both words marks a sleeping thread, so that a wake costs a system call only when
// needed. generation and pending count in steps of 2.
static void wait_while(_Atomic uint32_t *word, uint32_t value) {
    int64_t until = now_ns() + spin_ns_max;
    do
        for (int i = 0; i < rounds_per_look; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) & ~1U) != value)
                return;
            relax();
        }
    while (now_ns() < until);
    for (;;) {
        uint32_t now = atomic_load_explicit(word, memory_order_acquire);
        if ((now & ~1U) != value)
            return;
        if (!(now & 1U) && !atomic_compare_exchange_weak(word, &now, now | 1U))
            continue;
        futex_wait(word, value | 1U);
    }
}

static void *worker_main(void *arg) {
    struct pool_worker *w = arg;
    struct thread_pool *pool = w->pool;
    uint32_t seen = 0;
    for (;;) {
        wait_while(&pool->generation, seen);
        seen = atomic_load_explicit(&pool->generation, memory_order_acquire) & ~1U;
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return NULL;
        pool->fn(pool->arg, w->index, pool->workers);
        // Wakes the caller when this was the last one and the caller sleeps on what was left.
        uint32_t before = atomic_fetch_sub_explicit(&pool->pending, 2, memory_order_acq_rel);
        if ((before & 1U) != 0)
            futex_wake(&pool->pending, 1);
    }
}

// Starts a new generation. The sleepers' bit goes with the old value.
static void release_workers(struct thread_pool *pool) {
    uint32_t old = atomic_load_explicit(&pool->generation, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&pool->generation, &old, (old & ~1U) + 2))
        ;
    if (old & 1U)
        futex_wake(&pool->generation, pool->workers);
}

// Waits until every worker has finished. pending changes under us, so each value seen is waited
// on in turn.
static void wait_for_workers(struct thread_pool *pool) {
    for (;;) {
        uint32_t now = atomic_load_explicit(&pool->pending, memory_order_acquire) & ~1U;
        if (now == 0)
            break;
        wait_while(&pool->pending, now);
    }
}

void thread_pool_run(struct thread_pool *pool, void (*fn)(void *arg, int worker, int workers),
                     void *arg) {
    pool->fn = fn;
    pool->arg = arg;
    atomic_store_explicit(&pool->pending, 2 * (uint32_t)(pool->workers - 1), memory_order_relaxed);
    release_workers(pool);
    fn(arg, 0, pool->workers);
    wait_for_workers(pool);
}

static int pin(pthread_t thread, int cpu) {
    cpu_set_t set;
    if (cpu < 0 || cpu >= 8 * (int)sizeof set) // musl's CPU_SETSIZE counts bytes
        return EINVAL;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(thread, sizeof set, &set);
}

// Worker threads take no signals: those belong to the thread that runs the program's loop.
static int start_worker(struct pool_worker *w, const int *cpus) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return rc;
    w->pool->started++;
    return cpus ? pin(w->thread, cpus[w->index]) : 0;
}

int thread_pool_open(struct thread_pool **out, int workers, const int *cpus) {
    size_t bytes = sizeof(struct thread_pool) + (size_t)workers * sizeof(struct pool_worker);
    struct thread_pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!pool)
        return -ENOMEM;
    *pool = (struct thread_pool){.workers = workers};
    int rc = 0;
    if (cpus) {
        rc = pthread_getaffinity_np(pthread_self(), sizeof pool->caller_cpus, &pool->caller_cpus);
        pool->pinned = rc == 0;
        if (rc == 0)
            rc = pin(pthread_self(), cpus[0]);
    }
    for (int i = 1; i < workers && rc == 0; i++) {
        pool->worker[i] = (struct pool_worker){.pool = pool, .index = i};
        rc = start_worker(&pool->worker[i], cpus);
    }
    if (rc != 0) {
        thread_pool_close(pool);
        return -rc;
    }
    *out = pool;
    return 0;
}

void thread_pool_close(struct thread_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, 1);
    release_workers(pool);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    if (pool->pinned)
        pthread_setaffinity_np(pthread_self(), sizeof pool->caller_cpus, &pool->caller_cpus);
    free(pool);
}
