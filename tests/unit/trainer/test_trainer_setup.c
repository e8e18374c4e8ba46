// SPDX-License-Identifier: Apache-2.0
// From options to a trainer that can begin: what is refused, what the optimizer, the schedule and
// the network get, and which ranks share what.
#include "base/arena.h"
#include "base/log.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SETTINGS_MAX = 16 };

static struct err e;
static struct arena arena;
static char dir[] = "/tmp/test_trainer_setup.XXXXXX";
static struct train_config options;
static struct trainer_config config;
static struct trainer t;

static void load(const char *const *settings) {
    static const char *const common[] = {"train.dataset=shapes", "train.train_size=64",
                                         "train.test_size=20",   "train.threads=1",
                                         "train.model=mlp",      "train.hidden=8",
                                         "train.batch=16",       "train.eval_batch=32",
                                         "train.epochs=3",       "train.kernels=reference"};
    const char *argv[2 * (SETTINGS_MAX + 10)];
    struct train_flags flags;
    struct option_set set;
    int argc = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        argv[argc++] = "--set";
        argv[argc++] = common[i];
    }
    for (int i = 0; i < SETTINGS_MAX && settings[i]; i++) {
        argv[argc++] = "--set";
        argv[argc++] = settings[i];
    }
    if (train_config_load(&options, &flags, &set, &arena, argc, argv, NULL, &e) < 0)
        bail_out("%s", e.text);
    config = (struct trainer_config){.options = &options,
                                     .comm = {.world = 1, .local_world = 1, .nodes = 1, .cpu = -1},
                                     .output_dir = file_join(&arena, dir, "out"),
                                     .model_dir = file_join(&arena, dir, "model"),
                                     .state_dir = file_join(&arena, dir, "state"),
                                     .cache_dir = file_join(&arena, dir, "cache")};
}

static int opened(const char *const *settings) {
    load(settings);
    err_clear(&e);
    return trainer_open(&t, &config, &e);
}

// ---- refusals ----------------------------------------------------------------------------------

static const struct {
    const char *settings[4], *error;
} refusals[] = {
    {{"train.classes=9"}, "train.classes is 9, the data has 10"},
    {{"train.dtype=tf32"},
     "train.dtype is tf32, which needs a GPU of sm_80 or newer, and this run computes on "
     "processors (try: train.dtype f32)"},
    {{"train.dtype=f16"},
     "train.dtype is f16, and this run computes on processors: the scale of the loss has no place"},
    {{"train.recompute=blocks"},
     "train.recompute is blocks, and the model 'mlp(hidden=8)' has none (try: train.recompute "
     "none)"},
    {{"train.graph=on"}, "train.graph is on, and this run computes on processors"},
    {{"train.image_size=64"}, "has images of 32 pixels, not 64"},
};

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        is_int(opened(refusals[i].settings), -1, "%s is refused", refusals[i].settings[0]);
        has_str(e.text, refusals[i].error, "%s has its error", refusals[i].settings[0]);
        is_int(e.code, ERR_CONFIG, "%s is an error of configuration", refusals[i].settings[0]);
        trainer_close(&t);
    }
}

// ---- what the parts get ------------------------------------------------------------------------

static void test_rules(void) {
    static const char *const settings[] = {"train.optimizer=adamw",   "train.lr=0.5",
                                           "train.beta1=0.7",         "train.beta2=0.8",
                                           "train.eps=0.001",         "train.weight_decay=0.01",
                                           "train.schedule=onecycle", "train.peak=0.25",
                                           "train.cycle_start=0.5",   "train.cycle_end=0.125",
                                           "train.warmup_epochs=1.5", "train.ema=0.75",
                                           "train.classes=12",        NULL};
    is_int(opened(settings), 0, "a run with adamw opens: %s", e.text);
    const struct optimizer *o = &t.chunk[0].optimizer;
    ok(o->kind == TRAIN_ADAMW && fabs(o->beta1 - 0.7) + fabs(o->beta2 - 0.8) < 1e-12 &&
           fabs(o->eps - 0.001) + fabs(o->weight_decay - 0.01) + fabs(o->ema - 0.75) < 1e-12 &&
           !o->rounds,
       "the optimizer has its numbers");
    const struct lr_schedule *s = &t.schedule;
    ok(s->kind == TRAIN_ONECYCLE && fabs(s->lr - 0.5) + fabs(s->peak - 0.25) < 1e-12 &&
           fabs(s->cycle_start - 0.5) + fabs(s->cycle_end - 0.125) < 1e-12 &&
           fabs(s->warmup_epochs - 1.5) + fabs(s->epochs - 3) < 1e-12,
       "the schedule has its numbers");
    is_int(t.states, 3, "adamw has two moments, and an average is a third state");
    is_int(t.model->classes, 12, "a model may have more classes than the data");
    const struct network *net = &t.chunk[0].net;
    ok(net->batch == 16 && net->eval_batch == 20, "an evaluation has no more than all images");
    is_uint(net->copy_bytes, 4 * (size_t)t.model->param_elements * sizeof(float),
            "a checkpoint has room for weights and states");
    ok(t.program.items > 0 && t.slots == 1 && t.parts == 1, "one stage has one slot");
    const char *const folders[] = {config.output_dir, config.model_dir, config.state_dir,
                                   config.cache_dir};
    for (int i = 0; i < 4; i++) {
        struct stat st = {0};
        is_int(stat(folders[i], &st) == 0 ? st.st_mode & 07777 : 0, 0755,
               "all users may read folder %d", i);
    }
    trainer_close(&t);

    static const char *const sgd[] = {
        "train.optimizer=sgd", "train.momentum=0.5",   "train.nesterov=true", "train.eval=false",
        "train.batch=16",      "train.microbatches=1", "train.accumulate=3",  NULL};
    is_int(opened(sgd), 0, "a run with sgd opens: %s", e.text);
    o = &t.chunk[0].optimizer;
    ok(o->kind == TRAIN_SGD && o->nesterov && fabs(o->momentum - 0.5) < 1e-12,
       "sgd has its momentum");
    ok(t.chunk[0].net.eval_batch == 0 && t.test.samples == 0, "no evaluation needs no memory");
    int loads = 0;
    for (int i = 0; i < t.program.items; i++)
        loads += t.program.item[i].op == STEP_LOAD;
    is_int(loads, 3, "a step of three parts loads three batches");
    trainer_close(&t);
}

