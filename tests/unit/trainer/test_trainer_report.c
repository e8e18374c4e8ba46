// SPDX-License-Identifier: Apache-2.0
// Reports of rank 0: the lines for people, metrics.jsonl and summary.json, and what becomes of
// metrics that cannot be written.
#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

static struct err e;
static struct arena arena;
static char dir[] = "/tmp/test_trainer_report.XXXXXX";
static struct strbuf lines, logged;
static struct train_config options;
static struct trainer_config config;
static struct trainer t;

static void say(void *ctx, const char *line) {
    (void)ctx;
    strbuf_addf(&lines, "%s\n", line);
}

static void sink(const char *line, size_t len) {
    strbuf_add(&logged, line, len);
}

static const char *path_of(const char *name) {
    return file_join(&arena, dir, name);
}

static const char *text_of(const char *name) {
    char *text;
    size_t len;
    if (file_read(&arena, path_of(name), 1 << 20, &text, &len, &e) < 0)
        bail_out("%s", e.text);
    return text;
}

static void configure(void) {
    static const char *const settings[] = {
        "train.dataset=shapes", "train.train_size=64", "train.test_size=20",
        "train.threads=1",      "train.model=mlp",     "train.hidden=8",
        "train.batch=16",       "train.eval_batch=10", "train.kernels=reference",
        "train.print_every=5",  "train.epochs=3"};
    const char *argv[64];
    struct train_flags flags;
    struct option_set set;
    int argc = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        argv[argc++] = "--set";
        argv[argc++] = settings[i];
    }
    if (train_config_load(&options, &flags, &set, &arena, argc, argv, NULL, &e) < 0)
        bail_out("%s", e.text);
    config = (struct trainer_config){.options = &options,
                                     .comm = {.world = 1, .local_world = 1, .nodes = 1, .cpu = -1},
                                     .output_dir = dir,
                                     .model_dir = dir,
                                     .state_dir = path_of("state"),
                                     .started_ms = clock_mono_ms(),
                                     .node_name = "here",
                                     .run = "run-1",
                                     .say = say};
}

static void opened(void) {
    configure();
    if (trainer_open(&t, &config, &e) < 0)
        bail_out("%s", e.text);
}

// ---- the first lines ---------------------------------------------------------------------------

static void test_hello(void) {
    opened();
    const char *text = strbuf_cstr(&lines);
    has_str(text, "model mlp(hidden=8), 24674 parameters, 10 classes, ", "the model has its size");
    has_str(text, " planned once\n", "the model has its memory");
    has_str(text, "data shapes, 64 training and 20 test images of 32x32\n",
            "the data has its size");
    has_str(text, "1 rank of 1 thread", "the rank has its threads");
    has_str(text, ", collectives self, batch 16 on each rank\n", "the rank has its batch");
    ok(!strstr(text, "pipeline") && !strstr(text, "rounds") && !strstr(text, "share of its own"),
       "a rank by itself has no more to say");
    is_str(text_of("metrics.jsonl"), "", "the file of metrics is there");
}

// The same with other settings, which change nothing but the lines.
static void test_more_lines(void) {
    struct trainer was = t;
    strbuf_clear(&lines);
    t.shares[DATASET_TRAIN] =
        (struct data_shares){.on = true, .images = 100, .least = 40, .most = 60, .each = 30};
    t.round.steps = 4;
    options.outer_lr = 0.5;
    options.outer_momentum = 0.25;
    t.cores.pinned = false;
    t.cores.quota = t.cores.busy = false;
    t.cores.threads = 2;
    t.cores.most = 2;
    t.world = 3;
    t.zero = true;
    trainer_report_open(&t);
    const char *text = strbuf_cstr(&lines);
    has_str(text, "data shapes, 100 training and 20 test images of 32x32\n",
            "the data of all nodes is counted");
    has_str(text,
            "every node has a share of its own: 40 to 60 training images, of which each rank takes "
            "30 in an epoch\n",
            "shares have their sizes");
    has_str(text, "3 ranks of 2 threads, not pinned, kernels reference ", "ranks are counted");
    has_str(text, ", sharded update, batch 16 on each rank\n", "a sharded update is named");
    has_str(text, "rounds of 4 local steps, outer learning rate 0.5 and momentum 0.25; a round",
            "rounds have their settings");
    is_uint(logged.len, 0, "as many threads as processors need no warning");
    strbuf_clear(&lines);
    t.cores.quota = true;
    t.cores.threads = 3;
    trainer_report_open(&t);
    has_str(strbuf_cstr(&lines), "3 threads, as many as the quota of this group allows, not pinned",
            "a quota is named");
    has_str(strbuf_cstr(&logged), "more threads than CPUs", "too many threads have a warning");
    strbuf_clear(&lines);
    strbuf_clear(&logged);
    t.cores.quota = false;
    t.cores.busy = true;
    trainer_report_open(&t);
    has_str(strbuf_cstr(&lines), ", not pinned: others use this machine", "other users are named");
    t = was;
    strbuf_clear(&lines);
    t.rank = 1;
    trainer_say(&t, "nothing");
    is_uint(lines.len, 0, "other ranks say nothing");
    t = was;
    strbuf_clear(&logged);
}

