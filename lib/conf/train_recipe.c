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

    // The rate is 11.5 for the sum over 1024 images, with a step that momentum makes
    // 1 + 1 / (1 - 0.85) times as long; weight decay is 0.0153 of the weights for each 1024 images.
    {TRAIN_RECIPE_CIFAR94, "train.model", "airbench"},
    {TRAIN_RECIPE_CIFAR94, "train.optimizer", "sgd"},
    {TRAIN_RECIPE_CIFAR94, "train.lr", "1.5"},
    {TRAIN_RECIPE_CIFAR94, "train.momentum", "0.85"},
    {TRAIN_RECIPE_CIFAR94, "train.nesterov", "true"},
    {TRAIN_RECIPE_CIFAR94, "train.weight_decay", "0.00133043"},
    {TRAIN_RECIPE_CIFAR94, "train.norm_shift_lr", "64"},
    {TRAIN_RECIPE_CIFAR94, "train.schedule", "triangle"},
    {TRAIN_RECIPE_CIFAR94, "train.peak", "0.23"},
    {TRAIN_RECIPE_CIFAR94, "train.cycle_start", "0.2"},
    {TRAIN_RECIPE_CIFAR94, "train.cycle_end", "0.07"},
    {TRAIN_RECIPE_CIFAR94, "train.batch", "1024"},
    {TRAIN_RECIPE_CIFAR94, "train.epochs", "10"},
    {TRAIN_RECIPE_CIFAR94, "train.label_smoothing", "0.2"},
    {TRAIN_RECIPE_CIFAR94, "train.first_layer_epochs", "3"},
    {TRAIN_RECIPE_CIFAR94, "train.lookahead", "0.95"},
    {TRAIN_RECIPE_CIFAR94, "train.lookahead_every", "5"},
    {TRAIN_RECIPE_CIFAR94, "train.lookahead_epochs", "3"},
    {TRAIN_RECIPE_CIFAR94, "train.lookahead_power", "3"},
    {TRAIN_RECIPE_CIFAR94, "train.flip", "true"},
    {TRAIN_RECIPE_CIFAR94, "train.flip_alternate", "true"},
    {TRAIN_RECIPE_CIFAR94, "train.crop_pad", "2"},
    {TRAIN_RECIPE_CIFAR94, "train.crop_fill", "reflect"},
    {TRAIN_RECIPE_CIFAR94, "train.normalize", "cifar10"},
    {TRAIN_RECIPE_CIFAR94, "train.eval_views", "shift"},
    {TRAIN_RECIPE_CIFAR94, "train.eval_every_epochs", "10"},
    {TRAIN_RECIPE_CIFAR94, "train.checkpoint_every_epochs", "10"},
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
