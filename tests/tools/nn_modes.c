// SPDX-License-Identifier: Apache-2.0
// nn_modes SECONDS SEED: trains random models in random parallel modes, each beginning in one mode
// and continuing in another, and compares the losses with those of one process.
#include "tests/unit/trainer/trainer_ranks.h"

#include "base/clock.h"

#include <stdlib.h>

enum { SAMPLES = 48, TEXTS = 16, TEXT_BYTES = 96, LAYERS_MAX = 9 };
static const double RELATIVE = 1e-5;
// A ReLU whose input is a rounding difference from 0 passes a gradient in one mode alone, and Adam
// makes a step of it: all later losses differ by about as much. It is rare.
enum { MODELS_PER_GATE_MIN = 100 };
static const double RELATIVE_GATE = 1e-4;
static int gates;

static uint64_t state;

static int draw(int below) { // 0 … below - 1
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)below);
}

static int divisor(int n) { // of n, at random
    int d = 1 + draw(n);
    while (n % d)
        d = 1 + draw(n);
    return d;
}

struct mode {
    char text[TEXTS][TEXT_BYTES];
    struct run run;
};

__attribute__((format(printf, 2, 3))) static void add(struct mode *m, const char *fmt, ...) {
    int n = 0;
    while (m->run.set[n])
        n++;
    must(n < TEXTS);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->text[n], TEXT_BYTES, fmt, ap);
    va_end(ap);
    m->run.set[n] = m->text[n];
}

// The same for all modes of one round.
static int layers;
static char common[7][TEXT_BYTES];

static void draw_model(void) {
    static const char *const rules[] = {"train.optimizer=adam", "train.optimizer=sgd",
                                        "train.optimizer=adamw"};
    size_t at = (size_t)snprintf(common[0], TEXT_BYTES, "train.hidden=");
    layers = 2 + draw(LAYERS_MAX - 1);
    for (int i = 1; i < layers; i++)
        at += (size_t)snprintf(common[0] + at, TEXT_BYTES - at, "%s%d", i > 1 ? "," : "",
                               4 + draw(20));
    snprintf(common[1], TEXT_BYTES, "%s", rules[draw(3)]);
    snprintf(common[2], TEXT_BYTES, "train.lr=%g", 0.001 * (1 + draw(3)));
    snprintf(common[3], TEXT_BYTES, "train.train_size=%d", 24 * (3 + draw(8)));
    snprintf(common[4], TEXT_BYTES, "train.clip_norm=%d", draw(2));
    snprintf(common[5], TEXT_BYTES, "train.test_size=%d", 11 + draw(60));
    // Adam divides a gradient by its size. Where samples cancel out, that is the size of a rounding
    // difference between two modes, which only a larger eps keeps small.
    snprintf(common[6], TEXT_BYTES, "train.eps=1e-5");
}

static struct mode *make(const char *name, int world, int pipe, int chunks, int accumulate,
                         int micros) {
    static struct mode modes[2];
    static int turn;
    struct mode *m = &modes[turn = !turn];
    int nodes = world > 1 ? divisor(world) : 1;
    *m = (struct mode){.run = {.world = world, .nodes = nodes, .name = name}};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        add(m, "%s", common[i]);
    add(m, "train.batch=%d", SAMPLES / (world / pipe) / accumulate);
    add(m, "train.accumulate=%d", accumulate);
    add(m, "train.pipeline=%d", pipe);
    add(m, "train.microbatches=%d", micros);
    if (chunks > 1)
        add(m, "train.pipeline_schedule=interleaved:%d", chunks);
    else
        add(m, "train.pipeline_schedule=%s", draw(2) ? "gpipe" : "1f1b");
    add(m, "train.placement=%s", draw(2) ? "packed" : "spread");
    add(m, "train.zero=%s", draw(2) ? "true" : "false");
    add(m, "train.bucket_bytes=%d", 4096 << draw(5));
    return m;
}

static struct mode *draw_mode(const char *name) {
    static const int worlds[] = {1, 2, 3, 4, 6, 8};
    for (;;) {
        int world = worlds[draw(6)], pipe = divisor(world), accumulate = 1 + draw(2);
        int batch = SAMPLES / (world / pipe) / accumulate, micros = divisor(batch);
        int chunks = pipe > 1 ? 1 + draw(3) : 1;
        if (pipe * chunks <= layers && (chunks == 1 || micros * accumulate % pipe == 0))
            return make(name, world, pipe, chunks, accumulate, micros);
    }
}

static void describe(const struct run *r) {
    for (int i = 0; r->set[i]; i++)
        diag("--set %s", r->set[i]);
}

static bool is_near(double worst) {
    gates += worst >= RELATIVE && worst < RELATIVE_GATE;
    return worst < RELATIVE_GATE;
}

// A round: one process, and two modes that share out its steps.
static void go(int round) {
    double losses[STEPS_MAX + 1];
    char name[32];
    draw_model();
    snprintf(name, sizeof name, "one-%d", round);
    struct mode *one = make(name, 1, 1, 1, 1, 1);
    if (!ok(run_ranks(&one->run) == 0, "round %d: one process trains", round))
        describe(&one->run);
    int64_t steps = shared->steps[0], at = 0;
    memcpy(losses, shared->loss[0], sizeof losses);
    snprintf(name, sizeof name, "parts-%d", round);
    for (int part = 0; part < 2; part++) {
        struct run *r = &draw_mode(name)->run;
        r->stop_step = part ? 0 : 1 + draw((int)steps - 1);
        r->stop_rank = draw(r->world);
        double worst = 0;
        int failed = run_ranks(r);
        int64_t end = shared->steps[0];
        for (int64_t s = at + 1; s <= end; s++)
            worst = fmax(worst, fabs(shared->loss[0][s] / losses[s] - 1));
        if (!ok(!failed && end > at && is_near(worst) && (!part || end == steps),
                "round %d: %d ranks, steps %d to %d of %d (%.1e)", round, r->world, (int)at + 1,
                (int)end, (int)steps, worst) ||
            worst >= RELATIVE)
            describe(r);
        at = end;
        if (at == steps)
            break;
    }
}

int main(int argc, char **argv) {
    struct err e;
    if (argc != 3)
        bail_out("usage: nn_modes SECONDS SEED");
    int64_t end = clock_mono_ms() + 1000 * strtoll(argv[1], NULL, 10);
    state = strtoull(argv[2], NULL, 10);
    int rounds = 0;
    ranks_begin();
    while (clock_mono_ms() < end || rounds == 0) {
        go(rounds++);
        file_remove_tree(dir, &e);
    }
    // A model has two modes, which share the gate.
    ok(gates <= 2 + 2 * rounds / MODELS_PER_GATE_MIN,
       "%d of %d modes differ by more than rounding, and a gate explains few", gates, 2 * rounds);
    diag("nn_modes: seed=%s, %d models in %d modes", argv[2], rounds, 2 * rounds);
    return done_testing();
}