// A batch norm behind one pixel is warned of where a batch has one image.
static void test_single(void) {
    static const struct {
        int64_t images, batch, each;
        bool drop, warned;
    } cases[] = {{33, 16, 0, false, true},  {33, 16, 0, true, true}, {32, 16, 0, false, false},
                 {34, 16, 0, false, false}, {17, 1, 0, false, true}, {64, 16, 49, false, true},
                 {64, 16, 48, false, false}};
    struct trainer was = t;
    struct nn_model one = *t.model;
    struct nn_layer layers[3] = {t.model->layer[0],
                                 {.op = &nn_op_batchnorm, .h = 1, .w = 1},
                                 t.model->layer[t.model->layers - 1]};
    memcpy(layers[1].name, "bn9", 4);
    one.layer = layers;
    one.layers = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strbuf_clear(&logged);
        t.model = &one;
        t.shares[DATASET_TRAIN].images = cases[i].images;
        t.shares[DATASET_TRAIN].each = (uint64_t)cases[i].each;
        options.batch = cases[i].batch;
        options.drop_last = cases[i].drop;
        trainer_report_open(&t);
        is_int(strstr(strbuf_cstr(&logged), "batch norm cannot normalise one value") != NULL,
               cases[i].warned, "%d images in batches of %d have their warning",
               (int)cases[i].images, (int)cases[i].batch);
        if (cases[i].warned)
            has_str(strbuf_cstr(&logged), "layer=bn9 images=", "warning %zu names the layer", i);
    }
    layers[1].h = 2;
    strbuf_clear(&logged);
    options.batch = 1;
    trainer_report_open(&t);
    is_uint(logged.len, 0, "two pixels have a variance");
    options.batch = 16;
    options.drop_last = false;
    t = was;
    strbuf_clear(&lines);
}

// ---- steps -------------------------------------------------------------------------------------

static void account(int64_t batch, int64_t batches) {
    const struct step_done d = {.step = 100 + batch,
                                .batch = batch,
                                .batches = batches,
                                .images = 16,
                                .lr = 0.125,
                                .grad_norm = 2.5,
                                .times = {1000000, 2000000, 3000000, 8000000}};
    const float tail[NETWORK_TAIL] = {[TAIL_LOSS] = 0.5f, [TAIL_TOP1] = 0.25f, [TAIL_TOP5] = 0.75f};
    trainer_account(&t, &d, tail);
}

static void test_steps(void) {
    if (truncate(path_of("metrics.jsonl"), 0) < 0)
        bail_out("truncate");
    t.at.epoch = 1;
    t.meters = (struct meter_set){0};
    for (int64_t batch = 1; batch <= 12; batch++)
        account(batch, 12);
    const char *text = text_of("metrics.jsonl");
    int count = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        count++;
    is_int(count, 4, "the first step, each fifth and the last one have metrics");
    const char *second = strchr(text, '\n') + 1;
    struct json *j;
    if (json_parse(&arena, second, strcspn(second, "\n"), &j, &e) < 0)
        bail_out("%s", e.text);
    is_int(json_get_int(j, "step", 0), 105, "metrics have their step");
    is_int(json_get_int(j, "epoch", 0), 1, "metrics have their epoch");
    is_int(json_get_int(j, "batch", 0), 5, "metrics have their batch");
    is_int(json_get_int(j, "batches", 0), 12, "metrics have all batches");
    is_int(json_get_int(j, "epochs", 0), 3, "metrics have all epochs");
    has_str(second, "\"loss\":0.5,\"lr\":0.125,\"grad_norm\":2.5,\"images_per_s\":2000,",
            "metrics are means since the line before");
    has_str(second, "\"data_ms\":1,\"compute_ms\":2,\"comm_exposed_ms\":3,\"acc1\":25,\"acc5\":75",
            "metrics have times and accuracies");
    has_str(strbuf_cstr(&lines), "Epoch: [1][ 1/12]\t", "the first step has a line");
    has_str(strbuf_cstr(&lines), "Epoch: [1][ 5/12]\t", "the fifth step has a line");
    has_str(strbuf_cstr(&lines), "Epoch: [1][12/12]\t", "the last step has a line");
    ok(!strstr(strbuf_cstr(&lines), "[ 2/12]") && !strstr(strbuf_cstr(&lines), "[11/12]"),
       "other steps have none");
    ok(t.interval_steps == 0 && t.interval_images == 0 && fabs(t.interval_loss) <= 0,
       "an interval begins behind a line");
    near(t.at.epoch_seconds, 12 * 0.008, 1e-9, "the epoch has its time");
    near(t.at.epoch_loss_sum, 12 * 16 * 0.5, 1e-6, "the epoch has its loss");
    near(t.at.epoch_top1_sum, 12 * 16 * 25, 1e-6, "the epoch has its accuracy");
    near(t.at.epoch_images, 12 * 16, 0, "the epoch has its images");
    ok(t.phase_ns[PHASE_DATA] == 12000000 && t.phase_ns[PHASE_TRAIN] == 12 * 7000000,
       "the wait for data is no training");
    options.print_every = 0;
    account(10, 12);
    is_int(t.interval_steps, 1, "without a period the first and the last step have metrics");
}

