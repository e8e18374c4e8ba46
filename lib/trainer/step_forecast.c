// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a step: runs the programs of the ranks against each other on paper.
#include "trainer/step_forecast.h"

#include "base/arena.h"

#include <stdlib.h>

// NVIDIA's data sheets, without sparsity; A10G as Amazon lists it, H100 and H200 as SXM.
#define FLOPS(f32, tf32, bf16, f16)                                                                \
    { [TRAIN_F32] = (f32), [TRAIN_TF32] = (tf32), [TRAIN_BF16] = (bf16), [TRAIN_F16] = (f16) }
const struct step_forecast_gpu step_forecast_gpus[] = {
    {"T4", FLOPS(8.1e12, 0, 0, 65e12), 320e9, 16},
    {"L4", FLOPS(30.3e12, 60e12, 121e12, 121e12), 300e9, 24},
    {"A10G", FLOPS(31.2e12, 35e12, 70e12, 70e12), 600e9, 24},
    {"L40S", FLOPS(91.6e12, 183e12, 362e12, 362e12), 864e9, 48},
    {"A100", FLOPS(19.5e12, 156e12, 312e12, 312e12), 1555e9, 40},
    {"H100", FLOPS(66.9e12, 495e12, 989e12, 989e12), 3350e9, 80},
    {"H200", FLOPS(66.9e12, 495e12, 989e12, 989e12), 4800e9, 141},
    {.name = NULL}};

enum train_dtype step_forecast_dtype(const struct step_forecast_gpu *gpu, enum train_dtype dtype) {
    return gpu->flops[dtype] > 0 ? dtype : TRAIN_F32;
}

enum { FORWARD, BACK, WAYS };

struct clock { // of one rank
    int next;  // item of its program
    double now, network_free, link_free[WAYS];
    double *reduced; // of each bucket: when it is averaged, later when it is collected
    struct step_forecast_time *out;
};

struct step_forecast_run {
    const struct step_program *programs;
    const struct step_forecast_stage *stage;
    struct clock *rank;
    double *arrival[WAYS]; // at a stage, of stage x micro-batch; below 0: not yet sent
    int pipe, micros;
};

static double later(double a, double b) {
    return a > b ? a : b;
}

static void work(struct clock *c, double seconds) {
    c->now += seconds;
    c->out->compute += seconds;
}

static void wait_until(struct clock *c, double when, double *sum) {
    if (when > c->now) {
        *sum += when - c->now;
        c->now = when;
    }
}

static const struct step_forecast_bucket *bucket_of(const struct step_forecast_run *r, int rank,
                                                    int number) {
    const struct step_forecast_stage *s = &r->stage[rank];
    for (; number >= s->buckets; s += r->pipe)
        number -= s->buckets;
    return &s->bucket[number];
}

// A message leaves when its direction is free; the sender does not wait for it.
static void send(struct step_forecast_run *r, struct clock *c, const struct step_item *it,
                 int stage) {
    int way = it->op == STEP_SEND_Y ? FORWARD : BACK, to = way == FORWARD ? stage + 1 : stage - 1;
    double begin = later(c->now, c->link_free[way]);
    c->link_free[way] = begin + r->stage[way == FORWARD ? stage : to].send;
    r->arrival[way][to * r->micros + it->micro] = c->link_free[way];
}

static void collect(struct clock *c, int bucket, double seconds) {
    c->network_free = later(c->now, c->network_free) + seconds;
    c->reduced[bucket] = c->network_free;
}

// Runs one item; false: it waits for another rank.
static bool run_item(struct step_forecast_run *r, int rank, const struct step_item *it) {
    struct clock *c = &r->rank[rank];
    int stage = it->chunk * r->pipe + rank;
    const struct step_forecast_bucket *b = bucket_of(r, rank, it->bucket);
    switch ((enum step_op)it->op) {
    case STEP_RECV_X:
    case STEP_RECV_DY: {
        double when =
            r->arrival[it->op == STEP_RECV_X ? FORWARD : BACK][stage * r->micros + it->micro];
        if (when < 0)
            return false;
        wait_until(c, when, &c->out->stages);
        break;
    }
    case STEP_FORWARD: work(c, r->stage[stage].forward); break;
    case STEP_BACKWARD: work(c, b->backward); break;
    case STEP_UPDATE: work(c, b->update); break;
    case STEP_SEND_Y:
    case STEP_SEND_DX: send(r, c, it, stage); break;
    case STEP_REDUCE:
    case STEP_CHANGE: collect(c, it->bucket, b->reduce); break;
    case STEP_GATHER: collect(c, it->bucket, b->gather); break;
    case STEP_NORM:
    case STEP_AWAIT: wait_until(c, c->reduced[it->bucket], &c->out->network); break;
    case STEP_OUTER:
        wait_until(c, c->reduced[it->bucket], &c->out->network);
        work(c, b->outer);
        break;
    case STEP_LOAD:
    case STEP_JUDGE:
    case STEP_OPS: break;
    }
    return true;
}

static int most_of(const struct step_program *programs, int pipe, bool micros) {
    int most = 0;
    for (int p = 0; p < pipe; p++)
        for (int i = 0; i < programs[p].items; i++) {
            const struct step_item *it = &programs[p].item[i];
            int n = micros ? it->micro : it->bucket;
            most = n > most ? n : most;
        }
    return most + 1;
}

// Every rank as far as it comes, until all are done or none can move.
static int run_all(struct step_forecast_run *r, struct err *e) {
    for (bool moved = true, left = true; left;) {
        if (!moved)
            return err_set(e, ERR_FAILED, "the ranks of the pipeline wait for each other");
        moved = left = false;
        for (int p = 0; p < r->pipe; p++) {
            const struct step_program *program = &r->programs[p];
            struct clock *c = &r->rank[p];
            for (; c->next < program->items && run_item(r, p, &program->item[c->next]); c->next++)
                moved = true;
            left = left || c->next < program->items;
        }
    }
    return 0;
}

int step_forecast_run(const struct step_program *programs, int pipe,
                      const struct step_forecast_stage *stage, int chunks,
                      struct step_forecast_time *out, struct err *e) {
    struct arena a = {0};
    struct step_forecast_run r = {.programs = programs,
                                  .stage = stage,
                                  .rank = arena_new(&a, struct clock, (size_t)pipe),
                                  .pipe = pipe,
                                  .micros = most_of(programs, pipe, true)};
    int buckets = most_of(programs, pipe, false);
    size_t places = (size_t)(pipe * chunks) * (size_t)r.micros;
    for (int w = 0; w < WAYS; w++) {
        r.arrival[w] = arena_new(&a, double, places);
        for (size_t i = 0; i < places; i++)
            r.arrival[w][i] = -1;
    }
    for (int p = 0; p < pipe; p++) {
        out[p] = (struct step_forecast_time){0};
        r.rank[p].out = &out[p];
        r.rank[p].reduced = arena_new(&a, double, (size_t)buckets);
    }
    int result = run_all(&r, e);
    double end = 0;
    for (int p = 0; p < pipe; p++)
        end = later(end, r.rank[p].now);
    for (int p = 0; p < pipe; p++) {
        out[p].step = end;
        out[p].stages += end - r.rank[p].now;
    }
    arena_fini(&a);
    return result;
}
