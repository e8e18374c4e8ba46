// SPDX-License-Identifier: Apache-2.0
// A trainer of one rank on a device that is the test: it notes what it is given, and a read has the
// results that a test has set.
#ifndef TESTS_UNIT_TRAINER_ASYNC_FAKE_H
#define TESTS_UNIT_TRAINER_ASYNC_FAKE_H

#include "tests/tap.h"
#include "trainer/trainer_impl.h"

#include <stdlib.h>

static struct err e;
static struct train_config options;
static struct trainer_config config;
static struct trainer t;
static struct part part;
static struct nn_model model;

// ---- the device --------------------------------------------------------------------------------

static struct {
    struct kernel_step step, results[8]; // as written; of the reads, in order
    size_t written;                      // bytes of the last write
    int reads_begun, reads_ended, slots[16], freed, captures, replays, zeroed;
    void *zeroed_at;
    const char *failure, *no_graph;
    bool no_memory;
    struct step_judge_args judge;
    struct step_totals_args totals;
    int totalled, judged;
} device;

static const char *device_failure(const struct kernel_ctx *ctx) {
    (void)ctx;
    return device.failure;
}

static void *device_alloc(struct kernel_ctx *ctx, size_t bytes) {
    (void)ctx;
    return device.no_memory ? NULL : calloc(1, bytes);
}

static void device_free(struct kernel_ctx *ctx, void *p, size_t bytes) {
    (void)ctx;
    device.freed += bytes == sizeof(struct kernel_step);
    free(p);
}

static void device_write(struct kernel_ctx *ctx, void *dst, const void *src, size_t bytes) {
    (void)ctx;
    memcpy(dst, src, bytes);
    memcpy(&device.step, dst, sizeof device.step);
    device.written = bytes;
}

static void device_read_start(struct kernel_ctx *ctx, int slot, const void *src, size_t bytes) {
    (void)ctx, (void)src, (void)bytes;
    device.slots[device.reads_begun++ % 16] = slot;
}

static void device_read_end(struct kernel_ctx *ctx, int slot, void *dst, size_t bytes) {
    (void)ctx;
    ok(slot == device.slots[device.reads_ended % 16], "read %d ends in the slot that it began in",
       device.reads_ended);
    memcpy(dst, &device.results[device.reads_ended++ % 8], bytes);
}

static void device_capture_begin(struct kernel_ctx *ctx) {
    (void)ctx;
    device.captures++;
}

static void *device_capture_end(struct kernel_ctx *ctx, const char **why) {
    (void)ctx;
    *why = device.no_graph;
    return device.no_graph ? NULL : malloc(1);
}

static void device_replay(struct kernel_ctx *ctx, void *captured) {
    (void)ctx;
    device.replays += captured != NULL;
}

static void device_capture_free(struct kernel_ctx *ctx, void *captured) {
    (void)ctx;
    device.captures--;
    free(captured);
}

static void device_zero(struct kernel_ctx *ctx, size_t n, void *x) {
    (void)ctx;
    device.zeroed = (int)n;
    device.zeroed_at = x;
}

static void device_totals(struct kernel_ctx *ctx, const struct step_totals_args *a) {
    (void)ctx;
    device.totals = *a;
    device.totalled++;
}

static void device_judge(struct kernel_ctx *ctx, const struct step_judge_args *a) {
    (void)ctx;
    device.judge = *a;
    device.judged++;
}

static const struct kernel_backend kernels = {.name = "test",
                                              .real_bytes = sizeof(float),
                                              .failure = device_failure,
                                              .mem_alloc = device_alloc,
                                              .mem_free = device_free,
                                              .mem_write = device_write,
                                              .read_start = device_read_start,
                                              .read_end = device_read_end,
                                              .capture_begin = device_capture_begin,
                                              .capture_end = device_capture_end,
                                              .replay = device_replay,
                                              .capture_free = device_capture_free,
                                              .zero = device_zero,
                                              .step_totals = device_totals,
                                              .step_judge = device_judge};
static const struct trainer_device on_device = {.kernels = &kernels, .about = "a test"};

// ---- a trainer ---------------------------------------------------------------------------------

enum { PARAMS = 8 };
static char grads[(PARAMS + NETWORK_TAIL) * sizeof(float)];
static int64_t accounted_step;
static int accounted;
static double accounted_loss;

static void account(void *ctx, int64_t step, double loss) {
    (void)ctx;
    accounted++;
    accounted_step = step;
    accounted_loss = loss;
}

static void reset(void) {
    static struct nn_param param[2] = {{.name = "first", .begin = 0, .count = 3},
                                       {.name = "second", .begin = 3, .count = 5}};
    memset(&device, 0, sizeof device);
    err_clear(&e);
    accounted = 0;
    options = (struct train_config){.accumulate = 1,
                                    .epochs = 10,
                                    .lookahead_every = 5,
                                    .clip_norm = 0.25,
                                    .graph = TRAIN_GRAPH_AUTO};
    config = (struct trainer_config){
        .options = &options, .device = &on_device, .on_step = account, .comm = {.world = 1}};
    model = (struct nn_model){.param = param, .params = 2, .param_elements = PARAMS};
    part = (struct part){.buckets = {.count = 1}};
    struct comm *self = t.comm;
    t = (struct trainer){.config = &config,
                         .options = &options,
                         .comm = self,
                         .rank = 0,
                         .world = 1,
                         .mesh = {.world = 1, .data = 1, .pipe = 1},
                         .chunks = 1,
                         .micros = 1,
                         .shards = 1,
                         .at = {.samples = 100},
                         .schedule = {.lr = 0.5, .epochs = 10}};
    t.chunk[0].part = &part;
    t.chunk[0].net = (struct network){.k = &kernels, .model = &model, .grads = grads};
    t.chunk[0].optimizer = (struct optimizer){.kind = TRAIN_SGD};
    t.rank = 1; // no lines of metrics
}

#endif
