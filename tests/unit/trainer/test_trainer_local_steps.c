// SPDX-License-Identifier: Apache-2.0
// Rounds of local steps: the outer update against its formula in double; one rank against plain
// steps and that formula; ranks that differ inside a round and agree to the last bit behind it; a
// run that was killed, stopped, or continues with other ranks; options that do not go together.
#include "tests/unit/trainer/trainer_ranks.h"
#include "trainer/trainer_impl.h"

enum { DIGESTS = STEPS_MAX + 1 };

static struct nn_model model;

static void build(void) {
    struct nn_model_spec spec = {
        .name = "mlp", .hidden = {32, 16}, .nhidden = 2, .h = 32, .w = 32, .c = 3, .classes = 10};
    struct err e;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
}

// ---- the outer update --------------------------------------------------------------------------

static double noise(uint64_t *state) { // in [-1, 1)
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(*state >> 11) / 0x1p52 - 1;
}

struct outer_state {
    double *start, *momentum;
    float *now, *found;
    size_t n;
};

// The formula of one round, as in torch.optim.SGD with nesterov.
static void expect_round(struct outer_state *s, const struct optimizer *o) {
    double mu = o->outer_momentum;
    for (size_t i = 0; i < s->n; i++) {
        double change = (double)(float)(s->start[i] - (double)s->now[i]);
        s->momentum[i] = mu * s->momentum[i] + change;
        s->start[i] -= o->outer_lr * (mu > 0 ? change + mu * s->momentum[i] : change);
    }
}

static double off(struct outer_state *s, const struct network *net, const char *numbers,
                  const double *want) {
    double worst = 0;
    network_get(net, numbers, 0, s->n, s->found);
    for (size_t i = 0; i < s->n; i++) {
        double d = fabs((double)s->found[i] - want[i]);
        worst = d > worst || d != d ? d : worst;
    }
    return worst;
}

// Every round begins with the numbers of the formula, rounded, so that errors do not add up.
static void force(struct outer_state *s, const struct optimizer *o, struct network *net,
                  uint64_t *seed) {
    for (size_t i = 0; i < s->n; i++)
        s->found[i] = (float)s->start[i];
    network_set(net, net->params, 0, s->n, s->found);
    for (size_t i = 0; i < s->n; i++)
        s->start[i] = (double)s->found[i];
    optimizer_begin_round(o, net);
    for (size_t i = 0; i < s->n; i++)
        s->now[i] = (float)(s->start[i] + 0.01 * noise(seed));
    network_set(net, net->params, 0, s->n, s->now);
    if (optimizer_outer(o) < 0)
        return;
    for (size_t i = 0; i < s->n; i++)
        s->found[i] = (float)s->momentum[i];
    network_set(net, net->state[optimizer_outer(o)], 0, s->n, s->found);
    for (size_t i = 0; i < s->n; i++)
        s->momentum[i] = (double)s->found[i];
}

static void test_outer(const struct kernel_backend *backend, double momentum) {
    struct optimizer o = {
        .kind = TRAIN_ADAM, .rounds = true, .outer_lr = 0.7, .outer_momentum = momentum};
    struct network_config config = {
        .model = &model, .backend = backend, .batch = 1, .states = optimizer_buffers(&o)};
    struct network net;
    struct err e;
    uint64_t seed = 1;
    double worst = 0, worst_momentum = 0;
    struct outer_state s = {.n = model.param_elements};
    if (network_open(&net, &config, &e) < 0)
        bail_out("%s", e.text);
    s.start = heap_alloc(s.n * sizeof *s.start);
    s.momentum = heap_alloc(s.n * sizeof *s.momentum);
    s.now = heap_alloc(s.n * sizeof *s.now);
    s.found = heap_alloc(s.n * sizeof *s.found);
    for (size_t i = 0; i < s.n; i++)
        s.start[i] = noise(&seed);
    for (int round = 0; round < 5; round++) {
        size_t cut = model.param[2].begin; // two buckets, the last one first
        force(&s, &o, &net, &seed);
        optimizer_change(&o, &net, cut, s.n);
        optimizer_change(&o, &net, 0, cut);
        optimizer_apply_outer(&o, &net, cut, s.n);
        optimizer_apply_outer(&o, &net, 0, cut);
        expect_round(&s, &o);
        double params = off(&s, &net, net.params, s.start);
        double anchor = off(&s, &net, net.state[optimizer_states(&o)], s.start);
        worst = fmax(worst, fmax(params, anchor));
        if (momentum > 0)
            worst_momentum =
                fmax(worst_momentum, off(&s, &net, net.state[optimizer_outer(&o)], s.momentum));
    }
    ok(worst > 0 && worst < 2e-7, "%s, momentum %g: five outer updates by the formula (%.1e)",
       backend->name, momentum, worst);
    ok(worst_momentum < 1e-8, "%s, momentum %g: the momentum is that of the formula (%.1e)",
       backend->name, momentum, worst_momentum);
    free(s.start);
    free(s.momentum);
    free(s.now);
    free(s.found);
    network_close(&net);
}

