// SPDX-License-Identifier: Apache-2.0
// A group of ranks: a queue of operations and the thread that runs them in order. A blocking call
// that finds the queue empty runs on the caller's thread instead: for small operations the
// hand-over would cost more than the operation.
#include "comm/comm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/group.h"
#include "sys/net.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct comm_backend *const backends[] = {&comm_self, &comm_ring};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

const char *const comm_backends[] = {"self", "ring", NULL};

// Types and kinds of calls: their operations, and their names in messages.
static const struct element *const types[] = {[COMM_BYTE] = &element_byte,
                                              [COMM_F32] = &element_f32,
                                              [COMM_F64] = &element_f64,
                                              [COMM_BF16] = &element_bf16};
static const struct kind {
    const char *name;
    bool parts;     // the buffer is one part per rank
    const char *to; // text before the peer's name, or NULL: no peer
} kinds[] = {[COMM_ALL_REDUCE] = {"all-reduce", false, NULL},
             [COMM_REDUCE_SCATTER] = {"reduce-scatter", true, NULL},
             [COMM_ALL_GATHER] = {"all-gather", true, NULL},
             [COMM_BROADCAST] = {"broadcast", false, "from"},
             [COMM_SEND] = {"send", false, "to"},
             [COMM_RECV] = {"receive", false, "from"}};
enum { COMM_PREFIX_BYTES_MAX = 256, COMM_ADDRESS_BYTES_MAX = 64 };

struct comm {
    const struct comm_backend *backend;
    void *impl;
    struct comm_watch watch;
    int rank, world, cpu;
    int *shown;                // the ranks' numbers in the run
    struct comm_config config; // for the groups split off, with copies of its strings
    char prefix[COMM_PREFIX_BYTES_MAX], address[COMM_ADDRESS_BYTES_MAX];
    int splits;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    // Under the lock.
    struct comm_call queue[COMM_PENDING_MAX]; // ticket t is at (t - 1) % COMM_PENDING_MAX
    uint64_t started, done;                   // tickets; those up to done are complete
    bool busy, stop;                          // someone is inside the backend; close was called
    struct err broken;                        // code ERR_NONE: not broken
    struct comm_stats stats;
};

