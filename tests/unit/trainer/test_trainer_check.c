// SPDX-License-Identifier: Apache-2.0
// Ranks whose numbers go wrong, in every parallel mode: a loss or a gradient that is not finite
// ends the run on all ranks with the same sentence, which names rank and step; so does a parameter
// that one rank alone has otherwise. The newest checkpoint is one from before.
#include "tests/unit/trainer/trainer_ranks.h"
#include "trainer/trainer_impl.h"

enum { BAD_STEP = 3 };
enum harm { HARM_NAN, HARM_BIT, HARM_STEEP };

static struct trainer *self; // of a rank
static enum harm harm;
static int harmed; // rank

static int run_steps(const struct trainer_config *config, struct trainer_result *result,
                     struct err *e) {
    self = heap_alloc(sizeof *self);
    int r = trainer_open(self, config, e);
    for (; r == 0 && self->at.epoch < config->options->epochs; self->at.epoch++) {
        r = trainer_epoch(self, e);
        self->at.consumed = 0;
    }
    *result = (struct trainer_result){.steps = self->at.step};
    trainer_close(self);
    free(self);
    return r;
}

// Weights of 3e38 behind a layer of 1e-37: the loss is finite, its gradient is not.
static void make_steep(struct network *net, const struct nn_param *p) {
    for (size_t i = 0; i < p->count; i++) {
        float v = !strncmp(p->name, "fc3.weight", 10) ? (i < p->count / 10 ? 3e38f : -3e38f)
                  : !strcmp(p->name, "fc2.bias")      ? 2e-38f
                                                      : 0;
        network_set(net, net->params, p->begin + i, 1, &v);
    }
}

static void do_harm(int rank, int64_t step) {
    static const float nan_value = (float)NAN;
    struct network *net = &self->chunk[0].net;
    if (step != BAD_STEP)
        return;
    if (harm == HARM_NAN && rank == harmed)
        network_set(net, net->params, net->model->param[0].begin, 1, &nan_value);
    if (harm == HARM_BIT && rank == harmed) {
        size_t last = net->model->param_elements - NN_TENSOR_ALIGN;
        uint32_t bits;
        float v;
        network_get(net, net->params, last, 1, &v);
        memcpy(&bits, &v, sizeof bits);
        bits ^= 1;
        memcpy(&v, &bits, sizeof bits);
        network_set(net, net->params, last, 1, &v);
    }
    for (int i = 0; harm == HARM_STEEP && i < net->model->params; i++)
        make_steep(net, &net->model->param[i]);
}

// The modes, with what is said in each; at world ranks.
static const struct mode {
    const char *name;
    int world;
    const char *set[3];
    const char *loss, *differs, *gradient;
    int harmed;
} modes[] = {
    {"one", 1, {NULL}, "the loss of rank 0 is", NULL, "the gradient of 'fc2.bias' on rank 0 is", 0},
    {"dp",
     3,
     {"train.zero=false"},
     "the loss of rank 1 is",
     "the parameters of rank 1 differ from those of rank 0 and 1 other rank at step 3",
     "the gradient of 'fc2.bias' on rank 0 is",
     1},
    {"two",
     2,
     {"train.zero=false"},
     "the loss of rank 1 is",
     "the parameters of ranks 0 and 1, which should be the same, differ at step 3",
     "the gradient of 'fc2.bias' on rank 0 is",
     1},
    {"pipeline",
     4,
     {"train.pipeline=2"},
     "the loss of rank 3 is", // the second stage of the pipeline that rank 2 begins
     "the parameters of ranks 0 and 2, which should be the same, differ at step 3",
     "the gradient of 'fc2.bias' on rank ",
     2},
    {"zero",
     3,
     {"train.zero=true"},
     "the loss of rank 2 is",
     "the parameters of rank 2 differ from those of rank 0 and 1 other rank at step 3",
     "the gradient of 'fc2.bias' on rank ",
     2},
};