// A layer that is no longer trained stays, whatever momentum is left from before.
static void test_settled(void) {
    struct optimizer o = {.rounds = true, .outer_lr = 1, .outer_momentum = 0.9};
    struct network_config config = {.model = &model,
                                    .backend = &kernels_reference,
                                    .batch = 1,
                                    .states = optimizer_buffers(&o)};
    struct network net;
    struct err e;
    const float one = 1;
    float first, second;
    if (network_open(&net, &config, &e) < 0)
        bail_out("%s", e.text);
    network_settle(&net);
    size_t behind = net.settled_elements;
    network_set(&net, net.state[0], 0, 1, &one);
    network_set(&net, net.state[0], behind, 1, &one);
    optimizer_change(&o, &net, 0, model.param_elements);
    optimizer_apply_outer(&o, &net, 0, model.param_elements);
    network_get(&net, net.params, 0, 1, &first);
    network_get(&net, net.params, behind, 1, &second);
    ok(behind > 0 && first == 0 && fabs((double)second + 0.81) < 1e-6,
       "a settled layer stays, the one behind moves by its momentum (%g, %g)", (double)first,
       (double)second);
    network_close(&net);
}

// ---- runs --------------------------------------------------------------------------------------

static struct digests {
    uint64_t of[RANKS_MAX][DIGESTS];
    bool joined[RANKS_MAX][DIGESTS]; // the round has ended with that step
} * digests;
static struct trainer *self;

static uint64_t digest(const struct network *net, const char *numbers, size_t count) {
    uint64_t sum = 1;
    float *values = heap_alloc((count + 1) * sizeof *values);
    network_get(net, numbers, 0, count, values);
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    }
    free(values);
    return sum;
}

static void note(int rank, int64_t step) {
    const struct network *net = &self->chunk[0].net;
    if (step >= DIGESTS)
        return;
    digests->of[rank][step] = digest(net, net->params, net->model->param_elements) ^
                              digest(net, net->stats, net->model->stat_elements);
    digests->joined[rank][step] = self->round.taken == 0;
}

static int run_noted(const struct trainer_config *config, struct trainer_result *result,
                     struct err *e) {
    self = heap_alloc(sizeof *self);
    int r = trainer_open(self, config, e);
    while (r == 0 && self->at.epoch < config->options->epochs && !self->stop_seen) {
        r = trainer_epoch(self, e);
        self->at.epoch++;
        self->at.consumed = 0;
    }
    *result = (struct trainer_result){.steps = self->at.step};
    trainer_close(self);
    free(self);
    return r;
}

// Every `round` steps all ranks have the same numbers; in between no two have.
static void test_agreement(const char *name, int world, int64_t round, int64_t steps,
                           const char *model_set, const char *more) {
    struct arena a = {0};
    const struct run r = {.world = world,
                          .nodes = 1,
                          .name = name,
                          .set = {arena_printf(&a, "train.local_steps=%d", (int)round), model_set,
                                  "train.epochs=1", "train.check_every=1", "train.eval=false",
                                  more}};
    int joined = 0, same = 0, apart = 0;
    memset(digests, 0, sizeof *digests);
    rank_main = run_noted;
    rank_step = note;
    run_all(&r);
    rank_main = trainer_run;
    rank_step = NULL;
    for (int64_t s = 1; s <= steps; s++) {
        bool end = s % round == 0 || s == steps, alike = true, differ = true;
        for (int rank = 0; rank < world; rank++) {
            joined += digests->joined[rank][s] == end;
            for (int other = 0; other < rank; other++) {
                bool equal = digests->of[rank][s] == digests->of[other][s];
                alike = alike && equal;
                differ = differ && !equal;
            }
        }
        same += end && alike;
        apart += !end && differ;
    }
    int64_t ends = steps / round + (steps % round != 0);
    is_int(shared->steps[0], steps, "%s: the number of steps is right", name);
    is_int(joined, world * steps, "%s: rounds end where they should", name);
    is_int(same, ends, "%s: all ranks have the same numbers behind each round", name);
    is_int(apart, steps - ends, "%s: no two ranks have the same numbers inside a round", name);
    arena_fini(&a);
}

// ---- one rank ----------------------------------------------------------------------------------

static const char *state_path(struct arena *a, const char *name, int64_t step) {
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(file_join(a, file_join(a, dir, name), "state"), step, path, sizeof path);
    return arena_strdup(a, path);
}

static const struct optimizer ADAM = {.kind = TRAIN_ADAM},
                              LOCAL = {.kind = TRAIN_ADAM, .rounds = true, .outer_momentum = 0.9};

