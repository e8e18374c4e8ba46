// SPDX-License-Identifier: Apache-2.0
// Moves the numbers of a measurement: between processors, between GPUs, and between GPUs
// through the memory of the hosts.
#include "trainer/bench.h"

#include "base/arena.h"
#include "base/clock.h"
#include "trainer/trainer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_NS = 20000 };

struct way {
    const struct trainer_config *config;
    struct comm *comm;
    struct comm *to_next, *from_last; // groups of two ranks each; NULL: not needed
    float *host;
    // of GPUs
    const struct kernel_backend *k; // NULL: processors
    struct kernel_ctx *ctx;
    float *device;
    size_t bytes;
    struct comm_device *collectives; // NULL: through the memory of the hosts
    uint64_t tickets[TRAIN_BENCH_ITERATIONS_MAX];
};

static int failure(const struct way *w, struct err *e) {
    const char *why = w->k && w->k->failure ? w->k->failure(w->ctx) : NULL;
    return why ? err_set(e, ERR_FAILED, "%s", why) : 0;
}

static struct comm_call call_of(const struct bench_size *size, float *buffer) {
    static const enum comm_kind kinds[] = {[TRAIN_BENCH_ALL_REDUCE] = COMM_ALL_REDUCE,
                                           [TRAIN_BENCH_ALL_GATHER] = COMM_ALL_GATHER,
                                           [TRAIN_BENCH_REDUCE_SCATTER] = COMM_REDUCE_SCATTER,
                                           [TRAIN_BENCH_SENDRECV] = COMM_SEND};
    bool parted = size->kind == TRAIN_BENCH_ALL_GATHER || size->kind == TRAIN_BENCH_REDUCE_SCATTER;
    return (struct comm_call){.kind = kinds[size->kind],
                              .type = COMM_F32,
                              .op = COMM_SUM,
                              .buf = buffer,
                              .count = size->count,
                              .each = parted ? size->each : 0};
}

// ---- through the hosts -------------------------------------------------------------------------

// Every rank sends to the next one in a group of these two. No rank is in two groups of one round.
static int round_of(int from, int world) {
    return world % 2 && from == world - 1 ? 2 : from % 2;
}

static int join_neighbours(struct way *w, struct err *e) {
    int rank = comm_rank(w->comm), world = comm_world(w->comm), last = (rank + world - 1) % world;
    for (int round = 0; round < (world % 2 ? 3 : 2); round++) {
        bool sends = round_of(rank, world) == round, gets = round_of(last, world) == round;
        struct comm **group = sends ? &w->to_next : &w->from_last, *none = NULL;
        int color = sends ? rank : gets ? last : -1;
        if (comm_split(color < 0 ? &none : group, w->comm, color, sends ? 0 : 1, e) < 0)
            return -1;
    }
    return 0;
}

static int host_once(const struct way *w, const struct bench_size *size, struct err *e) {
    struct comm_call call = call_of(size, w->host);
    uint64_t sent, got;
    if (size->kind != TRAIN_BENCH_SENDRECV)
        return comm_do(w->comm, &call, e);
    struct comm_call receive = call;
    call.peer = 1;
    receive.kind = COMM_RECV;
    receive.buf = w->host + size->count;
    receive.peer = 0;
    if (comm_start(w->to_next, &call, &sent, e) < 0 ||
        comm_start(w->from_last, &receive, &got, e) < 0)
        return -1;
    return comm_wait(w->to_next, sent, e) < 0 ? -1 : comm_wait(w->from_last, got, e);
}

static int host_move(void *ctx, const struct bench_size *size, int64_t times, struct err *e) {
    struct way *w = ctx;
    size_t bytes = size->buffer * sizeof(float);
    for (int64_t i = 0; i < times; i++) {
        if (w->k)
            w->k->mem_read(w->ctx, w->host, w->device, bytes);
        if (failure(w, e) < 0 || host_once(w, size, e) < 0)
            return -1;
        if (w->k)
            w->k->mem_write(w->ctx, w->device, w->host, bytes);
    }
    return failure(w, e);
}

// ---- from device to device ---------------------------------------------------------------------

static int enqueue(struct way *w, const struct bench_size *size, int mark, struct err *e) {
    const struct comm_device_table *table = w->config->device->collectives;
    struct comm_call call = call_of(size, w->device), receive = call;
    int rank = comm_rank(w->comm), world = comm_world(w->comm), r;
    void *stream = w->k->beside_begin(w->ctx, 0);
    if (failure(w, e) < 0)
        return -1;
    if (size->kind == TRAIN_BENCH_SENDRECV) {
        call.peer = (rank + 1) % world;
        receive.kind = COMM_RECV;
        receive.buf = w->device + size->count;
        receive.peer = (rank + world - 1) % world;
        r = table->exchange(w->collectives, &call, &receive, stream, &w->tickets[mark], e);
    } else {
        r = table->enqueue(w->collectives, &call, stream, &w->tickets[mark], e);
    }
    w->k->beside_end(w->ctx, 0, mark);
    return r;
}

