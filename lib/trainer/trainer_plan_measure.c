// SPDX-License-Identifier: Apache-2.0
// The time of each layer on this machine: a few passes over random numbers, with as many images as
// cost about a second.
#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "trainer/trainer_plan_impl.h"

#include <stdlib.h>

enum { ROUNDS = 3, LONG_NUMBERS = 4 << 20 };
#define MEASURE_FLOP_MAX    20e9 // of one pass, both ways
#define MEASURE_NUMBERS_MAX 64e6 // of all outputs

static int images(const struct plan *p) {
    double flop = 0, numbers = 0;
    for (int i = 0; i < p->t->model->layers; i++) {
        flop += (double)p->layer[i].cost.flop;
        numbers += (double)p->layer[i].cost.output;
    }
    double n = p->t->micro_batch;
    n = n * flop > MEASURE_FLOP_MAX ? MEASURE_FLOP_MAX / flop : n;
    n = n * numbers > MEASURE_NUMBERS_MAX ? MEASURE_NUMBERS_MAX / numbers : n;
    return n < 1 ? 1 : (int)n;
}

static void fill(struct network *net, int n) {
    size_t count = layer_elements(&net->model->layer[0], n);
    float *x = heap_alloc(count * sizeof *x);
    int32_t *labels = heap_alloc((size_t)n * sizeof *labels);
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    network_set_input(net, NETWORK_TRAIN, n, x);
    network_labels(net, labels, n);
    free(x);
    free(labels);
}

static double since_s(int64_t *since) {
    int64_t now = clock_mono_ns(), then = *since;
    *since = now;
    return (double)(now - then) / 1e9;
}

// One pass; times of layers go to column `round`.
static void pass(struct network *net, int n, double (*forward)[ROUNDS], double (*backward)[ROUNDS],
                 int round) {
    int layers = net->model->layers;
    struct loss_totals totals[NETWORK_LOSSES_MAX];
    int64_t since = clock_mono_ns();
    for (int i = 1; i < layers; i++) {
        network_forward_layers(net, n, NETWORK_TRAIN, i, i + 1);
        forward[i][round] = since_s(&since);
    }
    network_loss(net, n, 0, 1.0 / n);
    network_losses(net, totals);
    forward[layers - 1][round] += since_s(&since);
    for (int i = layers - 1; i > 0; i--) {
        network_backward(net, n, false, i, i + 1);
        backward[i][round] = since_s(&since);
    }
}

// The round that other processes disturbed least.
static double least(const double times[ROUNDS]) {
    double t = times[0];
    for (int i = 1; i < ROUNDS; i++)
        t = times[i] < t ? times[i] : t;
    return t;
}

static void measure_rest(struct plan *p, struct network *net) {
    struct trainer *t = p->t;
    struct optimizer o = t->chunk[0].optimizer;
    double update[ROUNDS], add[ROUNDS];
    size_t all = net->model->param_elements, bytes = LONG_NUMBERS * net->k->real_bytes;
    char *v = net->k->mem_alloc(net->ctx, 2 * bytes);
    optimizer_open(&o, net->model);
    for (int i = -1; i < ROUNDS; i++) { // the first one touches memory
        int at = i < 0 ? 0 : i;
        int64_t since = clock_mono_ns();
        optimizer_begin(&o);
        optimizer_apply(&o, net, 0, 1, 0, all, 0);
        update[at] = since_s(&since);
        if (v)
            net->k->add(net->ctx, LONG_NUMBERS, v, v + bytes, v + bytes);
        add[at] = since_s(&since);
    }
    optimizer_close(&o);
    p->update_s = least(update) / (double)all;
    p->moved_bytes_per_s = v ? 3 * (double)bytes / least(add) : 0;
    if (v)
        net->k->mem_free(net->ctx, v, 2 * bytes);
}

int trainer_plan_measure(struct plan *p, struct err *e) {
    struct trainer *t = p->t;
    int n = p->measured_n = images(p), layers = t->model->layers;
    struct network net;
    struct network_config config = {.model = t->model,
                                    .backend = t->chunk[0].net.k,
                                    .type = t->chunk[0].net.type,
                                    .batch = n,
                                    .states = t->states,
                                    .ctx = t->chunk[0].net.ctx,
                                    .memory_bytes_max = (size_t)t->limits.memory_bytes};
    if (network_open(&net, &config, e) < 0)
        return err_wrap(e, "measuring the layers with %d image%s", n, str_plural(n));
    network_init(&net, 1);
    fill(&net, n);
    double(*forward)[ROUNDS] = heap_alloc((size_t)layers * sizeof *forward);
    double(*backward)[ROUNDS] = heap_alloc((size_t)layers * sizeof *backward);
    pass(&net, n, forward, backward, 0); // touches memory
    for (int i = 0; i < ROUNDS; i++)
        pass(&net, n, forward, backward, i);
    for (int i = 1; i < layers; i++) {
        p->layer[i].forward_s = least(forward[i]) / n;
        p->layer[i].backward_s = least(backward[i]) / n;
    }
    measure_rest(p, &net);
    free(forward);
    free(backward);
    network_close(&net);
    return 0;
}