static void read_state(struct checkpoint_image *c, const struct optimizer *like, const char *name,
                       int64_t step) {
    struct arena a = {0};
    struct optimizer o = *like;
    struct err e;
    checkpoint_image_init(c, &model, optimizer_states(like));
    ok(checkpoint_read(c, &o, state_path(&a, name, step), &e) == 0,
       "%s: the checkpoint of step %d is read", name, (int)step);
    arena_fini(&a);
}

// One round from the checkpoint `from`, or the beginning, to `plain`'s, and what became of it.
static void compare_round(const struct checkpoint_image *from, const struct checkpoint_image *plain,
                          const struct checkpoint_image *local, const char *what) {
    size_t n = model.param_elements, bytes = n * sizeof(float);
    float *start = heap_alloc(bytes);
    double worst = 0, worst_momentum = 0;
    for (int i = 0; i < model.params && !from; i++)
        model_init_param(&model, i, 0, start + model.param[i].begin);
    if (from)
        memcpy(start, from->params, bytes);
    for (size_t i = 0; i < n; i++) {
        double change = (double)start[i] - (double)plain->params[i];
        double m = (from ? 0.9 * (double)from->state[2][i] : 0) + change;
        double want = (double)start[i] - 0.7 * (change + 0.9 * m);
        worst = fmax(worst, fabs(want - (double)local->params[i]));
        worst_momentum = fmax(worst_momentum, fabs(m - (double)local->state[2][i]));
    }
    ok(worst < 3e-7 && worst_momentum < 1e-7,
       "%s: the result is that of plain steps and the outer rule (parameters %.1e, momentum %.1e)",
       what, worst, worst_momentum);
    ok(memcmp(plain->state[0], local->state[0], bytes) == 0 &&
           memcmp(plain->state[1], local->state[1], bytes) == 0,
       "%s: the inner moments are those of plain steps to the last bit", what);
    free(start);
}

// Eight steps of 32 images in an epoch.
static void test_one(void) {
    struct checkpoint_image plain, first, again, second;
    struct arena a = {0};
    struct run r = {.world = 1,
                    .nodes = 1,
                    .name = "plain",
                    .set = {"train.optimizer=adam", "train.lr=0.003", "train.epochs=1"}};
    run_all(&r);
    r.name = "local";
    r.set[3] = "train.local_steps=8";
    run_all(&r);
    read_state(&plain, &ADAM, "plain", 8);
    read_state(&first, &LOCAL, "local", 8);
    compare_round(NULL, &plain, &first, "one rank, first round");
    r.name = "plain-again";
    r.set[2] = "train.epochs=2";
    r.set[3] = arena_printf(&a, "train.resume=%s", state_path(&a, "local", 8));
    run_all(&r);
    r.name = "local";
    r.set[3] = "train.local_steps=8";
    run_all(&r);
    read_state(&again, &ADAM, "plain-again", 16);
    read_state(&second, &LOCAL, "local", 16);
    compare_round(&first, &again, &second, "one rank, second round");
    checkpoint_image_fini(&plain);
    checkpoint_image_fini(&first);
    checkpoint_image_fini(&again);
    checkpoint_image_fini(&second);
    arena_fini(&a);
}

// ---- killed, stopped, resumed ------------------------------------------------------------------

static bool same_state(const char *name, const char *other, int64_t step) {
    struct checkpoint_image a, b;
    size_t bytes = model.param_elements * sizeof(float);
    read_state(&a, &LOCAL, name, step);
    read_state(&b, &LOCAL, other, step);
    bool same = memcmp(a.params, b.params, bytes) == 0;
    for (int i = 0; i < a.states; i++)
        same = same && memcmp(a.state[i], b.state[i], bytes) == 0;
    same = same && a.at.epoch_loss_sum == b.at.epoch_loss_sum;
    for (int64_t i = 0; i < a.at.epochs_done; i++)
        same = same && a.epochs[i].train_loss == b.epochs[i].train_loss &&
               a.epochs[i].test_loss == b.epochs[i].test_loss;
    checkpoint_image_fini(&a);
    checkpoint_image_fini(&b);
    return same;
}

// In an epoch 3 ranks make 10 steps, 2 ranks 14: rounds of 4 steps and a shorter one.
static struct run adam_run(int world, const char *name, const char *more) {
    return (struct run){.world = world,
                        .nodes = 1,
                        .name = name,
                        .set = {"train.optimizer=adam", "train.lr=0.003",
                                world == 3 ? "train.train_size=288" : "train.train_size=280",
                                "train.batch=10", "train.local_steps=4",
                                "train.checkpoint_every_steps=4", more}};
}

