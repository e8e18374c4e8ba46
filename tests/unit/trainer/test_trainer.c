// SPDX-License-Identifier: Apache-2.0
// One rank of the trainer from its options to its files: a run that diverges fails, whatever shows
// it, and leaves no diverged checkpoint and no model; nothing is written twice; a data set that was
// named is used or missed.
#include "base/cpu_list.h"
#include "base/log.h"
#include "nn/checkpoint.h"
#include "nn/safetensors.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "trainer/trainer.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_trainer.XXXXXX";
static struct trainer_result result;
static struct err why;
static double losses[64];
static volatile sig_atomic_t stop_wanted;
static int64_t stop_after;
static const char *weights; // trainer_config.weights

static void on_step(void *ctx, int64_t step, double loss) {
    (void)ctx;
    if (step < (int64_t)(sizeof losses / sizeof *losses))
        losses[step] = loss;
    stop_wanted = stop_after > 0 && step >= stop_after;
}

static char *folder(struct arena *a, const char *name, const char *file) {
    return file_join(a, file_join(a, dir, name), file);
}

// Trains with the settings, NULL-terminated, below dir/name; the status of trainer_run.
static int train(const char *name, const char *data, const char *const *settings) {
    static const char *const common[] = {
        "train.model=mlp", "train.hidden=16",     "train.optimizer=sgd", "train.train_size=64",
        "train.batch=16",  "train.test_size=32",  "train.threads=1",     "train.epochs=1",
        "train.lr=0.05",   "train.eval_batch=32", "train.momentum=0",    "train.bucket_bytes=4096"};
    struct arena a = {0};
    struct train_config options;
    struct train_flags flags;
    struct option_set set;
    const char *argv[64];
    int argc = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        argv[argc++] = "--set";
        argv[argc++] = common[i];
    }
    for (int i = 0; settings[i]; i++) {
        argv[argc++] = "--set";
        argv[argc++] = settings[i];
    }
    memset(losses, 0, sizeof losses);
    stop_wanted = 0;
    int r = train_config_load(&options, &flags, &set, &a, argc, argv, NULL, &why);
    struct trainer_config c = {
        .options = &options,
        .comm = {.rank = 0, .world = 1, .local_rank = 0, .local_world = 1, .node = 0, .nodes = 1},
        .data = data,
        .weights = weights,
        .output_dir = file_join(&a, dir, name),
        .model_dir = file_join(&a, dir, name),
        .state_dir = folder(&a, name, "state"),
        .stop = &stop_wanted,
        .on_step = on_step};
    if (r == 0)
        r = trainer_run(&c, &result, &why);
    arena_fini(&a);
    return r;
}

static int64_t newest(const char *name) {
    struct arena a = {0};
    int64_t step = -1;
    if (checkpoint_list(folder(&a, name, "state"), &step, 1, NULL) == 0)
        step = -1;
    arena_fini(&a);
    return step;
}

static bool has(const char *name, const char *file) {
    struct arena a = {0};
    bool there = file_exists(folder(&a, name, file));
    arena_fini(&a);
    return there;
}

// ---- divergence ----

static void test_last_step(void) {
    static const char *const resnet[] = {"train.model=resnet18(width=16)", "train.lr=1000",
                                         "train.train_size=16", "train.batch=8", NULL};
    static const char *const blind[] = {"train.model=resnet18(width=16)",
                                        "train.lr=1000",
                                        "train.train_size=16",
                                        "train.batch=8",
                                        "train.eval=false",
                                        NULL};
    is_int(train("eval", NULL, resnet), -1, "the last step ruins the weights: the run fails");
    has_str(why.text, "the evaluation loss is no longer a finite number at step 2",
            "the error says that the evaluation loss is not finite");
    is_int(newest("eval"), -1, "ruined weights give no checkpoint");
    ok(!has("eval", "model.safetensors") && !has("eval", "summary.json"),
       "an evaluation writes no model and no summary");
    is_int(train("blind", NULL, blind), -1,
           "without an evaluation, ruined weights fail the run, too");
    has_str(why.text, "the loss behind the last step is no longer",
            "the error says that the loss after the last step is not finite");
    is_int(newest("blind"), -1, "without an evaluation, ruined weights give no checkpoint");
    ok(!has("blind", "model.safetensors"), "without an evaluation, ruined weights give no model");
}

