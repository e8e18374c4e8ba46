// SPDX-License-Identifier: Apache-2.0
// Recipes: each setting is one that its key takes, and stands below everything that is given.
#include "conf/render.h"
#include "conf/train_config.h"
#include "tests/tap.h"

static struct arena a;
static struct option_set set;
static struct train_config t;

static int load(const char *assignments, char *const *env, struct err *e) {
    struct train_flags flags;
    const char *argv[16];
    int argc = 0;
    char **parts;
    size_t count = str_split(&a, assignments, '|', &parts);
    for (size_t i = 0; i < count; i++) {
        argv[argc++] = "--set";
        argv[argc++] = parts[i];
    }
    return train_config_load(&t, &flags, &set, &a, argc, argv, env, e);
}

static void test_settings(void) {
    const char *key, *text;
    struct err e = {0};
    for (int i = 0; i < TRAIN_RECIPES; i++) {
        ok(train_recipe_text((enum train_recipe)i)[0] != 0, "recipe %s has a text",
           train_recipe_words[i]);
        is_int(load(arena_printf(&a, "train.recipe=%s", train_recipe_words[i]), NULL, &e), 0,
               "a recipe can be loaded");
        size_t s = 0;
        for (; train_recipe_setting((enum train_recipe)i, s, &key, &text); s++) {
            const struct option_bound *b;
            const struct option_row *r = option_find(&set, key, &b);
            is_int(option_place(&set, key)->source, OPTION_RECIPE, "%s is from it", key);
            const char *again, *other;
            for (size_t j = 0; j < s; j++)
                if (train_recipe_setting((enum train_recipe)i, j, &again, &other))
                    ok(!str_eq(again, key), "a key occurs once in a recipe");
            ok(r && r->key, "%s=%s", key, text);
        }
        ok((s > 0) == (i != TRAIN_RECIPE_NONE), "the recipe has %zu settings", s);
    }
}

static void test_bounds(void) {
    struct err e = {0};
    is_int(load("train.warmup_epochs=1000000|train.epochs=1000000", NULL, &e), 0,
           "the longest values are read: %s", e.text);
    is_int(load("train.warmup_epochs=1000001|train.epochs=1000000", NULL, &e), -1,
           "a longer warm-up is refused");
    has_str(e.text, "above the maximum 1000000", "the error has the limit");
}

static void test_manual(void) {
    struct err e = {0};
    struct strbuf man = {0};
    struct render_program p = {
        .name = "dttrain", .summary = "train", .version = "1", .synopsis = "[FLAGS]"};
    is_int(load("train.epochs=1", NULL, &e), 0, "the options of the trainer are read: %s", e.text);
    render_man(&man, &set, &p);
    has_str(strbuf_cstr(&man), ".SH KEYS\n", "the manual of a program without verbs has the keys");
    strbuf_fini(&man);
}

static void test_precedence(void) {
    struct err e = {0};
    char lr[] = "DTCTL_TRAIN_LR=0.5", *env[] = {lr, NULL};
    is_int(load("train.recipe=imagenet-resnet|train.momentum=0.8|train.gamma=0.1", env, &e), 0,
           "a recipe, settings and a variable are read together");
    ok(t.optimizer == TRAIN_SGD && t.weight_decay == 1e-4 && t.epochs == 90,
       "the values of the recipe are taken");
    ok(t.momentum == 0.8 && t.lr == 0.5, "given options beat the recipe");
    is_int(option_place(&set, "train.gamma")->source, OPTION_FLAG,
           "a setting as the recipe's is given all the same");
    ok(t.seed == 0 && option_place(&set, "train.seed")->source == OPTION_DEFAULT,
       "other options have their defaults");
    struct strbuf b = {0};
    render_show(&b, &set, true);
    has_str(strbuf_cstr(&b), "# recipe imagenet-resnet\n",
            "the list shows the source of each value");
    strbuf_fini(&b);
    render_show_json(&b, &set, true);
    has_str(strbuf_cstr(&b), "\"source\":\"recipe\",\"name\":\"recipe imagenet-resnet\"",
            "the source of each value is written as JSON");
    strbuf_fini(&b);
    is_int(load("train.recipe=imagenet", NULL, &e), -1, "an unknown recipe is refused");
    has_str(e.text, "imagenet-resnet", "an unknown recipe: the error lists the known ones");
}

int main(void) {
    test_settings();
    test_bounds();
    test_manual();
    test_precedence();
    arena_fini(&a);
    return done_testing();
}
