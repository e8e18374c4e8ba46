// SPDX-License-Identifier: Apache-2.0
// The whole of recipe cifar10-94 at a small width, in several modes: a pipeline evaluates all views
// of each image to the same numbers as one process, and two ranks of half the batch have the losses
// of both halves in one process; a run that was stopped in mid-epoch continues with the same
// losses.
#include "tests/unit/trainer/trainer_ranks.h"

#define SETTINGS                                                                                   \
    "train.recipe=cifar10-94", "train.model=airbench(width=2)", "train.optimizer=sgd",             \
        "train.lr=0.3", "train.train_size=96", "train.test_size=30", "train.eval_batch=16",        \
        "train.epochs=3", "train.lookahead_epochs=1", "train.lookahead_every=3",                   \
        "train.first_layer_epochs=2", "train.whiten_images=20", "train.checkpoint_every_epochs=1"
enum { STEPS = 12 }; // of 24 images

static double first_losses[STEPS + 1];
static struct trainer_result first;

// The evaluation may differ by more: a checkpoint has no slow statistics.
static void same_losses(const char *name, int from, double tolerance, double eval_tolerance) {
    double worst = 0;
    for (int i = from; i <= STEPS; i++)
        worst = fmax(worst, fabs(shared->loss[0][i] / first_losses[i] - 1));
    ok(worst <= tolerance, "%s: losses differ by %.1e", name, worst);
    worst = fabs(shared->result[0].final_loss / first.final_loss - 1);
    ok(worst <= eval_tolerance, "%s: the evaluation differs by %.1e at most", name, worst);
}

static void test_modes(void) {
    struct run one = {1, 1, .name = "one",
                      .set = {SETTINGS, "train.batch=24", "train.microbatches=2"}};
    run_all(&one);
    memcpy(first_losses, shared->loss[0], sizeof first_losses);
    first = shared->result[0];
    ok(first.final_loss > 1 && first.final_loss < 4, "the evaluation is plausible: %g",
       first.final_loss);
    struct run pipe = {
        2, 1, .name = "pipe",
        .set = {SETTINGS, "train.batch=24", "train.microbatches=2", "train.pipeline=2"}};
    run_all(&pipe);
    same_losses("pipeline", 1, 1e-4, 1e-4);
    ok(fabs(shared->result[0].final_top1 - first.final_top1) < 0.01, "the accuracy is the same");
    struct run views = {
        1, 1, .name = "views",
        .set = {SETTINGS, "train.batch=24", "train.microbatches=2", "train.eval_views=one"}};
    run_all(&views);
    ok(fabs(shared->result[0].final_loss / first.final_loss - 1) > 1e-6,
       "one view gives another evaluation: %g, not %g", shared->result[0].final_loss,
       first.final_loss);
}

static void test_replicas(void) {
    struct run one = {1, 1, 2, .name = "shards", .set = {SETTINGS, "train.batch=12"}};
    run_all(&one);
    memcpy(first_losses, shared->loss[0], sizeof first_losses);
    first = shared->result[0];
    struct run two = {2, 2, .name = "replicas", .set = {SETTINGS, "train.batch=12"}};
    run_all(&two);
    same_losses("two ranks", 1, 1e-4, 1e-4);
    ok(fabs(shared->result[0].final_top1 - first.final_top1) < 0.01, "the accuracy is the same");
}

static void test_resume(void) {
    struct run whole = {1, 1, .name = "whole", .set = {SETTINGS, "train.batch=24"}};
    struct run part = {1, 1, .stop_step = 6, .name = "part", .set = {SETTINGS, "train.batch=24"}};
    run_all(&whole);
    memcpy(first_losses, shared->loss[0], sizeof first_losses);
    first = shared->result[0];
    run_all(&part);
    is_int(shared->steps[0], 7, "a run is stopped in the middle of its second epoch");
    part.stop_step = 0;
    run_all(&part);
    is_int(shared->result[0].steps, STEPS, "the rest of it runs");
    same_losses("resumed", 8, 1e-6, 1e-2);
}

static void test_refusals(void) {
    struct run zero = {2, 1, .name = "zero",
                       .set = {SETTINGS, "train.batch=12", "train.zero=true"}};
    struct run pad = {1, 1, .name = "pad",
                      .set = {SETTINGS, "train.batch=24", "train.crop_pad=32"}};
    is_int(run_ranks(&zero), 2, "lookahead with a sharded update is refused");
    has_str(shared->why[0], "train.lookahead", "the message names the key");
    is_int(run_ranks(&pad), 1, "a reflection of more than the image is refused");
    has_str(shared->why[0], "train.crop_pad", "the message names the key");
}

int main(void) {
    struct err e;
    ranks_begin();
    test_modes();
    test_replicas();
    test_resume();
    test_refusals();
    file_remove_tree(dir, &e);
    return done_testing();
}
