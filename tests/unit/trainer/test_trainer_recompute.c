// SPDX-License-Identifier: Apache-2.0
// Activations that are computed again: the bits of a run that keeps them, in every mode; plans in
// which each reader finds its tensors; and a plan with a mistake is found out.
#include "nn/layer.h"
#include "nn/memory_plan.h"
#include "nn/recompute.h"
#include "nn/stage.h"
#include "tests/unit/trainer/trainer_ranks.h"

static struct nn_model model;

static void build(const char *name, int size) {
    struct nn_model_spec spec = {
        .name = name, .stem = "imagenet", .h = size, .w = size, .c = 3, .classes = 10};
    struct err e;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
}

// ---- plans ----

// With activations that products make, too, and without.
static int check(const struct nn_model *m, int slots, bool recompute, size_t *bytes) {
    int bad = 0;
    for (int acts = 1; acts >= 0; acts--) {
        const struct memory_plan_spec spec = {4, 4, true, slots, recompute, 0, acts, acts};
        struct memory_plan p;
        struct err e;
        memory_plan_make(&p, m, &spec);
        int r = memory_plan_verify(&p, m, &spec, &e);
        if (r < 0)
            diag("%s, %d slots, acts %d: %s", model.text, slots, acts, e.text);
        bad += r < 0;
        *bytes = p.bytes + (size_t)slots * p.kept_bytes;
        memory_plan_free(&p);
    }
    return bad;
}

// Activations that products make: the layers are `forward` and `backward`. A plan in which the
// output of one of them may lie over what the product still reads is found out.
static void test_acts(const char *name, int forward, int backward) {
    struct memory_plan_spec spec = {4, 4, true, 1, false, 0, true, true};
    struct memory_plan p;
    struct err e;
    int found[2] = {0}, late = 0;
    build(name, 32);
    memory_plan_make(&p, &model, &spec);
    for (int i = 0; i < model.layers; i++)
        found[0] += p.layer[i].acts_forward, found[1] += p.layer[i].acts_backward;
    is_int(found[0], forward, "%s: products that make GELU", name);
    is_int(found[1], backward, "%s: products that make a gradient in front of them", name);
    memory_plan_free(&p);
    spec.training = spec.acts = false;
    memory_plan_make(&p, &model, &spec);
    for (int i = 2; i < model.layers; i++) {
        if (model.layer[i].op != &nn_op_gelu || model.layer[i - 1].op != &nn_op_linear)
            continue;
        p.layer[i].acts_forward = true;
        late += memory_plan_verify(&p, &model, &spec, &e) < 0;
        p.layer[i].acts_forward = false;
    }
    is_int(late, forward, "%s: GELU over the operand of its product is found", name);
    memory_plan_free(&p);
}

// Batch norms right behind a convolution, which leaves sums for them: in training alone, and where
// convolutions do so. With `again` all of those that run again keep their statistics.
static void test_sums(const char *name, int want) {
    build(name, 32);
    for (int mode = 0; mode < 4; mode++) {
        bool again = mode == 1, training = mode != 2, does = mode != 3;
        const struct memory_plan_spec spec = {4, 4, training, 1, again, 0, true, does};
        struct memory_plan p;
        int sums = 0, bad = 0;
        memory_plan_make(&p, &model, &spec);
        for (int i = 0; i < model.layers; i++) {
            const struct nn_place *at = &p.layer[i];
            bool norm = model.layer[i].op == &nn_op_batchnorm, kept = norm && at->again && does;
            sums += at->sums;
            bad += at->stats_kept != kept || (kept && at->saved_back != at->saved);
        }
        is_int(sums, training && does ? want : 0, "%s, mode %d: sums for batch norms", name, mode);
        is_int(bad, 0, "%s, mode %d: statistics of the first time are kept", name, mode);
        memory_plan_free(&p);
    }
}

// A whole model, and its stages.
static void test_plans(const char *name, int size, int blocks, double most) {
    struct err e;
    build(name, size);
    struct recompute_layer *layer = malloc((size_t)model.layers * sizeof *layer);
    is_int(recompute_blocks(&model, layer), blocks, "%s has %d blocks", name, blocks);
    free(layer);
    size_t kept, again;
    int bad = check(&model, 1, false, &kept) + check(&model, 1, true, &again);
    ok((double)again <= most * (double)kept, "%s: the plan needs %zu bytes instead of %zu", name,
       again, kept);
    if (blocks == 0)
        is_uint(again, kept, "%s: a model without blocks keeps all", name);
    for (int stages = 2; stages <= 3; stages++) {
        int first[4];
        struct nn_model part = {0};
        stage_cut(&model, stages, first, &e);
        for (int i = 0; i < stages; i++) {
            stage_model(&part, &model, first[i], first[i + 1]);
            for (int slots = 1; slots <= 3; slots++)
                bad += check(&part, slots, false, &kept) + check(&part, slots, true, &again);
        }
        model_free(&part);
    }
    is_int(bad, 0, "%s: every reader finds its tensors, in stages and slots, too", name);
}

