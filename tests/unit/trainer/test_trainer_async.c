// SPDX-License-Identifier: Apache-2.0
// Steps that the host does not wait for, on a device that is the test: which runs have them, what
// the device is given, when a step is accounted for, and what ends a run. And the small rules of a
// step: requests, slow weights, the scale of a loss.
#include "tests/unit/trainer/async_fake.h"

// ---- which runs --------------------------------------------------------------------------------

static void test_choice(void) {
    static const struct {
        int rounds, world, pipe, chunks, accumulate, micros, shards;
        bool device;
        const char *why; // not; NULL: steps are not waited for
    } cases[] = {{0, 1, 1, 1, 1, 1, 0, true, NULL},
                 {0, 1, 1, 1, 1, 1, 1, true, NULL},
                 {0, 1, 1, 1, 1, 1, 2, true, ""},
                 {1, 1, 1, 1, 1, 1, 0, true, "the ranks take local steps"},
                 {0, 2, 1, 1, 1, 1, 0, true, "the hosts pass the gradients on"},
                 {0, 2, 2, 1, 1, 1, 0, true, "the hosts pass the micro-batches on"},
                 {0, 1, 1, 2, 1, 1, 0, true, "each rank has several stages"},
                 {0, 1, 1, 1, NETWORK_LOSSES_MAX, 1, 0, true, NULL},
                 {0, 1, 1, 1, 65, 1, 0, true, "train.accumulate has too many parts"},
                 {0, 1, 1, 1, 13, 5, 0, true, "a step has too many micro-batches"},
                 {0, 1, 1, 1, 32, 2, 0, true, NULL},
                 {0, 1, 1, 1, 1, 1, 0, false, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        t.round.steps = cases[i].rounds;
        t.world = cases[i].world;
        t.mesh.pipe = cases[i].pipe;
        t.chunks = cases[i].chunks;
        t.micros = cases[i].micros;
        options.accumulate = cases[i].accumulate;
        config.shards = cases[i].shards;
        config.device = cases[i].device ? &on_device : NULL;
        trainer_async_choose(&t);
        is_int(t.async.on, cases[i].why == NULL, "run %zu has its kind of steps", i);
        is_str(t.async.why, cases[i].why ? cases[i].why : "", "run %zu has its reason", i);
    }
    reset();
    trainer_async_choose(&t);
    struct step_run r = {.t = &t, .mode = RUN_EVAL};
    ok(!trainer_is_async(&r), "an evaluation is waited for");
    r.mode = RUN_TRAIN;
    ok(trainer_is_async(&r), "a step of training is not waited for");
    t.async.on = false;
    ok(!trainer_is_async(&r), "without the choice every step is waited for");
}

// ---- the beginning -----------------------------------------------------------------------------

static void test_scalars(void) {
    static const struct {
        int dtype, kind;
        int64_t step;
        double kept_scale, kept_good, scale, good, power1, power2;
    } cases[] = {{TRAIN_F32, TRAIN_SGD, 3, 1024, 7, 1, 0, 0, 0},
                 {TRAIN_F16, TRAIN_SGD, 3, 0, 7, 65536, 7, 0, 0},
                 {TRAIN_F16, TRAIN_SGD, 3, 1024, 7, 1024, 7, 0, 0},
                 {TRAIN_F32, TRAIN_ADAMW, 2, 0, 0, 1, 0, 0.25, 0.0625},
                 {TRAIN_F32, TRAIN_ADAM, 0, 0, 0, 1, 0, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        options.dtype = cases[i].dtype;
        t.at.loss_scale = cases[i].kept_scale;
        t.at.loss_scale_good = (int64_t)cases[i].kept_good;
        t.chunk[0].optimizer = (struct optimizer){
            .kind = (enum train_optimizer)cases[i].kind, .beta1 = 0.5, .beta2 = 0.25};
        t.chunk[0].optimizer.step = cases[i].step;
        trainer_async_choose(&t);
        is_int(trainer_async_open(&t, &e), 0, "scalars %zu are given to the device: %s", i, e.text);
        const struct kernel_step *s = &device.step;
        near(s->loss_scale, cases[i].scale, 0, "scalars %zu have the loss scale", i);
        near(s->good, cases[i].good, 0, "scalars %zu have the steps since it changed", i);
        near(s->updates, (double)cases[i].step, 0, "scalars %zu have the updates", i);
        near(s->power1, cases[i].power1, 1e-12, "scalars %zu have the first power", i);
        near(s->power2, cases[i].power2, 1e-12, "scalars %zu have the second power", i);
        ok((t.chunk[0].net.step != NULL) == (cases[i].dtype == TRAIN_F16),
           "losses are scaled in half precision alone, case %zu", i);
        trainer_async_close(&t);
        is_int(device.freed, 1, "the scalars' memory is given back, case %zu", i);
    }
}

static void test_graphs(void) {
    struct strbuf line = {0};
    reset();
    trainer_async_choose(&t);
    is_int(trainer_async_open(&t, &e), 0, "a device that captures is opened");
    ok(t.async.capture && device.replays == 1 && device.captures == 0,
       "a device is tried, and the trial is dropped");
    is_int(device.zeroed, NETWORK_TAIL, "the trial writes the totals alone");
    ok((char *)device.zeroed_at == grads + PARAMS * sizeof(float), "the trial writes no gradient");
    trainer_async_say(&t, &line);
    is_str(strbuf_cstr(&line), "; a step is one CUDA graph", "the user reads of the graph");
    trainer_async_close(&t);

    static const struct {
        int wanted, pipe;
        const char *no_graph, *why, *error;
    } cases[] = {
        {TRAIN_GRAPH_OFF, 1, NULL, "train.graph is off", NULL},
        {TRAIN_GRAPH_AUTO, 1, "too old", "the driver captures no graph: too old", NULL},
        {TRAIN_GRAPH_AUTO, 2, NULL, "stages of a pipeline pass micro-batches on", NULL},
        {TRAIN_GRAPH_ON, 1, "too old", "the driver captures no graph: too old",
         "train.graph is on, and the driver captures no graph: too old (try: train.graph auto)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        trainer_async_choose(&t);
        options.graph = cases[i].wanted;
        t.mesh.pipe = cases[i].pipe;
        device.no_graph = cases[i].no_graph;
        is_int(trainer_async_open(&t, &e), cases[i].error ? -1 : 0, "graph %zu has its verdict", i);
        ok(!t.async.capture, "graph %zu is not captured", i);
        if (cases[i].error)
            is_str(e.text, cases[i].error, "graph %zu has its error", i);
        strbuf_clear(&line);
        trainer_async_say(&t, &line);
        has_str(strbuf_cstr(&line), "; steps start kernel by kernel: ", "graph %zu is reported", i);
        has_str(strbuf_cstr(&line), cases[i].why, "graph %zu has its reason", i);
        trainer_async_close(&t);
    }
    reset();
    config.device = NULL;
    options.graph = TRAIN_GRAPH_ON;
    trainer_async_choose(&t);
    is_int(trainer_async_open(&t, &e), -1, "processors capture no graph");
    has_str(e.text, "train.graph is on, and this run computes on processors", "the error says so");
    reset();
    trainer_async_choose(&t);
    device.no_memory = true;
    is_int(trainer_async_open(&t, &e), -1, "a device without memory is refused");
    is_int(e.code, ERR_LIMIT, "memory that is missing is a limit error");
    reset();
    trainer_async_choose(&t);
    device.failure = "it is lost";
    is_int(trainer_async_open(&t, &e), -1, "a device that fails is refused");
    is_str(e.text, "it is lost", "the error is the device's");
    trainer_async_close(&t);
    strbuf_fini(&line);
}

// ---- steps -------------------------------------------------------------------------------------

static int step(int64_t consumed) {
    static struct step_item empty = {.op = STEP_FORWARD, .micro = 4}; // of no rows
    const struct step_program none = {.item = &empty, .items = 1};
    struct step_run r = {.t = &t, .mode = RUN_TRAIN, .rows = 20, .batch = 20, .consumed = consumed};
    struct step_done d = {.batch = 7};
    int result = trainer_async_step(&r, &none, &d, &e);
    is_int(d.images, 20 * t.shards, "a step at %d has its images", (int)consumed);
    return result;
}

static void opened(void) {
    reset();
    trainer_async_choose(&t);
    if (trainer_async_open(&t, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < 8; i++)
        device.results[i] =
            (struct kernel_step){.totals = {1.5 + i, 0.25, 0.5, 0, 0, 16}, .updates = 10 + i};
}

static void test_steps(void) {
    opened();
    options.dtype = TRAIN_F16;
    device.results[1].loss_scale = 512;
    device.results[1].good = 3;
    t.shards = 2;
    ok(step(20) == 0 && step(40) == 0, "two steps are enqueued");
    is_int(accounted, 0, "two steps are not waited for");
    ok(t.at.step == 2 && t.at.consumed == 40, "the position is that of the enqueued steps");
    is_uint(device.written, 4 * sizeof(double), "each step has its own scalars");
    near(device.step.lr, 0.5, 1e-12, "the device has the rate");
    near(device.step.clip, 0.25, 0, "the device has the largest norm");
    is_int(step(60), 0, "a third step is enqueued");
    is_int(accounted, 1, "the third step waits for the first");
    ok(accounted_step == 1 && fabs(accounted_loss - 1.5) < 1e-6, "the first step has its loss");
    near(t.grad_norm, 4, 1e-12, "the norm is the root of the squares");
    is_int(t.chunk[0].optimizer.step, 10, "the updates are those that the device has made");
    is_int(t.images, 40, "the images of all shards are counted");
    is_int(trainer_async_drain(&t, &e), 0, "the rest is waited for");
    is_int(accounted, 3, "all steps are accounted for");
    is_int(accounted_step, 3, "the last step is the last one accounted for");
    near(t.at.loss_scale, 0, 0, "the position has the loss scale of the last step");
    ok(device.slots[0] == 0 && device.slots[1] == 1 && device.slots[2] == 2,
       "each step that is under way has a slot of its own");
    is_int(trainer_async_drain(&t, &e), 0, "nothing more is waited for");
    is_int(device.reads_ended, 3, "each step is read once");
    trainer_async_close(&t);

    opened();
    t.mesh.pipe = 2;
    ok(step(20) == 0 && accounted == 1, "a step of a pipeline is waited for");
    trainer_async_close(&t);
}

static void test_requests(void) {
    sig_atomic_t stop = 0, save = 0;
    opened();
    config.stop = &stop;
    config.save = &save;
    device.results[0].totals[TAIL_SAVE] = 1;
    device.results[1].totals[TAIL_STOP] = 0.5;
    save = 1;
    step(20);
    ok(device.step.request[0] <= 0 && device.step.request[1] >= 1, "the device gets a request");
    stop = 1;
    step(40);
    ok(device.step.request[0] >= 1 && device.step.request[1] <= 0,
       "a request to save is given once, and one to stop");
    ok(!t.stop_seen && !t.save_seen, "requests count when their step is known");
    step(60);
    ok(!t.stop_seen && t.save_seen, "all ranks see a request to save");
    is_int(trainer_async_drain(&t, &e), 0, "the rest is known");
    ok(t.stop_seen, "all ranks see the request of one to stop");
    trainer_async_close(&t);
}

static void test_ends(void) {
    opened();
    device.results[0].totals[TAIL_LOSS] = (double)NAN;
    device.results[0].own_loss = (double)INFINITY;
    step(20);
    is_int(trainer_async_drain(&t, &e), -1, "a loss that is not finite ends the run");
    has_str(e.text, "the loss of rank 0 is no longer a finite number at step 1 ",
            "the error names the rank");
    trainer_async_close(&t);
    static const struct {
        int culprit;
        const char *text;
    } cases[] = {
        {0, "the norm of all gradients is"},       {1, "the gradient of 'first' on rank 0"},
        {3, "the gradient of 'first' on rank 0"},  {4, "the gradient of 'second' on rank 0"},
        {8, "the gradient of 'second' on rank 0"}, {9, "the norm of all gradients is"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened();
        device.results[1].halted = 1;
        device.results[1].culprit = cases[i].culprit;
        ok(step(20) == 0 && step(40) == 0, "two steps are enqueued before the end, case %zu", i);
        is_int(trainer_async_drain(&t, &e), -1, "gradient %d ends the run", cases[i].culprit);
        has_str(e.text, cases[i].text, "gradient %d is named", cases[i].culprit);
        has_str(e.text, "step 2", "the error of gradient %d has the step", cases[i].culprit);
        is_int(accounted, 1, "the step before gradient %d counts", cases[i].culprit);
        trainer_async_close(&t);
    }
    opened();
    step(20);
    device.failure = "it fell off the bus";
    is_int(trainer_async_drain(&t, &e), -1, "a device that fails ends the run");
    is_str(e.text, "it fell off the bus", "the end has the device's reason");
    trainer_async_close(&t);
}

// ---- operations of a step ----------------------------------------------------------------------

static void test_operations(void) {
    struct step_run r = {.t = &t, .mode = RUN_TRAIN, .rows = 20};
    opened();
    struct network *net = &t.chunk[0].net;
    net->unfetched_pending = 3;
    net->squares_pending = 5;
    t.mesh.data = 4;
    t.shards = 8;
    trainer_async_totals(&r);
    ok((char *)device.totals.tail == grads + PARAMS * sizeof(float),
       "the totals are behind the gradients");
    is_int(device.totals.nlosses, 3, "the totals have all losses");
    near(device.totals.scale, 1.0 / (20 * 8), 1e-12, "the totals are means over the rows");
    is_int(device.totals.ranks, 4, "the totals are means over the ranks");
    is_int(device.totals.nsquares, 0, "squares travel with totals of their own alone");
    is_int(trainer_async_judge(&r, &e), 0, "a step is judged");
    ok(device.judge.nsquares == 5 && device.judge.ngrads == PARAMS && !device.judge.scaling &&
           device.judge.tail == device.totals.tail,
       "a step is judged by its squares");
    t.async.joined = true;
    trainer_async_totals(&r);
    ok(!device.totals.tail && device.totals.nsquares == 5, "totals of their own have the squares");
    t.data_rank = 1;
    trainer_async_totals(&r);
    is_int(device.totals.nsquares, 0, "the squares of equal ranks are counted once");
    t.zero = true;
    trainer_async_totals(&r);
    is_int(device.totals.nsquares, 5, "each rank has squares of a part of its own");
    t.async.joined = false;

    struct comm_call call = {.kind = COMM_ALL_REDUCE, .count = 3};
    struct async_graph *g = &t.async.graph[0];
    t.async.ticket = 0;
    trainer_async_called(&t, &call, 41);
    trainer_async_called(&t, &call, 42);
    is_uint(trainer_async_ticket(&t), 41, "the first collective of a step is watched");
    is_uint(g->ncalls, 0, "outside of a capture calls are not kept");
    t.async.capturing = g;
    trainer_async_called(&t, &call, 43);
    call.count = 4;
    trainer_async_called(&t, &call, 44);
    ok(g->ncalls == 2 && g->calls[0].count == 3 && g->calls[1].count == 4,
       "a capture keeps its calls in order");
    t.async.graphs = 1;
    t.async.enqueued = 4;
    t.async.settled = 3;
    t.async.pending[3 % (ASYNC_STEPS + 1)].ticket = 17;
    is_uint(trainer_async_ticket(&t), 17, "the step that is waited for is watched");
    trainer_async_forget(&t);
    ok(t.async.graphs == 0 && !g->calls, "captured steps are dropped");
    trainer_async_close(&t);
}

// ---- rules of a step ---------------------------------------------------------------------------

static void test_lookahead(void) {
    static const struct {
        double lookahead;
        int64_t step, epoch, from, consumed;
        bool last;
        double keep;
    } cases[] = {{0, 4, 3, 0, 50, false, -1},
                 {0.9, 3, 3, 0, 50, false, -1},
                 {0.9, 4, 3, 4, 50, false, 0},
                 {0.9, 5, 3, 4, 50, false, -1},
                 {0.5, 4, 5, 0, 0, false, 0.03125 * 0.25},
                 {0.5, 9, 4, 4, 100, false, 0.03125 * 0.25},
                 {0.5, 5, 9, 0, 100, true, 1},
                 {0.5, 5, 8, 0, 100, true, -1},
                 {0.5, 9, 9, 0, 100, true, 0.03125},
                 {0, 5, 9, 0, 100, true, -1},
                 {0.5, 5, 9, 10, 100, true, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        options.lookahead = cases[i].lookahead;
        options.lookahead_power = 2;
        options.lookahead_epochs = cases[i].from;
        t.at.step = cases[i].step;
        t.at.epoch = cases[i].epoch;
        struct step_run r = {.t = &t, .consumed = cases[i].consumed, .last = cases[i].last};
        near(trainer_lookahead(&r), cases[i].keep, 1e-12, "slow weights keep their share, case %zu",
             i);
    }
}

static void test_rules(void) {
    reset();
    struct step_run r = {.t = &t, .rows = 8};
    near(trainer_loss_scale(&r), 1.0 / 8, 1e-12, "a loss is the mean over the rows");
    is_int(trainer_local_shards(&t), 1, "a rank has one shard");
    t.shards = 3;
    is_int(trainer_local_shards(&t), 3, "a rank that does the work of three has three shards");
    near(trainer_loss_scale(&r), 1.0 / 24, 1e-12, "a loss is the mean over the rows of all shards");
    t.at.epoch = 4;
    near(trainer_progress(&t, 25), 4.25, 1e-12, "progress is counted in epochs");
    t.wait.lost = (struct err){.code = ERR_NET, .text = "rank 2 is lost"};
    t.at.step = 6;
    is_int(trainer_device_check(&t, &e), -1, "a wait that was given up ends the run");
    is_str(e.text, "at step 6: rank 2 is lost", "the error has the step and the reason");
}

int main(void) {
    struct comm_config one = {.world = 1, .cpu = -1};
    if (comm_open(&t.comm, NULL, &one, &e) < 0)
        bail_out("%s", e.text);
    test_choice();
    test_scalars();
    test_graphs();
    test_steps();
    test_requests();
    test_ends();
    test_operations();
    test_lookahead();
    test_rules();
    comm_close(t.comm);
    return done_testing();
}