// All ranks end with this, and no checkpoint is younger than the harm.
static void fails(const struct mode *m, const char *kind, const char *text, const char *step) {
    char name[64];
    struct arena a = {0};
    int same = 0, named = 0;
    int64_t newest = 0;
    snprintf(name, sizeof name, "%s-%s", m->name, kind);
    struct run run = {.world = m->world,
                      .nodes = 1,
                      .name = name,
                      .set = {"train.check_every=1", "train.checkpoint_every_steps=1",
                              "train.eval=false", m->set[0]}};
    is_int(run_ranks(&run), m->world, "%s: all ranks fail", name);
    for (int rank = 0; rank < m->world; rank++) {
        same += strcmp(shared->why[rank], shared->why[0]) == 0;
        named += strstr(shared->why[rank], text) && strstr(shared->why[rank], step);
    }
    ok(same == m->world && named == m->world, "all ranks end with one sentence: %s",
       shared->why[0]);
    bool any =
        checkpoint_list(file_join(&a, node_folder(&a, &run, 0), "state"), &newest, 1, NULL) > 0;
    ok(any && newest >= 1 && newest < BAD_STEP, "the newest checkpoint is of step %d", (int)newest);
    arena_fini(&a);
}

static void test_modes(void) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const struct mode *m = &modes[i];
        harmed = m->harmed;
        harm = HARM_STEEP;
        fails(m, "gradient", m->gradient, "at step 4 ");
        if (!m->differs)
            continue;
        harm = HARM_BIT;
        fails(m, "bit", m->differs, "(try:");
    }
}

// Without the check the harm shows in the loss of the next step.
static void test_loss(void) {
    harm = HARM_NAN;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const struct mode *m = &modes[i];
        struct run run = {.world = m->world,
                          .nodes = 1,
                          .name = m->name,
                          .set = {"train.check_every=0", m->set[0]}};
        harmed = m->harmed;
        is_int(run_ranks(&run), m->world, "%s: all ranks fail", m->name);
        ok(strstr(shared->why[0], m->loss) && strstr(shared->why[0], "at step 4 "), "%s",
           shared->why[0]);
        is_int(shared->steps[0], BAD_STEP, "the step is not made");
    }
}

// In rounds of local steps, with 9 steps in an epoch. A checkpoint of a round's end is not written
// before the next step has shown that its numbers are sound.
static void test_rounds(void) {
    static const struct {
        const char *name;
        enum harm harm;
        const char *set[2];
        int newest; // checkpoint
        const char *text;
    } cases[] = {
        {"round-loss",
         HARM_NAN,
         {"train.local_steps=3", "train.checkpoint_every_steps=0"},
         -1,
         "the loss of rank 1 is"},
        {"round-change",
         HARM_NAN,
         {"train.local_steps=2", "train.checkpoint_every_steps=1"},
         2,
         "the change of the parameters of rank 1 is"},
        {"round-gradient",
         HARM_STEEP,
         {"train.local_steps=3", "train.checkpoint_every_steps=1"},
         -1,
         "the gradient of 'fc2.bias' on rank 0 is"},
    };
    harmed = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct run run = {
            .world = 3,
            .nodes = 1,
            .name = cases[i].name,
            .set = {"train.batch=10", "train.check_every=0", cases[i].set[0], cases[i].set[1]}};
        struct arena a = {0};
        int same = 0;
        int64_t newest = -1;
        harm = cases[i].harm;
        is_int(run_ranks(&run), 3, "%s: all ranks fail", run.name);
        for (int rank = 0; rank < 3; rank++)
            same +=
                strstr(shared->why[rank], cases[i].text) && strstr(shared->why[rank], "at step 4 ");
        is_int(same, 3, "%s: all errors have the number, the rank and the step", run.name);
        if (!checkpoint_list(file_join(&a, node_folder(&a, &run, 0), "state"), &newest, 1, NULL))
            newest = -1;
        is_int(newest, cases[i].newest, "%s: the newest checkpoint is right", run.name);
        arena_fini(&a);
    }
}

int main(void) {
    ranks_begin();
    rank_main = run_steps;
    rank_step = do_harm;
    test_modes();
    test_loss();
    test_rounds();
    struct err e;
    file_remove_tree(dir, &e);
    return done_testing();
}
