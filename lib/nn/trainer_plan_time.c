// SPDX-License-Identifier: Apache-2.0
// From the time of layers, of memory and of a network to that of each rank.
#include "base/arena.h"
#include "nn/trainer_plan_state.h"

#include <math.h>

// Bytes that a collective of ranks on one machine moves for each of its own and each rank: into
// shared memory, read by the one that sums, written, and out again. A send needs as many.
#define SHARED_COPIES     4.0
#define NETWORK_LATENCY_S 50e-6 // of one message

// Seconds of a layer for so many images.
static void layer_time(const struct plan *p, int layer, int n, const struct forecast_gpu *gpu,
                       double *forward, double *backward) {
    const struct plan_layer *l = &p->layer[layer];
    const struct cost *c = &l->cost;
    *forward = l->forward_s * n;
    *backward = l->backward_s * n;
    if (!gpu)
        return;
    bool bf16 = p->t->options->dtype == TRAIN_BF16 && gpu->bf16_flops > 0;
    double flops = bf16 ? gpu->bf16_flops : gpu->float_flops, real = sizeof(float);
    double work = (double)c->flop * n / flops;
    double moved = ((double)c->moved * n + 3 * (double)c->weights) * real / gpu->memory_bytes_per_s;
    double all = fmax(work, moved);
    *forward = all / 3;
    *backward = all - *forward;
}

// Half of an all-reduce: a reduce-scatter, or an all-gather, of so many bytes.
static double half_s(const struct plan *p, const struct plan_traffic *x, double bytes,
                     const struct forecast_gpu *gpu) {
    double local = 0, network = 0, bits = p->request->network_bits_per_s;
    if (x->local > 1 && !gpu && p->moved_bytes_per_s > 0)
        local = SHARED_COPIES / 2 * bytes * x->local / p->moved_bytes_per_s;
    if (x->nodes > 1 && bits > 0)
        network = (x->nodes - 1) * (bytes / x->nodes * 8 / bits + NETWORK_LATENCY_S);
    return local + network;
}

static double send_s(const struct plan *p, const struct plan_traffic *x) {
    double bits = p->request->network_bits_per_s, bytes = (double)x->output;
    if (x->crosses)
        return bits > 0 ? bytes * 8 / bits + NETWORK_LATENCY_S : 0;
    return p->moved_bytes_per_s > 0 ? SHARED_COPIES * bytes / p->moved_bytes_per_s : 0;
}

static void bucket_time(const struct plan *p, int part, const struct bucket *b,
                        const struct forecast_gpu *gpu, struct forecast_bucket *out) {
    const struct trainer *t = p->t;
    const struct nn_model *m = &t->part[part].model;
    const struct plan_traffic *x = &p->traffic[part];
    double count = (double)(b->params_end - b->begin), real = sizeof(float);
    double wire = t->options->wire == TRAIN_WIRE_BF16 ? real / 2 : real, forward, backward;
    int shift = m->first_layer ? m->first_layer - 1 : 0;
    for (int i = b->first; i < b->last; i++) {
        layer_time(p, i + shift, t->micro_batch, gpu, &forward, &backward);
        out->backward += backward;
    }
    double own = t->options->zero ? count / t->mesh.data : count;
    double touched = (3 + 2 * t->states) * real; // read p, g and states, write all but g
    out->update = own * (gpu ? touched / gpu->memory_bytes_per_s : p->update_s);
    out->reduce = half_s(p, x, count * wire, gpu);
    out->gather = half_s(p, x, count * real, gpu);
    if (!t->options->zero)
        out->reduce *= 2;
}

static void stage_time(const struct plan *p, int part, const struct forecast_gpu *gpu,
                       struct arena *a, struct forecast_stage *out) {
    const struct trainer *t = p->t;
    const struct bucket_list *list = &t->part[part].buckets;
    const struct nn_model *m = &t->part[part].model;
    int shift = m->first_layer ? m->first_layer - 1 : 0;
    double forward, backward;
    out->buckets = list->count;
    out->bucket = arena_new(a, struct forecast_bucket, (size_t)list->count);
    out->send = send_s(p, &p->traffic[part]);
    for (int i = 1; i < m->layers; i++) {
        layer_time(p, i + shift, t->micro_batch, gpu, &forward, &backward);
        out->forward += forward;
    }
    for (int b = 0; b < list->count; b++)
        bucket_time(p, part, &list->bucket[b], gpu, &out->bucket[b]);
}

int plan_time(struct plan *p, const struct forecast_gpu *gpu, struct forecast_time *out,
              struct err *e) {
    const struct trainer *t = p->t;
    struct arena a = {0};
    struct forecast_stage *stage = arena_new(&a, struct forecast_stage, (size_t)t->parts);
    struct step_program *program = arena_new(&a, struct step_program, (size_t)t->mesh.pipe);
    for (int i = 0; i < t->parts; i++)
        stage_time(p, i, gpu, &a, &stage[i]);
    for (int i = 0; i < t->mesh.pipe; i++)
        program[i] = p->rank[i].program;
    int r = forecast_run(program, t->mesh.pipe, stage, t->chunks, out, e);
    arena_fini(&a);
    return r;
}