static void test_newest(void) {
    static const char *const wild[] = {"train.hidden=64,64,64",
                                       "train.lr=1000",
                                       "train.momentum=0.9",
                                       "train.train_size=256",
                                       "train.checkpoint_every_steps=1",
                                       NULL};
    static const char *const tame[] = {"train.hidden=64,64,64", "train.lr=0", "train.momentum=0.9",
                                       "train.train_size=256", NULL};
    is_int(train("wild", NULL, wild), -1, "a run that diverges in its middle fails");
    int64_t at = newest("wild");
    ok(at >= 1 && losses[at + 1] > 0 && isfinite(losses[at + 1]),
       "the newest checkpoint, of step %d, gave one more finite loss", (int)at);
    is_int(train("wild", NULL, wild), -1, "the resumed run fails again");
    ok(losses[at + 1] > 0, "the first step of the resumed run is sound");
    is_int(newest("wild"), at, "the resumed run leaves the newest checkpoint as it was");
    is_int(train("wild", NULL, tame), 0,
           "the run continues from that checkpoint with another learning rate");
}

// Weights of which the loss is finite and the gradient is not: each class but one weighs -3e38 what
// is 1e-37 everywhere, and two of them are too much for a float on the way back.
static void test_gradient(void) {
    static struct nn_model model;
    struct nn_model_spec spec = {
        .name = "mlp", .hidden = {1}, .nhidden = 1, .h = 32, .w = 32, .c = 3, .classes = 10};
    struct arena a = {0};
    struct network net;
    struct checkpoint_image image;
    struct optimizer o = {.kind = TRAIN_SGD};
    struct train_position at = {0};
    struct epoch_record none = {0};
    struct network_config c = {.model = &model, .backend = &kernels_reference, .batch = 1};
    if (model_build(&model, &spec, &why) < 0 || network_open(&net, &c, &why) < 0)
        bail_out("%s", why.text);
    const float tiny = 1e-37f;
    for (int i = 0; i < model.params; i++) {
        const struct nn_param *p = &model.param[i];
        if (strcmp(p->name, "fc1.bias") == 0)
            network_set(&net, net.params, p->begin, 1, &tiny);
        for (int k = 0; strcmp(p->name, "fc2.weight") == 0 && k < 10; k++)
            network_set(&net, net.params, p->begin + (size_t)k, 1, &(float){k ? -3e38f : 3e38f});
    }
    checkpoint_image_init(&image, &model, 0);
    checkpoint_image_take(&image, &net);
    checkpoint_image_note(&image, &o, &at, &none);
    char *path = file_join(&a, dir, "steep.safetensors");
    is_int(checkpoint_write_model(&image, path, &why), 0, "weights with a steep loss are written");
    const char *const steep[] = {arena_printf(&a, "train.resume=%s", path), "train.hidden=1",
                                 "train.checkpoint_every_steps=1", "train.lr=0", NULL};
    is_int(train("steep", NULL, steep), -1, "a gradient overflows: the run fails");
    has_str(why.text,
            "the gradient of 'fc1.bias' on rank 0 is no longer a finite number at step 1 ",
            "the error names the tensor, the rank and the step");
    is_int(newest("steep"), -1, "an overflowed gradient is not applied");
    image.params[model.param[0].begin] = (float)NAN;
    is_int(checkpoint_write_model(&image, path, &why), 0,
           "weights that are no numbers are written");
    is_int(train("steep", NULL, steep), -1, "a run does not train on weights that are no numbers");
    has_str(why.text, "holds nan", "the error names the tensor that holds nan");
    checkpoint_image_fini(&image);
    network_close(&net);
    arena_fini(&a);
}

// ---- checkpoints ----

static ino_t folder_inode(const char *name, int64_t step) {
    struct arena a = {0};
    char path[FILE_PATH_BYTES_MAX];
    struct stat st = {0};
    checkpoint_path(folder(&a, name, "state"), step, path, sizeof path);
    if (stat(path, &st) < 0)
        diag("%s is not there", path);
    arena_fini(&a);
    return st.st_ino;
}

// Leaves a checkpoint as a writer does that is killed before its last rename.
static void unname(const char *name, int64_t step) {
    struct arena a = {0};
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(folder(&a, name, "state"), step, path, sizeof path);
    must(rename(path, file_join(&a, folder(&a, name, "state"), ".checkpoint.new")) == 0);
    arena_fini(&a);
}