static void test_eval(void) {
    if (truncate(path_of("metrics.jsonl"), 0) < 0)
        bail_out("truncate");
    strbuf_clear(&lines);
    t.last_eval = (struct meter_eval){
        .step = 9, .epoch = 2, .loss = 1.5, .top1 = 12.5, .top5 = 60, .images = 20, .time_ms = 7};
    trainer_report_eval(&t);
    is_str(strbuf_cstr(&lines), " * Acc@1 12.500 Acc@5 60.000\n", "an evaluation has a line");
    has_str(text_of("metrics.jsonl"),
            "{\"event\":\"eval\",\"step\":9,\"epoch\":2,\"loss\":1.5,\"acc1\":12.5,\"acc5\":60,"
            "\"images\":20,\"time_ms\":7}\n",
            "an evaluation has metrics");
    t.rank = 1;
    strbuf_clear(&lines);
    trainer_report_eval(&t);
    is_uint(lines.len, 0, "other ranks report no evaluation");
    t.rank = 0;
}

// ---- the summary -------------------------------------------------------------------------------

static const struct json *summary(void) {
    struct json *j;
    const char *text = text_of("summary.json");
    if (json_parse(&arena, text, strlen(text), &j, &e) < 0)
        bail_out("%s", e.text);
    return j;
}

static void test_summary(void) {
    struct trainer_result r = {.steps = 40,
                               .final_loss = 0.25,
                               .final_top1 = 90,
                               .final_top5 = 99,
                               .best_top1 = 0,
                               .images_per_s = 123};
    t.at.epochs_done = 2;
    t.epochs[0] = (struct epoch_record){
        .train_loss = 2, .train_top1 = 30, .test_loss = -1, .seconds = 0, .images = 64};
    t.epochs[1] = (struct epoch_record){.train_loss = 1,
                                        .train_top1 = 50,
                                        .test_loss = 0,
                                        .test_top1 = 45,
                                        .test_top5 = 80,
                                        .seconds = 4,
                                        .images = 64};
    t.phase_ns[PHASE_EVAL] = 5500000;
    trainer_report_summary(&t, &r);
    const char *text = text_of("summary.json");
    const struct json *j = summary();
    is_str(json_get_str(j, "run", ""), "run-1", "the summary has the run");
    is_str(json_get_str(j, "state", ""), "finished", "the summary has the end");
    ok(json_get_int(j, "steps", 0) == 40 && json_get_int(j, "epochs_done", 0) == 2,
       "the summary has steps and epochs");
    ok(json_get_int(j, "train_images", 0) == 64 && json_get_int(j, "test_images", 0) == 20 &&
           json_get_int(j, "parameters", 0) == 24674 && json_get_int(j, "world_size", 0) == 1,
       "the summary has the sizes");
    has_str(text, "\"final_loss\":0.25,\"final_acc1\":90,\"final_acc5\":99,\"best_acc1\":0,",
            "the summary has the results");
    has_str(text, "\"eval\":5.5,", "the summary has the phases in milliseconds");
    has_str(text,
            "{\"epoch\":0,\"train_loss\":2,\"train_acc1\":30,\"images\":64,\"seconds\":0,"
            "\"images_per_s\":0},",
            "an epoch without an evaluation has none");
    has_str(text,
            "{\"epoch\":1,\"train_loss\":1,\"train_acc1\":50,\"test_loss\":0,\"test_acc1\":45,"
            "\"test_acc5\":80,\"images\":64,\"seconds\":4,\"images_per_s\":16}",
            "an epoch has its evaluation and its speed");
    ok(!json_get(j, "zero") && !json_get(j, "local_steps") && !json_get(j, "pipeline") &&
           !json_get(j, "bad_train_samples") && !json_get(j, "metrics_lost"),
       "the summary has nothing that was not used");
    r.best_top1 = -1;
    r.stopped = true;
    t.zero = true;
    t.round.steps = 1;
    t.bad_train = 3;
    options.on_bad_sample = TRAIN_BAD_SKIP;
    trainer_report_summary(&t, &r);
    j = summary();
    is_str(json_get_str(j, "state", ""), "stopped", "a run may be stopped");
    ok(!json_get(j, "best_acc1"), "without an evaluation there is no best one");
    ok(json_get(j, "zero") && json_get_int(j, "local_steps", 0) == 1 &&
           json_get_int(j, "bad_train_samples", -1) == 3 &&
           json_get_int(j, "bad_test_samples", -1) == 0,
       "the summary has ZeRO, the local steps and the bad samples");
    t.zero = false;
    t.round.steps = 0;
}

