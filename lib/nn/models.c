// SPDX-License-Identifier: Apache-2.0
// The models users can name.
#include "base/str.h"
#include "nn/model.h"

#include <stdio.h>
#include <string.h>

// One row per model.
struct model_row {
    void (*build)(struct nn_model *m, const struct nn_model_spec *spec,
                  const struct model_row *row);
    bool has_stem;
    int blocks[4]; // of each stage
    int (*block)(struct nn_model *m, const char *prefix, int in, int planes, int stride);
};

static void build_mlp(struct nn_model *m, const struct nn_model_spec *spec,
                      const struct model_row *row) {
    (void)row;
    char name[NN_NAME_BYTES_MAX];
    int at = model_input(m, spec->h, spec->w, spec->c);
    for (int i = 0; i < spec->nhidden; i++) {
        snprintf(name, sizeof name, "fc%d", i + 1);
        at = model_linear(m, name, at, spec->hidden[i], true);
    }
    snprintf(name, sizeof name, "fc%d", spec->nhidden + 1);
    model_linear(m, name, at, spec->classes, false);
}

// The i-th convolution of a block, which keeps the size but for its stride.
static int conv(struct nn_model *m, const char *prefix, int i, int in, int out, int kernel,
                int stride) {
    char name[NN_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%s.conv%d", prefix, i);
    return model_conv(m, name, in, out, kernel, stride, kernel / 2, false);
}

static int norm(struct nn_model *m, const char *prefix, int i, int in, int residual) {
    char name[NN_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%s.bn%d", prefix, i);
    return model_batchnorm(m, name, in, residual, true);
}

// What goes around a block: its input, or where the shape changes a 1x1 convolution of it.
static int shortcut(struct nn_model *m, const char *prefix, int in, int out, int stride) {
    char name[NN_NAME_BYTES_MAX];
    if (stride == 1 && m->layer[in].c == out)
        return in;
    snprintf(name, sizeof name, "%s.downsample.0", prefix);
    int at = model_conv(m, name, in, out, 1, stride, 0, false);
    snprintf(name, sizeof name, "%s.downsample.1", prefix);
    return model_batchnorm(m, name, at, -1, false);
}

// Two 3x3 convolutions.
static int basic_block(struct nn_model *m, const char *prefix, int in, int planes, int stride) {
    int at = conv(m, prefix, 1, in, planes, 3, stride);
    at = norm(m, prefix, 1, at, -1);
    at = conv(m, prefix, 2, at, planes, 3, 1);
    return norm(m, prefix, 2, at, shortcut(m, prefix, in, planes, stride));
}

// A 3x3 convolution between two of 1x1; the stride is in the middle one, as in torchvision.
static int bottleneck(struct nn_model *m, const char *prefix, int in, int planes, int stride) {
    enum { EXPANSION = 4 };
    int at = conv(m, prefix, 1, in, planes, 1, 1);
    at = norm(m, prefix, 1, at, -1);
    at = conv(m, prefix, 2, at, planes, 3, stride);
    at = norm(m, prefix, 2, at, -1);
    at = conv(m, prefix, 3, at, EXPANSION * planes, 1, 1);
    return norm(m, prefix, 3, at, shortcut(m, prefix, in, EXPANSION * planes, stride));
}

// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016; layer names and
// details as in torchvision.
static void build_resnet(struct nn_model *m, const struct nn_model_spec *spec,
                         const struct model_row *row) {
    bool small = str_eq(spec->stem, train_stem_words[TRAIN_STEM_CIFAR]);
    int at = model_input(m, spec->h, spec->w, spec->c);
    at = model_conv(m, "conv1", at, 64, small ? 3 : 7, small ? 1 : 2, small ? 1 : 3, false);
    at = model_batchnorm(m, "bn1", at, -1, true);
    if (!small)
        at = model_maxpool(m, "maxpool", at, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < row->blocks[stage]; block++) {
            char prefix[NN_NAME_BYTES_MAX / 2];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, block);
            at = row->block(m, prefix, at, 64 << stage, stage && !block ? 2 : 1);
        }
    at = model_avgpool(m, "avgpool", at);
    model_linear(m, "fc", at, spec->classes, false);
}

static const struct model_row models[TRAIN_MODELS] = {
    [TRAIN_MLP] = {.build = build_mlp},
    [TRAIN_RESNET18] = {build_resnet, true, {2, 2, 2, 2}, basic_block},
    [TRAIN_RESNET34] = {build_resnet, true, {3, 4, 6, 3}, basic_block},
    [TRAIN_RESNET50] = {build_resnet, true, {3, 4, 6, 3}, bottleneck},
};

static bool is_word(const char *const *words, const char *text) {
    while (*words && !str_eq(*words, text))
        words++;
    return *words != NULL;
}

bool model_has_stem(enum train_model model) {
    return models[model].has_stem;
}

int model_build(struct nn_model *m, const struct nn_model_spec *spec, struct err *e) {
    model_begin(m);
    for (int i = 0; i < TRAIN_MODELS; i++) {
        if (!str_eq(train_model_words[i], spec->name))
            continue;
        if (models[i].has_stem && !is_word(train_stem_words, spec->stem))
            return err_set(e, ERR_CONFIG, "model %s: stem '%s' is neither imagenet nor cifar",
                           spec->name, spec->stem ? spec->stem : "");
        models[i].build(m, spec, &models[i]);
        return model_end(m, e);
    }
    return err_set(e, ERR_CONFIG, "there is no model '%s'", spec->name);
}