static void test_once(void) {
    static const char *const end[] = {"train.checkpoint_every_steps=4", "train.keep_last=1", NULL};
    static const char *const blind[] = {"train.eval=false", NULL};
    is_int(train("once", NULL, end), 0, "the last step is one with a checkpoint");
    is_int(newest("once"), 4, "the checkpoint of the last step exists");
    ino_t before = folder_inode("once", 4);
    is_int(train("once", NULL, end), 0, "started again, there is nothing to do");
    ok(before == folder_inode("once", 4), "a finished run does not write its checkpoint again");
    ok(has("once", "model.safetensors"), "a finished run writes a missing model again");
    stop_after = 2;
    is_int(train("stop", NULL, blind), 0, "a run is stopped");
    ok(result.stopped && newest("stop") == result.steps,
       "a stopped run has a checkpoint of its last step");
    stop_after = 0;
    before = folder_inode("stop", 3);
    is_int(train("stop", NULL, blind), 0, "a stopped run is resumed");
    is_int(newest("stop"), 4, "a resumed run trains to the end");
    ok(before == folder_inode("stop", 3), "a resumed run does not rewrite its first checkpoint");
    before = folder_inode("once", 4);
    unname("once", 4);
    is_int(newest("once"), -1, "the newest checkpoint has no name yet, as after a kill");
    is_int(train("once", NULL, end), 0, "a run whose writer was killed at the end is started");
    is_int(newest("once"), 4, "the finished checkpoint gets its name");
    ok(before == folder_inode("once", 4), "the killed run has written that checkpoint");
    ok(losses[1] == 0, "no step is made again"); // on_step notes the loss of each step
}

// torchvision's files count the batches of each batch norm.
static void test_tracked(void) {
    static const char *const resnet[] = {"train.model=resnet18(width=16)", "train.train_size=16",
                                         "train.batch=8", "train.eval=false", NULL};
    struct arena a = {0};
    struct safetensors_file f;
    int64_t tracked = -1;
    is_int(train("tracked", NULL, resnet), 0, "a run of two batches succeeds");
    if (is_int(safetensors_open(&f, &a, folder(&a, "tracked", "model.safetensors"), &why), 0,
               "the model is there")) {
        const struct safetensors_tensor *t = safetensors_find(&f.header, "bn1.num_batches_tracked");
        ok(t && safetensors_read(&f, t, &tracked, sizeof tracked, &why) == 0, "the count is read");
        is_int(tracked, 2, "the run began to count at 0");
        safetensors_close(&f);
    }
    arena_fini(&a);
}

// ---- weights to begin with ----

static void test_weights(void) {
    static const char *const first[] = {"train.eval=false", NULL};
    static const char *const still[] = {"train.lr=0", "train.epochs=2", NULL};
    static const char *const other[] = {"train.lr=0", "train.classes=12", NULL};
    static const char *const headless[] = {"train.lr=0", "train.classes=12", "train.new_head=true",
                                           NULL};
    struct arena a = {0};
    double start, end;
    is_int(train("donor", NULL, first), 0, "a first run succeeds");
    start = losses[1];
    weights = folder(&a, "donor", "model.safetensors");
    is_int(train("heir", NULL, still), 0, "another run begins with the weights of the first");
    end = losses[1];
    ok(end < start - 0.05, "with weights the first loss is %g, not %g", end, start);
    is_int(result.steps, 8, "a run that begins with weights begins at step 0");
    weights = folder(&a, "donor", "nothing");
    is_int(train("heir", NULL, still), 0, "a run with a checkpoint of its own resumes from it");
    is_int(train("orphan", NULL, still), -1, "weights that are not there are missed");
    ok(why.code == ERR_NOT_FOUND && strstr(why.text, "nothing"),
       "the error names the missing weights: %s", why.text);
    weights = folder(&a, "donor", "model.safetensors");
    is_int(train("wide", NULL, other), -1, "weights for other classes are refused");
    has_str(why.text, "train.new_head", "the error names the option train.new_head");
    is_int(train("wide", NULL, headless), 0,
           "weights for other classes are used without their last layer");
    weights = NULL;
    arena_fini(&a);
}

// ---- data ----

