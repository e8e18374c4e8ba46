// SPDX-License-Identifier: Apache-2.0
// Every parallel mode against the single process: the losses of 50 steps, the evaluation and the
// checkpoint are equal; each mode resumes from the checkpoint of another; a killed rank costs no
// more than the steps since the last checkpoint; impossible modes are refused by name.
#include "nn/stage.h"
#include "tests/unit/trainer/trainer_ranks.h"

enum { STEPS = 50, STAGES_MAX = 16 };
static const double RELATIVE = 1e-5;

// One mode: what it adds to the settings. 24 samples in each step.
struct cell {
    const char *name;
    int world, nodes;
    const char *set[6];
};

static const struct cell cells[] = {
    {"microbatches", 1, 1, {"train.batch=24", "train.microbatches=4"}},
    {"accumulate", 1, 1, {"train.batch=6", "train.accumulate=4"}},
    {"dp2", 2, 1, {"train.batch=12", "train.zero=false"}},
    {"dp2-auto", 2, 1, {"train.batch=12"}},
    {"dp3", 3, 3, {"train.batch=8"}},
    {"dp4", 4, 2, {"train.batch=6"}},
    {"gpipe2", 2, 1, {"train.batch=24", "train.pipeline=2", "train.pipeline_schedule=gpipe"}},
    {"gpipe4", 4, 2, {"train.batch=24", "train.partitions=4", "train.pipeline_schedule=simple"}},
    {"1f1b-2", 2, 2, {"train.batch=24", "train.pipeline=2", "train.microbatches=8"}},
    {"1f1b-3", 3, 1, {"train.batch=24", "train.pipeline=3", "train.microbatches=1"}},
    {"1f1b-4", 4, 1, {"train.batch=12", "train.pipeline=4", "train.accumulate=2"}},
    {"interleaved-2",
     2,
     1,
     {"train.batch=24", "train.pipeline=2", "train.pipeline_schedule=interleaved:3"}},
    {"interleaved-3",
     3,
     1,
     {"train.batch=24", "train.pipeline=3", "train.pipeline_schedule=interleaved:2"}},
    {"interleaved-4",
     4,
     2,
     {"train.batch=24", "train.pipeline=4", "train.pipeline_schedule=interleaved:2",
      "train.microbatches=4"}},
    {"packed", 4, 2, {"train.batch=12", "train.pipeline=2", "train.microbatches=3"}},
    {"spread", 4, 2, {"train.batch=12", "train.pipeline=2", "train.placement=spread"}},
    {"hybrid-8", 8, 2, {"train.batch=6", "train.pipeline=2", "train.placement_strategy=cluster"}},
    {"interleaved-dp",
     4,
     1,
     {"train.batch=12", "train.pipeline=2", "train.pipeline_schedule=interleaved:2"}},
    {"zero2", 2, 1, {"train.batch=12", "train.zero=true"}},
    {"zero3", 3, 3, {"train.batch=8", "train.zero=true"}},
    {"zero4", 4, 2, {"train.batch=6", "train.zero=true"}},
    {"zero-pipeline", 4, 2, {"train.batch=12", "train.pipeline=2", "train.zero=true"}},
    {"zero-interleaved",
     4,
     1,
     {"train.batch=12", "train.zero=true", "train.pipeline=2",
      "train.pipeline_schedule=interleaved:2"}},
    {"cuts", 2, 1, {"train.batch=24", "train.pipeline=2", "train.pipeline_cuts=fc4"}},
};
enum { CELLS = sizeof cells / sizeof *cells };

// Of all cells, so that they do the same work.
static const char *const mlp[] = {"train.hidden=24,20,16,16,12,12,12",
                                  "train.train_size=240",
                                  "train.test_size=50",
                                  "train.epochs=5",
                                  "train.optimizer=adam",
                                  "train.lr=0.003",
                                  "train.clip_norm=1.5",
                                  "train.eval_batch=16",
                                  "train.schedule=cosine",
                                  "train.weight_decay=0.01",
                                  "train.decay=weights"};

static struct run run_of(const struct cell *c, const char *const *common, size_t count) {
    struct run r = {.world = c->world, .nodes = c->nodes, .name = c->name};
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        r.set[n++] = common[i];
    for (size_t i = 0; c->set[i]; i++)
        r.set[n++] = c->set[i];
    return r;
}

static struct run mlp_run(const struct cell *c) {
    return run_of(c, mlp, sizeof mlp / sizeof *mlp);
}

// ---- the single process ----

static double losses[STEPS_MAX + 1], final_loss, final_top1;
static struct nn_model model;
static struct checkpoint_image image; // of its end

