// SPDX-License-Identifier: Apache-2.0
// A fixed set of pinned worker threads that run one function together.
// thread_pool_run calls fn(arg, worker, workers) once per worker, worker 0 being the caller, and
// returns when all have returned; what one run wrote, the next one sees. Workers wait by spinning
// for a moment, then asleep. Owned by its opener; thread_pool_run is for one thread at a time.
#ifndef DTCTL_KERNELS_CPU_THREAD_POOL_H
#define DTCTL_KERNELS_CPU_THREAD_POOL_H

struct thread_pool;

// workers >= 1; cpus: one CPU number per worker to pin it to (the caller is worker 0), or NULL.
// 0, or a negative errno.
int thread_pool_open(struct thread_pool **out, int workers, const int *cpus);
void thread_pool_close(
    struct thread_pool *pool); // NULL is allowed; gives the caller its old CPUs back
void thread_pool_run(struct thread_pool *pool, void (*fn)(void *arg, int worker, int workers),
                     void *arg);

#endif