static void test_killed(int world, int64_t end, const char *more) {
    struct arena a = {0};
    const char *name = arena_printf(&a, "whole-%d", world);
    const char *other = arena_printf(&a, "killed-%d", world);
    struct run r = adam_run(world, name, more);
    run_all(&r);
    is_int(shared->steps[0], end, "%s: the number of steps is right", name);
    r.name = other;
    r.kill_step = end - 3;
    is_int(run_ranks(&r), world, "%s: a rank is killed, and all end", other);
    r.kill_step = 0;
    run_all(&r);
    int64_t first = 1;
    while (first <= end && shared->loss[0][first] == 0)
        first++;
    ok(first > 1 && first <= end - 3, "%s: the run resumes with step %d", other, (int)first);
    ok(same_state(name, other, end), "%s: the end is that of the whole run to the last bit", other);
    arena_fini(&a);
}

static double most_momentum(const char *name, int64_t step) {
    struct checkpoint_image c;
    double most = 0;
    read_state(&c, &LOCAL, name, step);
    for (size_t i = 0; i < model.param_elements; i++)
        most = fmax(most, fabs((double)c.state[2][i]));
    checkpoint_image_fini(&c);
    return most;
}

// A request ends the round at once, on all ranks; a later run may have other ranks and options.
static void test_stopped(void) {
    struct arena a = {0};
    struct run r = adam_run(3, "stopped", "train.wire=bf16");
    r.set[4] = "train.local_steps=1000";
    r.stop_rank = 2;
    r.stop_step = 2;
    run_all(&r);
    int64_t at = shared->result[0].steps;
    ok(shared->result[1].stopped && at > 2 && at < 6, "stopped: one rank asks, all end at step %d",
       (int)at);
    struct checkpoint_image c;
    read_state(&c, &LOCAL, "stopped", at);
    checkpoint_image_fini(&c);
    r = adam_run(2, "stopped", NULL);
    r.set[2] = "train.train_size=288"; // the same data
    run_all(&r);
    ok(shared->loss[1][at + 1] > 0 && shared->loss[1][at] == 0,
       "two ranks go on where three were stopped");
    ok(shared->result[0].final_loss > 0 && shared->result[0].final_loss < 5,
       "the evaluation loss of the end is sound: %g", shared->result[0].final_loss);
    r = adam_run(2, "turned", NULL);
    r.set[4] = "train.epochs=1";
    run_all(&r);
    near(most_momentum("turned", 14), 0, 0, "a checkpoint of plain steps has no outer momentum");
    r.set[4] = "train.local_steps=3";
    run_all(&r);
    ok(shared->steps[0] == 28 && shared->loss[0][14] == 0 && shared->loss[0][15] > 0,
       "a run of plain steps goes on in rounds");
    double most = most_momentum("turned", 28);
    ok(most > 0, "the last checkpoint of that run has an outer momentum (%.1e)", most);
    arena_fini(&a);
}

// ---- what is refused ---------------------------------------------------------------------------

static void test_refused(void) {
    static const struct {
        const char *set, *says;
    } wrong[] = {
        {"train.pipeline=2", "train.pipeline does not go with train.local_steps"},
        {"train.zero=true", "train.zero does not go with train.local_steps"},
        {"train.ema=0.9", "train.ema does not go with train.local_steps"},
        {"train.lookahead=0.9", "train.lookahead does not go with train.local_steps"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct run r = {.world = 2,
                              .nodes = 1,
                              .name = "refused",
                              .set = {"train.local_steps=4", wrong[i].set}};
        struct arena a = {0};
        is_int(run_ranks(&r), 2, "%s: no rank begins", wrong[i].set);
        has_str(shared->why[1], wrong[i].says, "%s: the error has both options", wrong[i].set);
        ok(!file_exists(file_join(&a, dir, "refused")), "%s: nothing is made", wrong[i].set);
        arena_fini(&a);
    }
}

int main(void) {
    struct err e;
    ranks_begin();
    digests =
        mmap(NULL, sizeof *digests, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (digests == MAP_FAILED)
        bail_out("no shared memory");
    build();
    const struct kernel_backend *backends[] = {&kernels_cpu, &kernels_reference};
    for (int i = 0; i < 2; i++) {
        test_outer(backends[i], 0.9);
        test_outer(backends[i], 0);
    }
    test_settled();
    test_one();
    test_agreement("two", 2, 2, 4, "train.model=mlp", NULL);
    test_agreement("three", 3, 2, 3, "train.model=mlp", "train.wire=bf16");
    if (!TAP_SANITIZED)
        test_agreement("norms", 2, 2, 3, "train.model=resnet18(width=16)", "train.train_size=180");
    test_killed(2, 28, NULL);
    test_killed(3, 20, "train.wire=bf16");
    test_stopped();
    test_refused();
    model_free(&model);
    file_remove_tree(dir, &e);
    return done_testing();
}
