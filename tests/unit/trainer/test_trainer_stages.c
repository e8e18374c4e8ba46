// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run share out the model: when each updates a part of the parameters.
#include "tests/tap.h"
#include "trainer/trainer_impl.h"

static struct train_config plain(void) {
    return (struct train_config){.pipeline = 1, .batch = 24, .pipeline_schedule = "1f1b"};
}

static bool is_sharded(const struct train_config *options, int world, int nodes,
                       const struct trainer_device *device) {
    struct trainer_config config = {.options = options, .device = device, .comm.nodes = nodes};
    struct trainer t = {.config = &config, .options = options, .world = world};
    struct err e;
    if (trainer_stages_choose(&t, &e) < 0)
        bail_out("%s", e.text);
    is_int(t.apart, t.zero || options->pipeline > 1 || options->local_steps > 1,
           "the totals travel apart from gradients that no rank has whole");
    return t.zero;
}

static void test_auto(void) {
    static const struct {
        int world, nodes;
        int64_t pipeline, local_steps;
        double ema, lookahead;
        bool device, sharded;
        const char *what;
    } rows[] = {
        {1, 1, 1, 0, 0, 0, false, false, "one rank"},
        {2, 1, 1, 0, 0, 0, false, true, "two ranks of a node"},
        {2, 2, 1, 0, 0, 0, false, false, "two nodes"},
        {4, 1, 2, 0, 0, 0, false, true, "two pipelines of a node"},
        {2, 1, 2, 0, 0, 0, false, false, "one pipeline"},
        {2, 1, 1, 4, 0, 0, false, false, "local steps"},
        {2, 1, 1, 0, 0.9, 0, false, false, "an average of the weights"},
        {2, 1, 1, 0, 0, 0.9, false, false, "slow weights"},
        {2, 1, 1, 0, 0, 0, true, false, "two GPUs of a node"},
    };
    static const struct trainer_device device;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_config o = plain();
        o.pipeline = rows[i].pipeline, o.local_steps = rows[i].local_steps;
        o.ema = rows[i].ema, o.lookahead = rows[i].lookahead;
        is_int(is_sharded(&o, rows[i].world, rows[i].nodes, rows[i].device ? &device : NULL),
               rows[i].sharded, "auto decides about %s", rows[i].what);
    }
}

static void test_given(void) {
    struct train_config o = plain();
    o.zero = TRAIN_ZERO_OFF;
    is_int(is_sharded(&o, 2, 1, NULL), false, "false keeps the update whole on one node");
    o.zero = TRAIN_ZERO_ON;
    is_int(is_sharded(&o, 2, 2, NULL), true, "true parts the update over two nodes");
}

int main(void) {
    test_auto();
    test_given();
    return done_testing();
}