static void read_end(const char *name, struct checkpoint_image *c, int64_t step) {
    struct arena a = {0};
    struct optimizer o = {.kind = TRAIN_ADAM};
    struct err e = {0};
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(file_join(&a, file_join(&a, dir, name), "state"), step, path, sizeof path);
    if (checkpoint_read(c, &o, path, &e) < 0)
        ok(false, "%s: %s", name, e.text);
    arena_fini(&a);
}

static void run_reference(void) {
    const struct cell one = {"one", 1, 1, {"train.batch=24"}};
    struct run r = mlp_run(&one);
    struct nn_model_spec spec = {.name = "mlp",
                                 .hidden = {24, 20, 16, 16, 12, 12, 12},
                                 .nhidden = 7,
                                 .h = 32,
                                 .w = 32,
                                 .c = 3,
                                 .classes = 10};
    struct err e;
    run_all(&r);
    is_int(shared->steps[0], STEPS, "the single process makes 50 steps");
    memcpy(losses, shared->loss[0], sizeof losses);
    final_loss = shared->result[0].final_loss;
    final_top1 = shared->result[0].final_top1;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
    checkpoint_image_init(&image, &model, 2);
    read_end("one", &image, STEPS);
}

// ---- the matrix ----

// Of all ranks, relative to those kept.
static double worst_loss(int world, int64_t from, int64_t to) {
    double worst = 0;
    for (int rank = 0; rank < world; rank++)
        for (int64_t s = from; s <= to; s++) {
            double d = fabs(shared->loss[rank][s] / losses[s] - 1);
            worst = d > worst || d != d ? d : worst;
        }
    return worst;
}

static double distance(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        worst = d > worst || d != d ? d : worst;
    }
    return worst;
}

static void compare_end(const char *name) {
    struct checkpoint_image c;
    checkpoint_image_init(&c, &model, 2);
    read_end(name, &c, STEPS);
    double params = distance(c.params, image.params, model.param_elements);
    double moments = distance(c.state[0], image.state[0], model.param_elements) +
                     distance(c.state[1], image.state[1], model.param_elements);
    ok(params < 2e-5 && moments < 1e-5,
       "%s: the checkpoint is the same (parameters %.1e, moments %.1e)", name, params, moments);
    ok(c.at.step == STEPS && c.at.epoch == image.at.epoch && c.at.samples == image.at.samples &&
           c.at.epochs_done == 5,
       "%s: the checkpoint has the same position", name);
    checkpoint_image_fini(&c);
}

static void test_cell(const struct cell *c) {
    struct run r = mlp_run(c);
    if (!run_all(&r))
        return;
    double worst = worst_loss(c->world, 1, STEPS);
    ok(shared->steps[0] == STEPS && worst < RELATIVE,
       "%s: the losses are those of one process (%.1e)", c->name, worst);
    near(shared->result[c->world - 1].final_loss / final_loss, 1, RELATIVE,
         "%s: the evaluation loss is that of one process", c->name);
    near(shared->result[0].final_top1, final_top1, 1e-9, "%s: the accuracy is that of one process",
         c->name);
    compare_end(c->name);
}

// Through all cells in turn, each for two steps, in one folder.
static void test_chain(void) {
    int64_t at = 0;
    for (int i = 0; i < CELLS; i++) {
        struct run r = mlp_run(&cells[i]);
        r.name = "chain";
        r.stop_step = at + 1;
        r.stop_rank = r.world - 1;
        if (i == CELLS - 1)
            r.stop_step = 0;
        int failed = run_ranks(&r);
        int64_t end = shared->steps[0];
        double worst = worst_loss(r.world, at + 1, end);
        ok(!failed && end > at && (end == at + 2 || !r.stop_step) && worst < RELATIVE,
           "%s: the run resumes at step %d with the same losses (%.1e)", cells[i].name, (int)at,
           worst);
        at = end;
    }
    is_int(at, STEPS, "all modes follow each other to the end");
    compare_end("chain");
}

// ---- a killed rank ----

static void test_killed(const char *name) {
    const struct cell *c = cells;
    while (strcmp(c->name, name) != 0)
        c++;
    struct arena a = {0};
    struct run r = mlp_run(c);
    r.name = arena_printf(&a, "%s-killed", name);
    int n = 0;
    while (r.set[n])
        n++;
    r.set[n] = "train.checkpoint_every_steps=4";
    r.kill_step = 14;
    is_int(run_ranks(&r), c->world, "%s: a rank is killed, and all end", name);
    r.kill_step = 0;
    run_all(&r);
    int64_t first = 1;
    while (first <= STEPS && shared->loss[0][first] == 0)
        first++;
    ok(first == 13 || first == 9, "%s: the run restarts at step %d", name, (int)first);
    double worst = worst_loss(c->world, first, STEPS);
    ok(worst < RELATIVE, "%s: the losses after the restart are the same (%.1e)", name, worst);
    arena_fini(&a);
}