// Weights of a file, and a last layer that begins anew.
static void test_weights(void) {
    static const char *const plain[] = {"train.seed=1", "train.resume=never", NULL};
    static const char *const head[] = {"train.seed=2", "train.resume=never", "train.new_head=true",
                                       NULL};
    const char *path = file_join(&arena, dir, "weights.safetensors");
    struct checkpoint_image image = {0};
    is_int(opened(plain), 0, "a run opens: %s", e.text);
    checkpoint_image_init(&image, t.model, 0);
    for (size_t i = 0; i < t.model->param_elements; i++)
        image.params[i] = 0.5f;
    is_int(checkpoint_write_model(&image, path, &e), 0, "the weights are written");
    checkpoint_image_fini(&image);
    trainer_close(&t);
    for (int new_head = 0; new_head < 2; new_head++) {
        load(new_head ? head : plain);
        config.weights = path;
        is_int(trainer_open(&t, &config, &e), 0, "a run with weights opens: %s", e.text);
        const struct nn_model *m = t.model;
        int wrong = 0;
        for (int i = 0; i < m->params; i++) {
            const struct nn_param *p = &m->param[i];
            float *got = calloc(p->count, sizeof *got), *want = calloc(p->count, sizeof *want);
            network_get(&t.chunk[0].net, t.chunk[0].net.params, p->begin, p->count, got);
            bool fresh = new_head && i >= m->layer[m->layers - 1].param;
            if (fresh)
                model_init_param(m, i, 2, want);
            for (size_t k = 0; k < p->count; k++)
                wrong += fabsf(got[k] - (fresh ? want[k] : 0.5f)) > 0;
            free(got);
            free(want);
        }
        is_int(wrong, 0, "a run has the weights of the file, but for %d layers", new_head);
        trainer_close(&t);
    }
}

// ---- ranks -------------------------------------------------------------------------------------

static void choose(int rank, int world, int nodes, const char *const *settings) {
    load(settings);
    config.comm.nodes = nodes;
    t = (struct trainer){.config = &config, .options = &options, .rank = rank, .world = world};
    if (trainer_stages_choose(&t, &e) < 0)
        bail_out("%s", e.text);
}

static void test_zero(void) {
    static const struct {
        int world, nodes;
        const char *settings[3];
        bool zero, apart;
    } cases[] = {{1, 1, {NULL}, false, false},
                 {2, 1, {NULL}, true, true},
                 {2, 2, {NULL}, false, false},
                 {2, 2, {"train.zero=true"}, true, true},
                 {2, 1, {"train.zero=false"}, false, false},
                 {2, 1, {"train.ema=0.5"}, false, false},
                 {2, 1, {"train.lookahead=0.5"}, false, false},
                 {2, 1, {"train.local_steps=2"}, false, true},
                 {2, 1, {"train.local_steps=1", "train.zero=false"}, false, false},
                 {2, 2, {"train.wire=bf16"}, false, true},
                 {2, 1, {"train.pipeline=2"}, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        choose(0, cases[i].world, cases[i].nodes, cases[i].settings);
        is_int(t.zero, cases[i].zero, "%d ranks on %d nodes share out updates, case %zu",
               cases[i].world, cases[i].nodes, i);
        is_int(t.apart, cases[i].apart, "totals travel on their way, case %zu", i);
        is_int(t.round.steps, i == 7 ? 2 : 0, "rounds have their steps, case %zu", i);
    }
}

static void test_places(void) {
    static const char *const packed[] = {"train.pipeline=2", "train.microbatches=4", NULL};
    static const char *const spread[] = {"train.pipeline=2", "train.microbatches=4",
                                         "train.placement=spread", NULL};
    for (int rank = 0; rank < 6; rank++) {
        choose(rank, 6, 1, packed);
        ok(t.mesh.pipe == 2 && t.mesh.data == 3 && !t.mesh.spread && t.pipe_rank == rank % 2 &&
               t.data_rank == rank / 2,
           "rank %d has its place beside its neighbours", rank);
        ok(t.micros == 4 && t.micro_batch == 4 && t.chunks == 1, "rank %d has its batches", rank);
        choose(rank, 6, 1, spread);
        ok(t.mesh.spread && t.pipe_rank == rank / 3 && t.data_rank == rank % 3,
           "rank %d has its place far from its neighbours", rank);
    }
}

int main(void) {
    umask(0); // so that modes are those that were asked for
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_rules();
    test_refusals();
    test_weights();
    test_zero();
    test_places();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
