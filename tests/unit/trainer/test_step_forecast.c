// SPDX-License-Identifier: Apache-2.0
// Forecasts: the time of a step against the formulas of the schedules' authors, and the work of
// models against what is published of them.
#include "base/arena.h"
#include "nn/layer_cost.h"
#include "tests/tap.h"
#include "trainer/step_forecast.h"

#include <math.h>

enum { PIPE_MAX = 8, CHUNKS_MAX = 4 };

static struct step_forecast_bucket bucket[PIPE_MAX * CHUNKS_MAX][2];
static struct step_forecast_stage stage[PIPE_MAX * CHUNKS_MAX];
static struct step_forecast_time out[PIPE_MAX];

// Each rank has 1 s of forward and 2 s of backward for a micro-batch, shared out among its stages.
static double run(int pipe, int micros, enum pipe_order order, int chunks, bool parted) {
    struct step_program program[PIPE_MAX] = {0};
    const struct mesh mesh = {.world = pipe, .data = 1, .pipe = pipe};
    struct err e;
    for (int i = 0; i < pipe * chunks; i++) {
        stage[i].forward = 1.0 / chunks;
        stage[i].buckets = 2;
        stage[i].bucket = bucket[i];
        for (int b = 0; b < 2; b++)
            bucket[i][b].backward = 1.0 / chunks;
    }
    int r = 0;
    for (int p = 0; p < pipe && r == 0; p++) {
        struct step_spec spec = {
            .micros = micros, .order = order, .chunks = chunks, .parted = parted};
        for (int c = 0; c < chunks; c++)
            spec.buckets[c] = 2;
        r = program_make(&program[p], &mesh, p, &spec, &e);
    }
    if (r == 0)
        r = step_forecast_run(program, pipe, stage, chunks, out, &e);
    for (int p = 0; p < pipe; p++)
        program_free(&program[p]);
    return r < 0 ? -1 : out[0].step;
}

static void test_pipelines(void) {
    static const int shapes[][2] = {{1, 1}, {2, 4}, {4, 4}, {4, 8}, {8, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int p = shapes[i][0], m = shapes[i][1];
        near(run(p, m, PIPE_GPIPE, 1, false), 3.0 * (m + p - 1), 1e-9,
             "gpipe, %d stages: %d micro-batches take the time of %d", p, m, m + p - 1);
        near(run(p, m, PIPE_1F1B, 1, false), 3.0 * (m + p - 1), 1e-9, "1f1b takes as long");
        if (p > 1)
            near(run(p, m, PIPE_INTERLEAVED, 2, false), 3.0 * m + 3.0 * (p - 1) / 2, 1e-9,
                 "two stages on each rank halve the bubble");
    }
    run(4, 8, PIPE_1F1B, 1, false);
    for (int p = 0; p < 4; p++)
        near(out[p].compute + out[p].stages + out[p].network, out[p].step, 1e-9,
             "the times of rank %d add up to the step", p);
    near(out[0].compute, 24, 1e-9, "a rank computes 8 times 3 s");
}

static void test_links(void) {
    for (int i = 0; i < 4; i++)
        stage[i].send = 0.5;
    near(run(2, 1, PIPE_GPIPE, 1, false), 2 * 3 + 2 * 0.5, 1e-9,
         "one micro-batch pays for the way there and back");
    ok(run(2, 8, PIPE_1F1B, 1, false) < 3.0 * 9 + 8 * 2 * 0.5,
       "several travel while others compute");
    for (int i = 0; i < 4; i++)
        stage[i].send = 0;
}

static void test_reductions(void) {
    bucket[0][0].reduce = 0.75;
    bucket[0][1].reduce = 0.5;
    near(run(1, 1, PIPE_1F1B, 1, false), 3.5, 1e-9,
         "the first bucket travels during backward, the second is waited for");
    near(out[0].network, 0.5, 1e-9, "the wait is the network's");
    bucket[0][0].reduce = 2;
    near(run(1, 1, PIPE_1F1B, 1, false), 4.5, 1e-9, "the second waits for the first");
    bucket[0][0].update = bucket[0][1].update = 0.25;
    bucket[0][0].gather = bucket[0][1].gather = 1;
    near(run(1, 1, PIPE_1F1B, 1, true), 6.75, 1e-9,
         "parameters of the first bucket travel while the second is updated");
    memset(bucket, 0, sizeof bucket);
}

// The end of a round: changes travel one after the other, and are applied as they come.
static void test_round(void) {
    const struct mesh mesh = {.world = 2, .data = 2, .pipe = 1};
    const struct step_spec spec = {.micros = 1, .chunks = 1, .buckets = {2}, .join = true};
    struct step_program program = {0};
    struct err e;
    stage[0].buckets = 2;
    bucket[0][0].reduce = 2;
    bucket[0][1].reduce = 3;
    bucket[0][0].outer = bucket[0][1].outer = 0.5;
    is_int(program_make(&program, &mesh, 0, &spec, &e), 0, "the end of a round is made");
    is_int(step_forecast_run(&program, 1, stage, 1, out, &e), 0, "the end of a round is forecast");
    near(out[0].step, 5.5, 1e-9, "both changes travel, and the last one is applied");
    near(out[0].compute, 1, 1e-9, "both changes are applied by the rank");
    near(out[0].network, 4.5, 1e-9, "the rest is a wait for the network");
    program_free(&program);
    memset(bucket, 0, sizeof bucket);
}

// Multiplications of one image on the way forward, in millions, and parameters.
static void test_model(const char *name, int side, int classes, double millions, size_t params) {
    struct nn_model m = {0};
    struct err e;
    const struct nn_model_spec spec = {
        .name = name, .h = side, .w = side, .c = 3, .classes = classes};
    if (!ok(model_build(&m, &spec, &e) == 0, "%s is built", name))
        return;
    int64_t products = 0, weights = 0, flop = 0;
    for (int i = 0; i < m.layers; i++) {
        struct layer_cost c;
        layer_cost_of(&m, i, &c);
        products += layer_cost_products(&m, i);
        weights += c.weights;
        flop += c.flop;
    }
    near((double)products / 1e6 / millions, 1, 0.01, "%s makes %.0f million products", name,
         millions);
    is_int((int64_t)(weights == (int64_t)params), 1, "%s has %zu parameters", name, params);
    ok((double)flop > 5.5 * (double)products && flop <= 6 * products,
       "backward is twice forward, but for the images' gradient");
    model_free(&m);
}

int main(void) {
    test_pipelines();
    test_links();
    test_reductions();
    test_round();
    test_model("resnet18", 224, 1000, 1814, 11689512);  // torchvision: 1.81 GFLOPS
    test_model("resnet50", 224, 1000, 4089, 25557032);  // torchvision: 4.09
    test_model("vit_base", 224, 1000, 17564, 86567656); // torchvision: 17.56
    return done_testing();
}