// ---- other models ----

// A reference and the modes that are compared with it.
enum { ROWS_MAX = 8 };
struct family {
    const char *name;
    const char *common[11];
    int64_t steps;
    double relative;
    struct {
        struct cell cell;
        int shards; // of a reference: batches that are normalised by themselves
    } row[ROWS_MAX];
};

static const struct family families[] = {
    {.name = "vit",
     .common = {"train.model=vit(dim=16,depth=3,heads=2,patch=8)", "train.optimizer=sgd",
                "train.lr=0.05", "train.train_size=240", "train.test_size=50", "train.epochs=5"},
     .steps = STEPS,
     .relative = 1e-5,
     .row =
         {{{"vit-1", 1, 1, {"train.batch=24"}}, 0},
          {{"vit-dp3", 3, 1, {"train.batch=8"}}, 0},
          {{"vit-zero2", 2, 1, {"train.batch=12", "train.zero=true"}}, 0},
          {{"vit-gpipe2",
            2,
            1,
            {"train.batch=24", "train.pipeline=2", "train.pipeline_schedule=gpipe"}},
           0},
          {{"vit-1f1b4", 4, 2, {"train.batch=24", "train.pipeline=4"}}, 0},
          {{"vit-interleaved",
            2,
            1,
            {"train.batch=24", "train.pipeline=2", "train.pipeline_schedule=interleaved:2"}},
           0},
          {{"vit-spread", 4, 2, {"train.batch=12", "train.pipeline=2", "train.placement=spread"}},
           0}}},
    // The bits of one process: the same micro-batches, one after the other.
    {.name = "resnet18",
     .common = {"train.model=resnet18(width=16)", "train.lr=0.001", "train.momentum=0",
                "train.train_size=24", "train.test_size=10", "train.epochs=1"},
     .steps = 3,
     .relative = 1e-12,
     .row =
         {{{"resnet18-1", 1, 1, {"train.batch=8", "train.microbatches=4"}}, 0},
          {{"resnet18-gpipe",
            2,
            1,
            {"train.batch=8", "train.pipeline=2", "train.microbatches=4",
             "train.pipeline_schedule=gpipe"}},
           0},
          {{"resnet18-1f1b", 4, 1, {"train.batch=8", "train.pipeline=4", "train.microbatches=4"}},
           0},
          {{"resnet18-interleaved",
            2,
            1,
            {"train.batch=8", "train.pipeline=2", "train.microbatches=4",
             "train.pipeline_schedule=interleaved:3"}},
           0}}},
    // Each data-parallel rank normalises its own.
    {.name = "resnet18 x 2",
     .common = {"train.model=resnet18(width=16)", "train.stem=cifar", "train.lr=0.0003",
                "train.momentum=0", "train.train_size=16", "train.test_size=10", "train.epochs=1"},
     .steps = 2,
     .relative = 1e-5,
     .row =
         {{{"resnet18-shards", 1, 1, {"train.batch=4", "train.microbatches=2"}}, 2},
          {{"resnet18-dp", 2, 1, {"train.batch=4", "train.microbatches=2"}}, 0},
          {{"resnet18-packed", 4, 2, {"train.batch=4", "train.pipeline=2", "train.microbatches=2"}},
           0},
          {{"resnet18-zero",
            4,
            1,
            {"train.batch=4", "train.pipeline=2", "train.microbatches=2", "train.zero=true"}},
           0}}},
};

static void test_family(const struct family *f) {
    size_t count = 0;
    while (f->common[count])
        count++;
    for (int i = 0; i < ROWS_MAX && f->row[i].cell.name; i += TAP_SANITIZED ? 3 : 1) {
        const struct cell *c = &f->row[i].cell;
        struct run r = run_of(c, f->common, count);
        r.shards = f->row[i].shards;
        run_all(&r);
        is_int(shared->steps[0], f->steps, "%s: the number of steps is right", c->name);
        if (i == 0) {
            memcpy(losses, shared->loss[0], sizeof losses);
            final_loss = shared->result[0].final_loss;
            continue;
        }
        double worst = worst_loss(c->world, 1, f->steps);
        ok(worst <= f->relative, "%s: the losses are those of %s (%.1e)", c->name,
           f->row[0].cell.name, worst);
        near(shared->result[0].final_loss / final_loss, 1, 1e-5, "%s: the evaluation loss is equal",
             c->name);
    }
}

// ---- gradients in bfloat16 ----

