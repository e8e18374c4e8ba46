// SPDX-License-Identifier: Apache-2.0
// Recipes: settings that are known to go together.
#include "conf/option_value.h"
#include "conf/train_config.h"

static const struct {
    enum train_recipe recipe;
    const char *key, *text;
} settings[] = {
    {TRAIN_RECIPE_CIFAR10, "train.model", "resnet18"},
    {TRAIN_RECIPE_CIFAR10, "train.optimizer", "adam"},
    {TRAIN_RECIPE_CIFAR10, "train.lr", "0.001"},
    {TRAIN_RECIPE_CIFAR10, "train.batch", "64"},
    {TRAIN_RECIPE_CIFAR10, "train.epochs", "10"},
    {TRAIN_RECIPE_CIFAR10, "train.flip", "true"},
    {TRAIN_RECIPE_CIFAR10, "train.normalize", "imagenet"},

    {TRAIN_RECIPE_IMAGENET, "train.model", "resnet18"},
    {TRAIN_RECIPE_IMAGENET, "train.optimizer", "sgd"},
    {TRAIN_RECIPE_IMAGENET, "train.lr", "0.1"},
    {TRAIN_RECIPE_IMAGENET, "train.momentum", "0.9"},
    {TRAIN_RECIPE_IMAGENET, "train.weight_decay", "1e-4"},
    {TRAIN_RECIPE_IMAGENET, "train.schedule", "step"},
    {TRAIN_RECIPE_IMAGENET, "train.step_epochs", "30"},
    {TRAIN_RECIPE_IMAGENET, "train.gamma", "0.1"},
    {TRAIN_RECIPE_IMAGENET, "train.batch", "256"},
    {TRAIN_RECIPE_IMAGENET, "train.epochs", "90"},
    {TRAIN_RECIPE_IMAGENET, "train.image_size", "224"},
    {TRAIN_RECIPE_IMAGENET, "train.random_resized_crop", "true"},
    {TRAIN_RECIPE_IMAGENET, "train.eval_resize", "256"},
    {TRAIN_RECIPE_IMAGENET, "train.flip", "true"},
    {TRAIN_RECIPE_IMAGENET, "train.normalize", "imagenet"},

    {TRAIN_RECIPE_VIT, "train.model", "vit_tiny"},
    {TRAIN_RECIPE_VIT, "train.optimizer", "adam"},
    {TRAIN_RECIPE_VIT, "train.lr", "3e-5"},
    {TRAIN_RECIPE_VIT, "train.schedule", "step"},
    {TRAIN_RECIPE_VIT, "train.step_epochs", "1"},
    {TRAIN_RECIPE_VIT, "train.gamma", "0.7"},
    {TRAIN_RECIPE_VIT, "train.batch", "32"},
    {TRAIN_RECIPE_VIT, "train.epochs", "10"},
    {TRAIN_RECIPE_VIT, "train.image_size", "224"},
    {TRAIN_RECIPE_VIT, "train.new_head", "true"},
};

static const char *const texts[TRAIN_RECIPES] = {
#define X(constant, word, text) [constant] = (text),
    TRAIN_RECIPE_NAMES(X)
#undef X
};

const char *train_recipe_text(enum train_recipe recipe) {
    return texts[recipe];
}

bool train_recipe_setting(enum train_recipe recipe, size_t i, const char **key, const char **text) {
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++) {
        if (settings[s].recipe != recipe || i-- > 0)
            continue;
        *key = settings[s].key;
        *text = settings[s].text;
        return true;
    }
    return false;
}

void train_recipe_apply(struct option_set *set) {
    const struct option_bound *b;
    const struct option_row *row = option_find(set, "train.recipe", &b);
    if (!row || !b->target)
        return;
    const int *recipe = (const void *)((const char *)b->target + row->offset);
    const char *name = arena_printf(set->arena, "recipe %s", train_recipe_words[*recipe]);
    const char *key, *text;
    for (size_t i = 0; train_recipe_setting((enum train_recipe) * recipe, i, &key, &text); i++) {
        const struct option_row *r = option_find(set, key, &b);
        must(r != NULL);
        if (!option_given(set, key))
            option_apply(set, b, r, text, false, (struct option_place){OPTION_RECIPE, name, 0, 0});
    }
}