// Polls for the last call, and has the first one that has not ended watched.
static int await(struct way *w, int count, struct err *e) {
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    int64_t since = clock_mono_ms(), looked = since;
    for (int first = 0; first < count;) {
        int64_t now = clock_mono_ms();
        if (w->k->beside_done(w->ctx, first)) {
            first++;
            since = now;
            continue;
        }
        if (now - looked >= COMM_DEVICE_WATCH_MS) {
            looked = now;
            if (w->config->device->collectives->watch(w->collectives, w->tickets[first],
                                                      now - since, e) < 0)
                return -1;
        }
        nanosleep(&pause, NULL);
    }
    if (count)
        w->k->beside_await(w->ctx, count - 1);
    return failure(w, e);
}

static int device_move(void *ctx, const struct bench_size *size, int64_t times, struct err *e) {
    struct way *w = ctx;
    must(times <= BESIDE_MARKS_MAX);
    for (int i = 0; i < times; i++)
        if (enqueue(w, size, i, e) < 0)
            return -1;
    return await(w, (int)times, e);
}

// ---- both --------------------------------------------------------------------------------------

static int way_write(void *ctx, const float *from, size_t count, struct err *e) {
    const struct way *w = ctx;
    if (w->k)
        w->k->mem_write(w->ctx, w->device, from, count * sizeof *from);
    else
        memcpy(w->host, from, count * sizeof *from);
    return failure(w, e);
}

static int way_read(void *ctx, float *to, size_t count, struct err *e) {
    const struct way *w = ctx;
    if (w->k)
        w->k->mem_read(w->ctx, to, w->device, count * sizeof *to);
    else
        memcpy(to, w->host, count * sizeof *to);
    return failure(w, e);
}

static void way_close(void *ctx) {
    struct way *w = ctx;
    if (w->collectives)
        w->config->device->collectives->close(w->collectives);
    comm_close(w->to_next);
    comm_close(w->from_last);
    if (w->device)
        w->k->mem_free(w->ctx, w->device, w->bytes);
    if (w->k)
        w->k->close(w->ctx);
    free(w->host);
    free(w);
}

static int open_device(struct way *w, struct err *e) {
    const struct trainer_device *device = w->config->device;
    const struct kernel_config settings = {.device = device->handle};
    int r = device->kernels->open(&w->ctx, &settings);
    if (r < 0)
        return err_set(e, ERR_FAILED, "%s: its kernels cannot be used: %s", device->about,
                       strerror(-r));
    w->k = device->kernels;
    w->device = w->k->mem_alloc(w->ctx, w->bytes);
    return w->device
               ? failure(w, e)
               : err_set(e, ERR_LIMIT, "%s: no memory for %zu bytes (try: a smaller --max-bytes)",
                         device->about, w->bytes);
}

static int open_way(struct way *w, enum train_bench kind, struct bench_way *out, struct err *e) {
    const struct trainer_device *device = w->config->device;
    if (device && open_device(w, e) < 0)
        return -1;
    int r = trainer_device_choose(w->config, w->comm, &w->collectives, e);
    if (r > 0 && device) { // without a device there are none
        snprintf(out->about, sizeof out->about, "from GPU to GPU by %s",
                 device->collectives->about(w->collectives));
        out->move = device_move;
    }
    if (r)
        return r < 0 ? -1 : 0;
    snprintf(out->about, sizeof out->about, "%s%s by %s%s%.200s",
             device ? "through the memory of the hosts" : "between processors",
             device ? ", with the copies," : "", comm_backend_name(w->comm),
             e->code == ERR_NONE ? "" : ": ", e->code == ERR_NONE ? "" : e->text);
    out->move = host_move;
    w->host = malloc(w->bytes);
    if (!w->host)
        return err_set(e, ERR_LIMIT, "no memory for %zu bytes (try: a smaller --max-bytes)",
                       w->bytes);
    memset(w->host, 0, w->bytes);
    return kind == TRAIN_BENCH_SENDRECV ? join_neighbours(w, e) : 0;
}

int bench_way_open(struct bench_way *out, const struct trainer_config *config, struct comm *comm,
                   enum train_bench kind, size_t buffer, struct err *e) {
    struct way *w = heap_alloc(sizeof *w);
    *w = (struct way){.config = config, .comm = comm, .bytes = buffer * sizeof(float)};
    *out = (struct bench_way){.write = way_write, .read = way_read, .close = way_close, .ctx = w};
    if (open_way(w, kind, out, e) == 0)
        return 0;
    way_close(w);
    *out = (struct bench_way){0};
    return -1;
}
