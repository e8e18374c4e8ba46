// SPDX-License-Identifier: Apache-2.0
// The models users can name.
#include "base/str.h"
#include "nn/model.h"

#include <stdio.h>
#include <string.h>

static void build_mlp(struct nn_model *m, const struct nn_model_spec *spec) {
    char name[NN_NAME_BYTES_MAX];
    int at = model_input(m, spec->h, spec->w, spec->c);
    for (int i = 0; i < spec->nhidden; i++) {
        snprintf(name, sizeof name, "fc%d", i + 1);
        at = model_linear(m, name, at, spec->hidden[i], true);
    }
    snprintf(name, sizeof name, "fc%d", spec->nhidden + 1);
    model_linear(m, name, at, spec->classes, false);
}

// Two 3x3 convolutions around an identity, or around a 1x1 convolution where the shape changes.
static int basic_block(struct nn_model *m, const char *prefix, int in, int planes, int stride) {
    char name[NN_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%s.conv1", prefix);
    int at = model_conv(m, name, in, planes, 3, stride, 1, false);
    snprintf(name, sizeof name, "%s.bn1", prefix);
    at = model_batchnorm(m, name, at, -1, true);
    snprintf(name, sizeof name, "%s.conv2", prefix);
    at = model_conv(m, name, at, planes, 3, 1, 1, false);
    int shortcut = in;
    if (stride != 1 || m->layer[in].c != planes) {
        snprintf(name, sizeof name, "%s.downsample.0", prefix);
        shortcut = model_conv(m, name, in, planes, 1, stride, 0, false);
        snprintf(name, sizeof name, "%s.downsample.1", prefix);
        shortcut = model_batchnorm(m, name, shortcut, -1, false);
    }
    snprintf(name, sizeof name, "%s.bn2", prefix);
    return model_batchnorm(m, name, at, shortcut, true);
}

// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016; layer names and
// details as in torchvision.
static void build_resnet18(struct nn_model *m, const struct nn_model_spec *spec) {
    static const int planes[] = {64, 128, 256, 512};
    bool small = str_eq(spec->stem, train_stem_words[TRAIN_STEM_CIFAR]);
    int at = model_input(m, spec->h, spec->w, spec->c);
    at = model_conv(m, "conv1", at, 64, small ? 3 : 7, small ? 1 : 2, small ? 1 : 3, false);
    at = model_batchnorm(m, "bn1", at, -1, true);
    if (!small)
        at = model_maxpool(m, "maxpool", at, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < 2; block++) {
            char prefix[NN_NAME_BYTES_MAX / 2];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, block);
            at = basic_block(m, prefix, at, planes[stage], stage && !block ? 2 : 1);
        }
    at = model_avgpool(m, "avgpool", at);
    model_linear(m, "fc", at, spec->classes, false);
}

static const struct {
    void (*build)(struct nn_model *m, const struct nn_model_spec *spec);
    bool has_stem;
} models[TRAIN_MODELS] = {
    [TRAIN_MLP] = {build_mlp, false},
    [TRAIN_RESNET18] = {build_resnet18, true},
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
        models[i].build(m, spec);
        return model_end(m, e);
    }
    return err_set(e, ERR_CONFIG, "there is no model '%s'", spec->name);
}