// The parameters after one step of SGD with a learning rate of 1, so that what differs is the
// gradient.
static void one_step(const char *name, int world, int nodes, const char *wire, const char *zero,
                     struct checkpoint_image *c) {
    const struct run r = {.world = world,
                          .nodes = nodes,
                          .name = name,
                          .set = {"train.hidden=24,20,16,16,12,12,12", "train.train_size=24",
                                  "train.test_size=10", "train.epochs=1", "train.lr=1",
                                  "train.momentum=0", wire, zero,
                                  world == 2 ? "train.batch=12" : "train.batch=6"}};
    struct arena a = {0};
    struct err e = {0};
    run_all(&r);
    checkpoint_image_init(c, &model, 0);
    const char *path = file_join(&a, file_join(&a, dir, name), "model.safetensors");
    if (checkpoint_read_model(c, path, false, &e) < 0)
        ok(false, "%s: %s", name, e.text);
    arena_fini(&a);
}

// Rounded once by each rank, once by each node, once at the end: each time by 1/256 at most.
static void test_wire(int world, int nodes, const char *zero) {
    struct checkpoint_image exact, rounded;
    float *start = heap_alloc(model.param_elements * sizeof *start);
    double error = 0, all = 0;
    for (int i = 0; i < model.params; i++)
        model_init_param(&model, i, 0, start + model.param[i].begin);
    one_step("f32", world, nodes, "train.wire=f32", zero, &exact);
    one_step("bf16", world, nodes, "train.wire=bf16", zero, &rounded);
    for (size_t i = 0; i < model.param_elements; i++) {
        double gradient = (double)start[i] - (double)exact.params[i];
        double off = (double)rounded.params[i] - (double)exact.params[i];
        error += off * off;
        all += gradient * gradient;
    }
    double relative = sqrt(error / all), bound = (nodes + 1) / 256.0;
    ok(relative > 1e-5 && relative < bound,
       "%d ranks on %d nodes, %s: the losses are off by %.1e, at most %.1e", world, nodes, zero,
       relative, bound);
    checkpoint_image_fini(&exact);
    checkpoint_image_fini(&rounded);
    struct err e;
    struct arena a = {0};
    file_remove_tree(file_join(&a, dir, "f32"), &e);
    file_remove_tree(file_join(&a, dir, "bf16"), &e);
    arena_fini(&a);
    free(start);
}

// ---- what is refused ----

static void test_refused(void) {
    static const struct {
        struct cell cell;
        const char *says;
    } wrong[] = {
        {{"odd", 1, 1, {"train.pipeline=2"}}, "1 rank cannot be divided by it"},
        {{"batch", 2, 1, {"train.batch=9", "train.pipeline=2", "train.microbatches=4"}},
         "train.batch is 9, which train.microbatches, 4, does not divide"},
        {{"round",
          2,
          1,
          {"train.batch=9", "train.pipeline=2", "train.microbatches=3",
           "train.pipeline_schedule=interleaved:2"}},
         "needs a multiple of train.pipeline, 2, micro-batches in each step, not 3"},
        {{"alone", 1, 1, {"train.pipeline_schedule=interleaved:2"}},
         "interleaved:2 needs train.pipeline of 2 or more"},
        {{"deep",
          2,
          1,
          {"train.batch=24", "train.pipeline=2", "train.pipeline_schedule=interleaved:5"}},
         "the model can be cut into 8 stages, not 10"},
        {{"names", 2, 1, {"train.batch=24", "train.pipeline=2", "train.pipeline_cuts=fc2,fc3"}},
         "train.pipeline_cuts names 2 layers; 2 stages begin with 1 of them"},
        {{"nothing", 2, 1, {"train.batch=24", "train.pipeline=2", "train.pipeline_cuts=fc99"}},
         "the model has no layer 'fc99'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct run r = mlp_run(&wrong[i].cell);
        struct arena a = {0};
        is_int(run_ranks(&r), r.world, "%s: no rank begins", r.name);
        has_str(shared->why[0], wrong[i].says, "%s: the error has the reason", r.name);
        ok(!file_exists(file_join(&a, file_join(&a, dir, r.name), "state/checkpoint-0000000050")),
           "%s: nothing is made", r.name);
        arena_fini(&a);
    }
}

int main(void) {
    struct err e;
    ranks_begin();
    run_reference();
    for (int i = 0; i < CELLS; i += TAP_SANITIZED ? 3 : 1) // the chain has all of them
        test_cell(&cells[i]);
    test_chain();
    test_killed("1f1b-3");
    test_killed("spread");
    test_killed("zero4");
    for (size_t i = 0; i < (TAP_SANITIZED ? 1 : sizeof families / sizeof *families); i++)
        test_family(&families[i]);
    test_wire(2, 1, "train.zero=false");
    test_wire(4, 2, "train.zero=false");
    test_wire(4, 1, "train.zero=true");
    test_refused();
    checkpoint_image_fini(&image);
    model_free(&model);
    file_remove_tree(dir, &e);
    return done_testing();
}
