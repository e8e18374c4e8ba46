// SPDX-License-Identifier: Apache-2.0
// The trainer's configuration: what it reads of dtctl.toml, and of the share that dtctl writes.
#include "conf/render.h"
#include "tests/unit/conf/config_fixture.h"

static const char *train(const char *words, char *const *environ_, struct train_config *t,
                         struct train_flags *f, struct option_set *s) {
    char **argv;
    struct err e;
    err_clear(&e);
    size_t argc = str_split(&a, words, '|', &argv);
    train_config_load(t, f, s, &a, (int)argc, (const char *const *)argv, environ_, &e);
    return arena_strdup(&a, e.text);
}

static void test_train(void) {
    struct train_config t;
    struct train_flags f;
    struct option_set s;
    struct strbuf b = {0}, out = {0};
    struct err e;
    char var[] = "DTCTL_TRAIN_LR=0.5", *environ_[] = {var, NULL};
    is_str(load("train", "--nodes=2|--set=train.epochs=3|--set=train.hidden=5,6",
                "[cluster]\nnodes = 3\n[metrics]\nloss = \"Loss (.*)\"\n"
                "[train]\nlr = 0.25\nmean = [0.5, 0.25, 0.125]\n",
                NULL),
           "", "dtctl reads the file");
    is_str(train("--config|dtctl.toml|--set|train.epochs=4", NULL, &t, &f, &s), "",
           "a whole dtctl.toml is read");
    ok(t.lr == 0.25 && t.epochs == 4 && t.mean.count == 3 && strcmp(t.model, "resnet18") == 0,
       "values of the file and of --set are taken");
    is_str(train("--config=dtctl.toml", environ_, &t, &f, &s), "", "the trainer reads variables");
    ok(t.lr == 0.5, "the trainer takes a variable's value when asked to");
    render_toml(&b, &c.set, train_tables);
    if (file_write_atomic("share.toml", strbuf_cstr(&b), b.len, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_str(train("-f|share.toml", NULL, &t, &f, &s), "", "the share that dtctl writes is read");
    ok(t.lr == 0.25 && t.epochs == 3 && t.hidden.count == 2 && t.hidden.items[1] == 6,
       "the trainer reads the values that dtctl writes");
    render_toml(&out, &s, train_tables);
    is_str(strbuf_cstr(&out), strbuf_cstr(&b), "the trainer's file equals what dtctl writes");
    is_str(train("--set=train.epoch=1|--lr=3|-f|none", NULL, &t, &f, &s),
           "configuration: cannot read 'none': No such file or directory", "no file is found");
    is_str(train("--set=train.epoch=1|--lr=3|--set=train.batch=0", NULL, &t, &f, &s),
           "--lr: unknown flag; write --set train.lr=VALUE\n"
           "--set: unknown key 'train.epoch' (did you mean 'train.epochs'?)\n"
           "--set train.batch: 0 is below the minimum 1",
           "all errors are reported");
    is_str(train("x", NULL, &t, &f, &s), "'x': dttrain takes flags only", "an argument is refused");
    is_str(train("--help|--nonsense", NULL, &t, &f, &s), "", "--help");
    ok(f.help && !f.version, "--help is the trainer's first action");
    strbuf_clear(&out);
    struct render_program p = {"dttrain", "train", "1", "[FLAGS]", NULL, NULL, NULL};
    render_help(&out, &s, &p, 0);
    has_str(strbuf_cstr(&out), "train.resume = auto|never|RUN", "the trainer's help has its keys");
    ok(!strstr(strbuf_cstr(&out), "cluster.nodes"), "the trainer's help: no other keys");
    struct strbuf faults = {0};
    is_int(option_verify(&s, NULL, &faults), 0, "no fault is found %s", strbuf_cstr(&faults));
    strbuf_fini(&faults), strbuf_fini(&b), strbuf_fini(&out);
}

int main(void) {
    char path[] = "/tmp/dtctl-config-XXXXXX";
    struct err e;
    const char *folder = mkdtemp(path);
    if (!folder || chdir(folder) < 0)
        bail_out("no scratch folder");
    test_train();
    arena_fini(&a);
    if (chdir("/") < 0 || file_remove_tree(folder, &e) < 0)
        bail_out("%s", e.text);
    return done_testing();
}
