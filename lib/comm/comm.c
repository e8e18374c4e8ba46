// SPDX-License-Identifier: Apache-2.0
// A queue of operations and the thread that runs them in order. A blocking call that finds the
// queue empty runs on the caller's thread instead: for small operations the hand-over would cost
// more than the operation.
#include "comm/comm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/backend.h"
#include "sys/net.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const struct comm_backend *const backends[] = {&comm_self, &comm_ring};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

const char *const comm_backends[] = {"self", "ring", NULL};

struct comm {
    const struct comm_backend *backend;
    void *impl;
    struct comm_watch watch;
    int rank, world, cpu;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    // Under the lock.
    struct comm_work queue[COMM_PENDING_MAX]; // ticket t is at (t - 1) % COMM_PENDING_MAX
    uint64_t started, done;                   // tickets; those up to done are complete
    bool busy, stop;                          // someone is inside the backend; close was called
    struct err broken;                        // code ERR_NONE: not broken
    struct comm_stats stats;
};

static int comm_check(const struct comm_config *c, struct err *e) {
    if (c->world < 1 || c->world > COMM_WORLD_MAX || c->rank < 0 || c->rank >= c->world)
        return err_set(e, ERR_CONFIG, "rank %d of %d is not possible (at most %d ranks)", c->rank,
                       c->world, COMM_WORLD_MAX);
    if (c->world == 1)
        return 0;
    if (c->local_world < 1 || c->local_world > COMM_LOCAL_WORLD_MAX || c->local_rank < 0 ||
        c->local_rank >= c->local_world || c->local_world > c->world)
        return err_set(e, ERR_CONFIG,
                       "rank %d: local rank %d of %d is not possible (at most %d on a node)",
                       c->rank, c->local_rank, c->local_world, COMM_LOCAL_WORLD_MAX);
    if (c->nodes < 1 || c->nodes > c->world || c->node < 0 || c->node >= c->nodes ||
        (c->nodes == 1) != (c->local_world == c->world))
        return err_set(e, ERR_CONFIG, "rank %d: node %d of %d with %d of %d ranks is not possible",
                       c->rank, c->node, c->nodes, c->local_world, c->world);
    if (!c->kv.set || !c->kv.get)
        return err_set(e, ERR_CONFIG, "ranks need a store to find each other");
    if (c->nodes > 1 && !c->address)
        return err_set(e, ERR_CONFIG, "rank %d: more than one node, and no address of this one",
                       c->rank);
    if (c->sockets < 0 || c->sockets > COMM_SOCKETS_MAX)
        return err_set(e, ERR_CONFIG, "%d sockets per neighbour are not in 1 to %d", c->sockets,
                       COMM_SOCKETS_MAX);
    return 0;
}

// "Nodes" with loopback addresses are all this machine, and shared memory is the better network.
static void comm_merge(struct comm_config *c) {
    struct net_address address;
    struct err ignored;
    if (c->nodes < 2 || c->keep_nodes || c->world > COMM_LOCAL_WORLD_MAX || !c->address ||
        !net_is_numeric(c->address) || net_resolve(c->address, 0, &address, &ignored) < 0 ||
        !net_is_loopback(&address))
        return;
    c->node = 0;
    c->nodes = 1;
    c->local_rank = c->rank;
    c->local_world = c->world;
}

// ---- running -----------------------------------------------------------------------------------

// Called and returns with the lock; not held meanwhile. `busy` keeps everyone else out.
static void comm_run(struct comm *c, const struct comm_work *w) {
    struct err e;
    err_clear(&e);
    bool broken = c->broken.code != ERR_NONE;
    c->busy = true;
    pthread_mutex_unlock(&c->lock);
    int64_t start = clock_mono_ns();
    int bad = broken || w->count == 0 ? 0 : c->backend->run(c->impl, w, &e);
    int64_t ns = clock_mono_ns() - start;
    pthread_mutex_lock(&c->lock);
    c->busy = false;
    if (bad)
        c->broken = e;
    c->stats.operations++;
    c->stats.bytes += w->count * w->type->bytes;
    c->stats.busy_ns += ns;
}