static int comm_sound(const struct comm_config *c, struct err *e) {
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

// Says in an error which rank failed in what.
void comm_blame(const struct comm *c, const struct comm_call *call, struct err *e) {
    const struct kind *k = &kinds[call->kind];
    if (k->to)
        err_wrap(e, "rank %d, %s of %zu x %s %s rank %d", c->shown[c->rank], k->name, call->count,
                 types[call->type]->name, k->to, c->shown[call->peer]);
    else
        err_wrap(e, "rank %d, %s of %zu x %s", c->shown[c->rank], k->name, call->count,
                 types[call->type]->name);
}

static struct comm_work comm_work_of(const struct comm *c, const struct comm_call *call) {
    struct comm_work w = {.kind = call->kind,
                          .type = types[call->type],
                          .buf = call->buf,
                          .count = call->count,
                          .factor = call->op == COMM_MEAN ? 1.0 / c->world : 1.0};
    if (kinds[call->kind].parts)
        w.each = call->each ? call->each : comm_each(c, call->count);
    if (call->kind == COMM_BROADCAST || call->kind == COMM_RECV)
        w.root = call->peer;
    if (call->kind == COMM_SEND)
        w.root = c->rank;
    if (call->kind == COMM_SEND || call->kind == COMM_RECV)
        w.kind = COMM_BROADCAST;
    return w;
}

// Called and returns with the lock; not held meanwhile. `busy` keeps everyone else out.
static void comm_run(struct comm *c, const struct comm_call *call) {
    const struct comm_work work = comm_work_of(c, call), *w = &work;
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
    if (bad) {
        comm_blame(c, call, &e);
        c->broken = e;
    }
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
        struct comm_call call = c->queue[c->done % COMM_PENDING_MAX];
        comm_run(c, &call);
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

int comm_possible(const struct comm *c, const struct comm_call *call, struct err *e) {
    must((size_t)call->kind < sizeof kinds / sizeof kinds[0]);
    must((size_t)call->type < sizeof types / sizeof types[0]);
    const struct kind *k = &kinds[call->kind];
    if (k->to && (call->peer < 0 || call->peer >= c->world))
        return err_set(e, ERR_CONFIG, "rank %d: %s %s rank %d of %d", c->shown[c->rank], k->name,
                       k->to, call->peer, c->world);
    if (k->parts && call->each > 0 &&
        call->each < (call->count + (size_t)c->world - 1) / (size_t)c->world)
        return err_set(e, ERR_CONFIG, "rank %d: %s of %zu elements in %d parts of %zu",
                       c->shown[c->rank], k->name, call->count, c->world, call->each);
    return 0;
}

// Checks the arguments of a call before it runs.
static int comm_ready(const struct comm *c, const struct comm_call *call, struct err *e) {
    bool pair = call->kind == COMM_SEND || call->kind == COMM_RECV;
    if (comm_possible(c, call, e) < 0)
        return -1;
    if (pair && (c->world != 2 || call->peer == c->rank))
        return err_set(
            e, ERR_CONFIG,
            "rank %d: %s %s rank %d in a group of %d: this goes between the two ranks of "
            "a group of two (comm_split)",
            c->shown[c->rank], kinds[call->kind].name, kinds[call->kind].to, c->shown[call->peer],
            c->world);
    return 0;
}

int comm_start(struct comm *c, const struct comm_call *call, uint64_t *ticket, struct err *e) {
    if (comm_ready(c, call, e) < 0)
        return -1;
    pthread_mutex_lock(&c->lock);
    while (c->started - c->done == COMM_PENDING_MAX)
        pthread_cond_wait(&c->finished, &c->lock);
    int bad = comm_verdict(c, e);
    if (bad == 0) {
        if (c->world == 1) { // nothing to wait for
            comm_run(c, call);
            c->done++;
        } else {
            c->queue[c->started % COMM_PENDING_MAX] = *call;
            pthread_cond_signal(&c->work);
        }
        *ticket = ++c->started;
    }
    pthread_mutex_unlock(&c->lock);
    return bad;
}

int comm_do(struct comm *c, const struct comm_call *call, struct err *e) {
    uint64_t ticket;
    if (comm_ready(c, call, e) < 0)
        return -1;
    pthread_mutex_lock(&c->lock);
    bool idle = c->started == c->done && !c->busy;
    if (idle)
        comm_run(c, call);
    int bad = comm_verdict(c, e);
    pthread_mutex_unlock(&c->lock);
    if (idle || bad)
        return bad;
    return comm_start(c, call, &ticket, e) < 0 ? -1 : comm_wait(c, ticket, e);
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

static int comm_keep(struct comm *c, const struct comm_config *config, struct err *e) {
    const char *prefix = config->prefix ? config->prefix : "comm";
    const char *address = config->address ? config->address : "";
    if (strlen(prefix) >= sizeof c->prefix || strlen(address) >= sizeof c->address)
        return err_set(e, ERR_LIMIT, "prefix '%s' or address '%s' is longer than %zu or %zu bytes",
                       prefix, address, sizeof c->prefix - 1, sizeof c->address - 1);
    memcpy(c->prefix, prefix, strlen(prefix) + 1);
    memcpy(c->address, address, strlen(address) + 1);
    c->config = *config;
    c->config.prefix = c->prefix;
    c->config.address = config->address ? c->address : NULL;
    if (c->config.stall_timeout_ms_max <= 0)
        c->config.stall_timeout_ms_max = COMM_STALL_TIMEOUT_MS;
    if (c->config.connect_timeout_ms_max <= 0)
        c->config.connect_timeout_ms_max = COMM_CONNECT_TIMEOUT_MS;
    comm_merge(&c->config);
    return 0;
}

// shown: every rank's number in errors, taken over; NULL: its rank.
static int comm_open_group(struct comm **out, const struct comm_backend *b,
                           const struct comm_config *config, int *shown, struct err *e) {
    *out = NULL;
    if (comm_sound(config, e) < 0) {
        free(shown);
        return -1;
    }
    struct comm *c = heap_alloc(sizeof *c);
    c->backend = b;
    c->rank = config->rank;
    c->world = config->world;
    c->cpu = config->cpu;
    c->shown = shown ? shown : heap_alloc((size_t)c->world * sizeof *c->shown);
    for (int i = 0; i < c->world && !shown; i++)
        c->shown[i] = i;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->finished, NULL);
    int bad = comm_keep(c, config, e);
    c->watch.stall_timeout_ms_max = c->config.stall_timeout_ms_max;
    if (bad == 0)
        bad = b->open(&c->impl, &c->config, c->shown[c->rank], &c->watch, e);
    if (bad == 0 && c->world > 1) {
        int error = pthread_create(&c->thread, NULL, comm_thread, c);
        c->threaded = error == 0;
        errno = error;
        if (error)
            bad = err_errno(e, ERR_SYS, "starting the communication thread");
    }
    if (bad) {
        err_wrap(e, "rank %d", c->shown[c->rank]);
        comm_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

int comm_open(struct comm **out, const char *backend, const struct comm_config *config,
              struct err *e) {
    *out = NULL;
    const struct comm_backend *b = comm_find(backend, config->world, e);
    return b ? comm_open_group(out, b, config, NULL, e) : -1;
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
    free(c->shown);
    free(c);
}

// ---- groups ------------------------------------------------------------------------------------

static int comm_join(struct comm **out, struct comm *parent, struct group_member *all, int color,
                     int split, struct err *e) {
    struct comm_config config = parent->config;
    char prefix[COMM_PREFIX_BYTES_MAX];
    int n = snprintf(prefix, sizeof prefix, "%s/%d.%d", parent->prefix, split, color);
    if (n < 0 || (size_t)n >= sizeof prefix)
        return err_set(e, ERR_LIMIT, "groups of groups of '%s': the prefix has more than %zu bytes",
                       parent->prefix, sizeof prefix - 1);
    config.prefix = prefix;
    config.keep_nodes = true; // the parent has decided
    const struct group_member *m = group_place(&config, all, parent->world, parent->rank, color);
    int *shown = heap_alloc((size_t)config.world * sizeof *shown);
    for (int i = 0; i < config.world; i++)
        shown[i] = parent->shown[m[i].rank];
    return comm_open_group(out, config.world == 1 ? &comm_self : parent->backend, &config, shown,
                           e);
}

int comm_split(struct comm **out, struct comm *parent, int color, int key, struct err *e) {
    *out = NULL;
    struct group_member *all = heap_alloc((size_t)parent->world * sizeof *all);
    const struct group_member mine = {color, key, parent->rank, parent->config.node};
    int split = parent->splits++;
    int bad = comm_all_gather(parent, &mine, all, sizeof mine, e);
    for (int i = 0; i < parent->world && bad == 0; i++)
        if (all[i].rank != i || (i == parent->rank && all[i].color != color) || all[i].node < 0 ||
            all[i].node >= COMM_WORLD_MAX)
            bad = err_set(e, ERR_FORMAT, "rank %d says it is rank %d on node %d", parent->shown[i],
                          all[i].rank, all[i].node);
    if (bad == 0 && color >= 0)
        bad = comm_join(out, parent, all, color, split, e);
    free(all);
    return bad;
}

// ---- the usual calls ---------------------------------------------------------------------------

size_t comm_each(const struct comm *c, size_t count) {
    size_t each = (count + (size_t)c->world - 1) / (size_t)c->world;
    return (each + 63) / 64 * 64;
}

int comm_all_reduce_start(struct comm *c, float *buf, size_t count, enum comm_op op,
                          uint64_t *ticket, struct err *e) {
    const struct comm_call call = {
        .kind = COMM_ALL_REDUCE, .type = COMM_F32, .op = op, .buf = buf, .count = count};
    return comm_start(c, &call, ticket, e);
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

int comm_all_reduce(struct comm *c, float *buf, size_t count, enum comm_op op, struct err *e) {
    const struct comm_call call = {
        .kind = COMM_ALL_REDUCE, .type = COMM_F32, .op = op, .buf = buf, .count = count};
    return comm_do(c, &call, e);
}

int comm_all_reduce_f64(struct comm *c, double *buf, size_t count, enum comm_op op, struct err *e) {
    const struct comm_call call = {
        .kind = COMM_ALL_REDUCE, .type = COMM_F64, .op = op, .buf = buf, .count = count};
    return comm_do(c, &call, e);
}

int comm_broadcast(struct comm *c, void *buf, size_t bytes, int root, struct err *e) {
    const struct comm_call call = {
        .kind = COMM_BROADCAST, .buf = buf, .count = bytes, .peer = root};
    return comm_do(c, &call, e);
}

int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e) {
    memmove((char *)out + (size_t)c->rank * bytes, in, bytes);
    const struct comm_call call = {
        .kind = COMM_ALL_GATHER, .buf = out, .count = (size_t)c->world * bytes, .each = bytes};
    return comm_do(c, &call, e);
}

int comm_barrier(struct comm *c, struct err *e) {
    unsigned char byte = 0;
    const struct comm_call call = {.kind = COMM_ALL_REDUCE, .buf = &byte, .count = 1};
    return comm_do(c, &call, e);
}

int comm_check(struct comm *c, struct err *e) {
    pthread_mutex_lock(&c->lock);
    int bad = comm_verdict(c, e);
    if (bad == 0 && c->started == c->done && !c->busy && c->backend->check) {
        bad = c->backend->check(c->impl, e);
        if (bad)
            c->broken = *e;
    }
    pthread_mutex_unlock(&c->lock);
    return bad;
}

void comm_fail(struct comm *c, const struct err *e) {
    pthread_mutex_lock(&c->lock);
    if (c->broken.code == ERR_NONE && !c->busy && c->backend->fail)
        c->backend->fail(c->impl, e);
    if (c->broken.code == ERR_NONE)
        c->broken = *e;
    pthread_mutex_unlock(&c->lock);
}

const struct comm_config *comm_configuration(const struct comm *c) {
    return &c->config;
}

int comm_shown(const struct comm *c, int rank) {
    return c->shown[rank];
}

void comm_narrow(uint16_t *to, const float *from, size_t n) {
    element_bf16.narrow(to, from, n);
}

void comm_widen(float *to, const uint16_t *from, size_t n) {
    element_bf16.widen(to, from, n);
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