// Each layer in turn: not computed again, or looked for at its first place.
static void test_mistakes(const char *name, int size) {
    const struct memory_plan_spec spec = {4, 4, true, 1, true, 0, false, false};
    struct memory_plan p;
    struct err e;
    int again = 0, found = 0, moved = 0;
    build(name, size);
    memory_plan_make(&p, &model, &spec);
    for (int i = 0; i < model.layers; i++) {
        struct nn_place good = p.layer[i];
        if (!good.again || good.output_back == good.output) // then it may still be there
            continue;
        again++;
        p.layer[i].again = false;
        found += memory_plan_verify(&p, &model, &spec, &e) < 0;
        p.layer[i] = good;
        p.layer[i].output_back = p.bytes;
        moved += memory_plan_verify(&p, &model, &spec, &e) < 0;
        p.layer[i] = good;
    }
    is_int(found, again, "%s: each of %d layers is missed", name, again);
    is_int(moved, again, "%s: an output outside of the arena is found", name);
    is_int(memory_plan_verify(&p, &model, &spec, &e), 0, "%s: all is well otherwise", name);
    memory_plan_free(&p);
}

// ---- runs ----

static double losses[RANKS_MAX][STEPS_MAX + 1];

static char *model_file(const char *name, size_t *len) {
    static struct arena a;
    struct err e;
    char *bytes;
    const char *path = file_join(&a, file_join(&a, dir, name), "model.safetensors");
    if (file_read(&a, path, 1u << 30, &bytes, len, &e) < 0)
        bail_out("%s", e.text);
    return bytes;
}

static bool is_same(double a, double b) {
    return a <= b && a >= b;
}

static bool same_losses(void) {
    bool same = true;
    for (int rank = 0; rank < RANKS_MAX; rank++)
        for (int step = 0; step <= STEPS_MAX; step++)
            same = same && is_same(losses[rank][step], shared->loss[rank][step]);
    return same;
}

static void test_bits(struct run r) {
    const char *name = r.name;
    char again[64];
    size_t n = 0, len[2];
    run_all(&r);
    memcpy(losses, shared->loss, sizeof losses);
    struct trainer_result kept = shared->result[0];
    snprintf(again, sizeof again, "%s, again", name);
    while (r.set[n])
        n++;
    r.set[n] = "train.recompute=blocks";
    r.name = again;
    if (!run_all(&r))
        return;
    ok(shared->steps[0] >= 2 && same_losses(),
       "%s: the losses are the same to the last bit, %d steps", name, (int)shared->steps[0]);
    ok(is_same(kept.final_loss, shared->result[0].final_loss), "%s: the evaluation is the same",
       name);
    char *one = model_file(name, &len[0]), *two = model_file(again, &len[1]);
    ok(len[0] == len[1] && memcmp(one, two, len[0]) == 0, "%s: the model is the same", name);
}

#define VIT                                                                                        \
    "train.model=vit(dim=16,depth=3,heads=2,patch=8)", "train.train_size=96", "train.test_size=10"
#define RESNET                                                                                     \
    "train.model=resnet18(width=16)", "train.train_size=24", "train.test_size=10",                 \
        "train.epochs=1", "train.optimizer=adam", "train.lr=0.001"

static void test_runs(void) {
    test_bits((struct run){1, 1, .name = "vit", .set = {VIT, "train.batch=24"}});
    test_bits((struct run){2, 1, .name = "vit dp2", .set = {VIT, "train.batch=12"}});
    test_bits((struct run){4, 2, .name = "vit hybrid",
                           .set = {VIT, "train.batch=12", "train.pipeline=2"}});
    test_bits((struct run){2, 1, .name = "vit interleaved",
                           .set = {VIT, "train.batch=24", "train.pipeline=2",
                                   "train.pipeline_schedule=interleaved:2"}});
    test_bits(
        (struct run){2, 1, .name = "vit zero", .set = {VIT, "train.batch=12", "train.zero=true"}});
    if (TAP_SANITIZED)
        return;
    test_bits((struct run){1, 1, .name = "resnet", .set = {RESNET, "train.batch=8"}});
    test_bits((struct run){2, 1, .name = "resnet dp2", .set = {RESNET, "train.batch=4"}});
    test_bits(
        (struct run){2, 1, .name = "resnet 1f1b",
                     .set = {RESNET, "train.batch=8", "train.pipeline=2", "train.microbatches=4"}});
}

static void test_refused(void) {
    struct run r = {1, 1, .name = "mlp", .set = {"train.recompute=blocks"}};
    is_int(run_ranks(&r), 1, "a model without blocks is refused");
    has_str(shared->why[0], "train.recompute is blocks, and the model 'mlp", "the error names it");
}

int main(void) {
    struct err e;
    ranks_begin();
    test_plans("resnet18", 64, 8, 0.8);
    test_plans("resnet50", 64, 16, 0.6);
    test_plans("vit_tiny", 64, 12, 0.4);
    test_plans("linformer", 64, 12, 0.5);
    test_plans("airbench", 32, 3, 0.95);
    test_plans("mlp(hidden=32,32,32)", 8, 0, 1);
    test_acts("vit(dim=16,depth=3,heads=2,mlp=4,patch=8)", 3, 3);
    test_acts("linformer(dim=16,depth=2,heads=2,mlp=4,patch=8,keys=4)", 2, 2);
    test_acts("mlp(hidden=32,32,32)", 0, 3);
    test_acts("airbench", 0, 0);
    test_sums("resnet18", 17);
    test_sums("resnet50", 49);
    test_sums("airbench", 3);
    test_sums("mlp(hidden=32,32,32)", 0);
    test_mistakes("resnet18", 32);
    test_mistakes("vit_tiny(patch=8)", 32);
    test_runs();
    test_refused();
    model_free(&model);
    file_remove_tree(dir, &e);
    return done_testing();
}