static void *comm_thread(void *arg) {
    struct comm *c = arg;
    if (c->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(c->cpu, &set);
        (void)sched_setaffinity(0, sizeof set, &set); // a wish
    }
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (c->done == c->started || c->busy) {
            pthread_cond_wait(&c->work, &c->lock);
            continue;
        }
        struct comm_work w = c->queue[c->done % COMM_PENDING_MAX];
        comm_run(c, &w);
        c->done++;
        pthread_cond_broadcast(&c->finished);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static int comm_verdict(const struct comm *c, struct err *e) {
    if (c->broken.code == ERR_NONE)
        return 0;
    *e = c->broken;
    return -1;
}

static int comm_start(struct comm *c, const struct comm_work *w, uint64_t *ticket, struct err *e) {
    pthread_mutex_lock(&c->lock);
    while (c->started - c->done == COMM_PENDING_MAX)
        pthread_cond_wait(&c->finished, &c->lock);
    int bad = comm_verdict(c, e);
    if (bad == 0) {
        if (c->world == 1) { // nothing to wait for
            comm_run(c, w);
            c->done++;
        } else {
            c->queue[c->started % COMM_PENDING_MAX] = *w;
            pthread_cond_signal(&c->work);
        }
        *ticket = ++c->started;
    }
    pthread_mutex_unlock(&c->lock);
    return bad;
}

// Runs one operation to its end.
static int comm_do(struct comm *c, const struct comm_work *w, struct err *e) {
    uint64_t ticket;
    pthread_mutex_lock(&c->lock);
    bool idle = c->started == c->done && !c->busy;
    if (idle)
        comm_run(c, w);
    int bad = comm_verdict(c, e);
    pthread_mutex_unlock(&c->lock);
    if (idle || bad)
        return bad;
    return comm_start(c, w, &ticket, e) < 0 ? -1 : comm_wait(c, ticket, e);
}

// ---- opening and closing -----------------------------------------------------------------------

static const struct comm_backend *comm_find(const char *name, int world, struct err *e) {
    if (!name)
        name = world == 1 ? comm_self.name : comm_ring.name;
    for (int i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    err_set(e, ERR_CONFIG, "there are no collectives called '%s'", name);
    return NULL;
}

int comm_open(struct comm **out, const char *backend, const struct comm_config *config,
              struct err *e) {
    *out = NULL;
    const struct comm_backend *b = comm_find(backend, config->world, e);
    if (!b || comm_check(config, e) < 0)
        return -1;
    struct comm_config merged = *config;
    comm_merge(&merged);
    struct comm *c = heap_alloc(sizeof *c);
    c->backend = b;
    c->rank = config->rank;
    c->world = config->world;
    c->cpu = config->cpu;
    c->watch.stall_timeout_ms_max =
        config->stall_timeout_ms_max > 0 ? config->stall_timeout_ms_max : COMM_STALL_TIMEOUT_MS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->finished, NULL);
    int bad = b->open(&c->impl, &merged, &c->watch, e);
    if (bad == 0 && c->world > 1) {
        int error = pthread_create(&c->thread, NULL, comm_thread, c);
        c->threaded = error == 0;
        errno = error;
        if (error)
            bad = err_errno(e, ERR_SYS, "starting the communication thread");
    }
    if (bad) {
        comm_close(c);
        return err_wrap(e, "rank %d", config->rank);
    }
    *out = c;
    return 0;
}

void comm_close(struct comm *c) {
    if (!c)
        return;
    atomic_store(&c->watch.cancel, true);
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    if (c->threaded)
        pthread_join(c->thread, NULL);
    if (c->impl)
        c->backend->close(c->impl);
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->finished);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

// ---- the collectives ---------------------------------------------------------------------------

static double comm_factor(const struct comm *c, enum comm_op op) {
    return op == COMM_MEAN ? 1.0 / c->world : 1.0;
}

int comm_all_reduce_start(struct comm *c, float *buf, size_t count, enum comm_op op,
                          uint64_t *ticket, struct err *e) {
    const struct comm_work w = {&element_f32, buf, count, comm_factor(c, op)};
    return comm_start(c, &w, ticket, e);
}

int comm_wait(struct comm *c, uint64_t ticket, struct err *e) {
    pthread_mutex_lock(&c->lock);
    must(ticket <= c->started);
    while (c->done < ticket)
        pthread_cond_wait(&c->finished, &c->lock);
    int bad = comm_verdict(c, e);
    pthread_mutex_unlock(&c->lock);
    return bad;
}

bool comm_done(struct comm *c, uint64_t ticket) {
    pthread_mutex_lock(&c->lock);
    bool done = c->done >= ticket || c->broken.code != ERR_NONE;
    pthread_mutex_unlock(&c->lock);
    return done;
}

int comm_all_reduce(struct comm *c, float *buf, size_t count, enum comm_op op, struct err *e) {
    const struct comm_work w = {&element_f32, buf, count, comm_factor(c, op)};
    return comm_do(c, &w, e);
}

int comm_all_reduce_f64(struct comm *c, double *buf, size_t count, enum comm_op op, struct err *e) {
    const struct comm_work w = {&element_f64, buf, count, comm_factor(c, op)};
    return comm_do(c, &w, e);
}

int comm_broadcast(struct comm *c, void *buf, size_t bytes, int root, struct err *e) {
    if (root < 0 || root >= c->world)
        return err_set(e, ERR_CONFIG, "broadcast from rank %d of %d", root, c->world);
    if (c->rank != root)
        memset(buf, 0, bytes);
    const struct comm_work w = {&element_byte, buf, bytes, 1.0};
    return comm_do(c, &w, e);
}

int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e) {
    char *mine = (char *)out + (size_t)c->rank * bytes;
    memmove(mine, in, bytes);
    memset(out, 0, (size_t)c->rank * bytes);
    memset(mine + bytes, 0, (size_t)(c->world - c->rank - 1) * bytes);
    const struct comm_work w = {&element_byte, out, (size_t)c->world * bytes, 1.0};
    return comm_do(c, &w, e);
}

int comm_barrier(struct comm *c, struct err *e) {
    unsigned char byte = 0;
    const struct comm_work w = {&element_byte, &byte, 1, 1.0};
    return comm_do(c, &w, e);
}

int comm_rank(const struct comm *c) {
    return c->rank;
}

int comm_world(const struct comm *c) {
    return c->world;
}

const char *comm_backend_name(const struct comm *c) {
    return c->backend->name;
}

void comm_stats(struct comm *c, struct comm_stats *out) {
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    pthread_mutex_unlock(&c->lock);
}

// ---- self: one rank ----------------------------------------------------------------------------

static int self_open(void **impl, const struct comm_config *config, struct comm_watch *watch,
                     struct err *e) {
    (void)watch;
    *impl = NULL;
    if (config->world == 1)
        return 0;
    return err_set(e, ERR_CONFIG, "the collectives called self are for one rank, not %d",
                   config->world);
}

static int self_run(void *impl, const struct comm_work *work, struct err *e) {
    (void)impl, (void)work, (void)e; // the sum of one is itself
    return 0;
}

static void self_close(void *impl) {
    (void)impl;
}

const struct comm_backend comm_self = {"self", self_open, self_run, self_close};