// The folder of the metrics cannot be written to any more.
static void test_lost(void) {
    strbuf_clear(&logged);
    close(t.metrics_fd);
    t.metrics_fd = -1;
    config.output_dir = path_of("absent/folder");
    trainer_report_eval(&t);
    trainer_report_eval(&t);
    is_int(t.reports_lost, 2, "lines that are lost are counted");
    has_str(strbuf_cstr(&logged), "metrics cannot be written; training goes on without them",
            "the first loss has a warning");
    has_str(strbuf_cstr(&logged), "node=here path=", "the warning has node and path");
    char *first = strstr(strbuf_cstr(&logged), "metrics cannot be written");
    ok(first && !strstr(first + 1, "metrics cannot be written"), "later losses have none");
    const struct trainer_result r = {.steps = 1};
    trainer_report_summary(&t, &r);
    has_str(strbuf_cstr(&logged), "the summary cannot be written", "a lost summary has a warning");
    has_str(strbuf_cstr(&logged), "metrics were lost lines=3", "the last warning has their number");
    config.output_dir = dir;
    trainer_report_summary(&t, &r);
    is_int(json_get_int(summary(), "metrics_lost", 0), 3, "the summary has their number");
}

// ---- whole runs --------------------------------------------------------------------------------

static volatile sig_atomic_t stop;

static void on_step(void *ctx, int64_t step, double loss) {
    (void)loss;
    stop = step == *(int64_t *)ctx;
}

static const char *last_line(void) {
    static char line[600];
    const char *text = strbuf_cstr(&lines), *p = text + lines.len;
    for (p -= lines.len > 0; p > text && p[-1] != '\n'; p--)
        ;
    snprintf(line, sizeof line, "%s", p);
    return line;
}

// 12 steps of 3 epochs. Accuracies are shares of what there is.
static void test_run(void) {
    struct trainer_result r;
    const char *line;
    int64_t last = -1;
    configure();
    config.output_dir = config.model_dir = path_of("run");
    config.state_dir = path_of("run/state");
    config.on_step = on_step;
    config.on_step_ctx = &last;
    config.stop = &stop;
    strbuf_clear(&lines);
    is_int(trainer_run(&config, &r, &e), 0, "a run ends: %s", e.text);
    line = last_line();
    ok(strncmp(line, "done: 3 epochs, 12 steps, ", 26) == 0, "the last line has the end: %s", line);
    has_str(line, " s waited for data, model in ", "the last line has the model");
    ok(!r.stopped && r.steps == 12 && r.epochs == 3 && r.final_top1 <= r.final_top5 &&
           r.final_top5 <= 100 && r.best_top1 >= r.final_top1 && r.images_per_s > 0,
       "the result has the numbers");
    int wrong = 0, count = 0;
    for (const char *p = text_of("run/metrics.jsonl"); *p; p += strcspn(p, "\n") + 1, count++) {
        struct json *j;
        double top1, top5;
        if (json_parse(&arena, p, strcspn(p, "\n"), &j, &e) < 0)
            bail_out("%s", e.text);
        top1 = json_get(j, "acc1")->number, top5 = json_get(j, "acc5")->number;
        wrong += !(top1 >= 0 && top1 <= top5 && top5 > 0 && top5 <= 100);
    }
    ok(wrong == 0 && count == 9, "accuracies are percents, of steps and of evaluations");
    last = 3;
    config.output_dir = config.model_dir = path_of("stop");
    config.state_dir = path_of("stop/state");
    strbuf_clear(&lines);
    is_int(trainer_run(&config, &r, &e), 0, "a run that is stopped ends: %s", e.text);
    has_str(last_line(), "stopped by a signal: checkpoint of epoch 0, step 4 is in ",
            "the last line has the checkpoint");
    ok(r.stopped && r.steps == 4, "the result says so");
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    log_open("test", LOG_WARN, LOG_PLAIN);
    log_sink(sink);
    test_hello();
    test_more_lines();
    test_single();
    test_steps();
    test_eval();
    test_summary();
    test_lost();
    trainer_close(&t);
    test_run();
    strbuf_fini(&lines);
    strbuf_fini(&logged);
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