static void test_named_data(void) {
    static const char *const kinds[] = {"cifar10", "imagefolder", "packed"};
    for (int i = 0; i < 3; i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "train.dataset=%s", kinds[i]);
        const char *const named[] = {setting, NULL};
        is_int(train("named", NULL, named), -1, "%s without data is an error", kinds[i]);
        ok(why.code == ERR_CONFIG && strstr(why.text, "train.data"),
           "the error names the option train.data: %s", why.text);
    }
    static const char *const plain[] = {NULL};
    is_int(train("named", "/nonexistent/data", plain), -1, "a missing data folder is an error");
    has_str(why.text, "/nonexistent/data", "the error has the path of the data folder");
    is_int(train("named", NULL, plain), 0, "without a named data set, 'shapes' is used");
}

// ---- settings that cannot be meant ----

static void test_settings(void) {
    static const struct {
        const char *setting[3], *want;
    } cases[] = {
        {{"train.nesterov=true"}, "train.nesterov needs train.momentum above 0"},
        {{"train.optimizer=adam", "train.beta1=1"}, "train.beta1"},
        {{"train.optimizer=adam", "train.beta2=1"}, "train.beta2"},
        {{"train.schedule=cosine", "train.min_lr=1000"}, "train.min_lr"},
        {{"train.schedule=cosine", "train.warmup_epochs=1000000"}, "train.warmup_epochs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        is_int(train("settings", NULL, cases[i].setting), -1, "%s is refused",
               cases[i].setting[1] ? cases[i].setting[1] : cases[i].setting[0]);
        has_str(why.text, cases[i].want, "the error names the setting");
    }
}

// ---- warnings ----

static struct strbuf logged;

static void keep_log(const char *line, size_t len) {
    strbuf_add(&logged, line, len);
}

static const char *warnings_of(const char *name, const char *const *settings) {
    strbuf_clear(&logged);
    log_sink(keep_log);
    is_int(train(name, NULL, settings), 0, "a run with warnings or without ends well");
    log_sink(NULL);
    return strbuf_cstr(&logged);
}

static void test_threads(void) {
    static const char *const many[] = {"train.threads=2", NULL};
    static const char *const most[] = {"train.threads=1025", NULL};
    static const char *const fitting[] = {"train.threads=1", NULL};
    cpu_set_t all, one;
    CPU_ZERO(&one);
    must(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int i = 0; i < CPU_LIST_MAX && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    must(sched_setaffinity(0, sizeof one, &one) == 0);
    has_str(warnings_of("threads", many), "more threads than CPUs",
            "more threads than CPUs are reported");
    has_str(strbuf_cstr(&logged), "threads=2 cpus=1 try=\"train.threads=0\"",
            "the warning has both numbers and the remedy");
    ok(!strstr(warnings_of("fitting", fitting), "more threads"), "threads that fit are not");
    must(sched_setaffinity(0, sizeof all, &all) == 0);
    is_int(train("threads", NULL, most), -1, "more threads than the limit are refused");
    ok(strstr(why.text, "train.threads") && strstr(why.text, "1024"),
       "the error names the option and the limit: %s", why.text);
}

static void test_single(void) {
    static const char *const single[] = {"train.model=resnet18(width=16)", "train.train_size=9",
                                         "train.batch=4", "train.eval=false", NULL};
    static const char *const alone[] = {"train.model=resnet18(width=16)", "train.train_size=2",
                                        "train.batch=1", "train.eval=false", NULL};
    static const char *const even[] = {"train.model=resnet18(width=16)", "train.train_size=8",
                                       "train.batch=4", "train.eval=false", NULL};
    static const char *const mlp[] = {"train.train_size=9", "train.batch=4", NULL};
    has_str(warnings_of("single", single), "the last batch of an epoch is one image",
            "a last batch of one image is reported where batch norm sees one value");
    has_str(strbuf_cstr(&logged), "layer=layer4.0.bn1 images=9 batch=4",
            "the warning names the layer and the numbers");
    has_str(warnings_of("alone", alone), "a batch is one image",
            "batches of one image are reported");
    ok(!strstr(warnings_of("even", even), "one image"), "whole batches are not");
    ok(!strstr(warnings_of("mlp", mlp), "one image"), "a model without batch norm is not");
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    test_last_step();
    test_newest();
    test_gradient();
    test_once();
    test_tracked();
    test_weights();
    test_named_data();
    test_settings();
    test_threads();
    test_single();
    strbuf_fini(&logged);
    file_remove_tree(dir, &why);
    return done_testing();
}
