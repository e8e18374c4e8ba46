// SPDX-License-Identifier: Apache-2.0
// Computes the time of each rank from the times of layers, memory and the network.
#include "base/arena.h"
#include "trainer/trainer_plan_impl.h"

#include <math.h>

// Bytes that a collective of ranks on one machine moves for each of its own and each rank: into
// shared memory, read by the one that sums, written, and out again. A send needs as many.
#define SHARED_COPIES     4.0
#define NETWORK_LATENCY_S 50e-6 // of one message
#define OUTER_TOUCHES     16.0  // numbers that the end of a round reads or writes of a parameter

bool trainer_plan_keeps(const struct plan *p, const struct step_forecast_gpu *gpu) {
    enum train_dtype dtype = (enum train_dtype)p->t->options->dtype;
    return dtype == TRAIN_BF16 && step_forecast_dtype(gpu, dtype) == dtype && !p->t->model->reals;
}

// Seconds of a layer for so many images.
static void layer_time(const struct plan *p, int layer, int n, const struct step_forecast_gpu *gpu,
                       double *forward, double *backward) {
    const struct plan_layer *l = &p->layer[layer];
    const struct layer_cost *c = &l->cost;
    *forward = l->forward_s * n * p->cpu_load;
    *backward = l->backward_s * n * p->cpu_load;
    if (!gpu)
        return;
    double real = sizeof(float), kept = trainer_plan_keeps(p, gpu) ? real / 2 : real;
    enum train_dtype dtype = step_forecast_dtype(gpu, (enum train_dtype)p->t->options->dtype);
    double work = (double)c->flop * n / gpu->flops[dtype];
    double moved = (double)c->moved * n * kept + 3 * (double)c->weights * real;
    double all = fmax(work, moved / gpu->memory_bytes_per_s);
    *forward = all / 3;
    *backward = all - *forward;
}

// Of the layers that run again before backward of this one.
static double again_time(const struct plan *p, int layer, const struct step_forecast_gpu *gpu) {
    double sum = 0, forward, backward;
    for (int i = p->layer[layer].again_from; i && i < layer; i++) {
        layer_time(p, i, p->t->micro_batch, gpu, &forward, &backward);
        sum += p->layer[i].again ? forward : 0;
    }
    return sum;
}

// Half of an all-reduce: a reduce-scatter, or an all-gather, of so many bytes.
static double half_s(const struct plan *p, const struct plan_traffic *x, double bytes,
                     const struct step_forecast_gpu *gpu) {
    double local = 0, network = 0, bits = p->request->network_bits_per_s;
    if (x->local > 1 && !gpu && p->moved_bytes_per_s > 0)
        local = SHARED_COPIES / 2 * bytes * x->local / p->moved_bytes_per_s;
    if (x->nodes > 1 && bits > 0)
        network = (x->nodes - 1) * (bytes / x->nodes * 8 / bits + NETWORK_LATENCY_S);
    return local + network;
}

static double send_s(const struct plan *p, const struct plan_traffic *x,
                     const struct step_forecast_gpu *gpu) {
    double bits = p->request->network_bits_per_s, bytes = (double)x->output;
    if (x->crosses)
        return bits > 0 ? bytes * 8 / bits + NETWORK_LATENCY_S : 0;
    return !gpu && p->moved_bytes_per_s > 0 ? SHARED_COPIES * bytes / p->moved_bytes_per_s : 0;
}

static void bucket_time(const struct plan *p, int part, const struct bucket *b,
                        const struct step_forecast_gpu *gpu, struct step_forecast_bucket *out) {
    const struct trainer *t = p->t;
    const struct nn_model *m = &t->part[part].model;
    const struct plan_traffic *x = &p->traffic[part];
    double count = (double)(b->params_end - b->begin), real = sizeof(float);
    double wire = t->options->wire == TRAIN_WIRE_BF16 ? real / 2 : real, forward, backward;
    int shift = m->first_layer ? m->first_layer - 1 : 0;
    for (int i = b->first; i < b->last; i++) {
        layer_time(p, i + shift, t->micro_batch, gpu, &forward, &backward);
        out->backward += backward + again_time(p, i + shift, gpu);
    }
    double own = t->zero ? count / t->mesh.data : count;
    // Read p, g and states, write all but g.
    double touches = 3 + 2 * optimizer_inner(&t->chunk[0].optimizer);
    double touch_s = gpu ? real / gpu->memory_bytes_per_s : p->update_s * p->cpu_load / touches;
    out->update = own * touches * touch_s;
    out->outer = count * OUTER_TOUCHES * touch_s;
    out->reduce = half_s(p, x, count * wire, gpu);
    out->gather = half_s(p, x, count * real, gpu);
    if (!t->zero)
        out->reduce *= 2; // a change travels as gradients do
}

static void stage_time(const struct plan *p, int part, const struct step_forecast_gpu *gpu,
                       struct arena *a, struct step_forecast_stage *out) {
    const struct trainer *t = p->t;
    const struct bucket_list *list = &t->part[part].buckets;
    const struct nn_model *m = &t->part[part].model;
    int shift = m->first_layer ? m->first_layer - 1 : 0;
    double forward, backward;
    out->buckets = list->count;
    out->bucket = arena_new(a, struct step_forecast_bucket, (size_t)list->count);
    out->send = send_s(p, &p->traffic[part], gpu);
    for (int i = 1; i < m->layers; i++) {
        layer_time(p, i + shift, t->micro_batch, gpu, &forward, &backward);
        out->forward += forward;
    }
    for (int b = 0; b < list->count; b++)
        bucket_time(p, part, &list->bucket[b], gpu, &out->bucket[b]);
}

// A step has its share of the end of its round.
static int add_round(const struct plan *p, const struct step_forecast_stage *stage,
                     struct step_forecast_time *out, struct err *e) {
    const struct round *round = &p->t->round;
    struct step_forecast_time end;
    if (!round->steps)
        return 0;
    if (step_forecast_run(&round->program, 1, stage, 1, &end, e) < 0)
        return -1;
    double share = 1 / (double)round->steps;
    out->step += end.step * share;
    out->compute += end.compute * share;
    out->network += end.network * share;
    return 0;
}

int trainer_plan_time(struct plan *p, const struct step_forecast_gpu *gpu,
                      struct step_forecast_time *out, struct err *e) {
    const struct trainer *t = p->t;
    struct arena a = {0};
    struct step_forecast_stage *stage = arena_new(&a, struct step_forecast_stage, (size_t)t->parts);
    struct step_program *program = arena_new(&a, struct step_program, (size_t)t->mesh.pipe);
    for (int i = 0; i < t->parts; i++)
        stage_time(p, i, gpu, &a, &stage[i]);
    for (int i = 0; i < t->mesh.pipe; i++)
        program[i] = p->rank[i].program;
    int r = step_forecast_run(program, t->mesh.pipe, stage, t->chunks, out, e);
    if (r == 0)
        r = add_round(p, stage, out, e);
    arena_fini(&a);
    return r;
}
