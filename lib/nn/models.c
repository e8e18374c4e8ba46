// SPDX-License-Identifier: Apache-2.0
// The models users can name: multilayer perceptrons and ResNets; vision transformers are in
// models_vit.c.
#include "base/str.h"
#include "nn/models_impl.h"

#include <stdio.h>
#include <string.h>

static void build_mlp(struct nn_model *m, const struct nn_model_spec *spec) {
    char name[NN_NAME_BYTES_MAX];
    int at = model_input(m, spec->h, spec->w, spec->c);
    for (int i = 0; i < m->spec.nhidden; i++) {
        snprintf(name, sizeof name, "fc%d", i + 1);
        at = model_linear(m, name, at, m->spec.hidden[i], true);
    }
    snprintf(name, sizeof name, "fc%d", m->spec.nhidden + 1);
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

// The shortcut around a block: its input, or a 1x1 convolution of it where the shape changes.
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

typedef int (*resnet_block)(struct nn_model *m, const char *prefix, int in, int planes, int stride);

// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016; layer names and
// details as in torchvision. blocks: of each stage.
static void build_resnet(struct nn_model *m, const struct nn_model_spec *spec, const int blocks[4],
                         resnet_block add_block) {
    bool small = m->spec.value[TRAIN_FIELD_STEM] == TRAIN_STEM_CIFAR;
    int width = m->spec.value[TRAIN_FIELD_WIDTH];
    int at = model_input(m, spec->h, spec->w, spec->c);
    at = model_conv(m, "conv1", at, width, small ? 3 : 7, small ? 1 : 2, small ? 1 : 3, false);
    at = model_batchnorm(m, "bn1", at, -1, true);
    if (!small)
        at = model_maxpool(m, "maxpool", at, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int block = 0; block < blocks[stage]; block++) {
            char prefix[NN_NAME_BYTES_MAX / 2];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, block);
            at = add_block(m, prefix, at, width << stage, stage && !block ? 2 : 1);
        }
    at = model_avgpool(m, "avgpool", at);
    model_linear(m, "fc", at, spec->classes, false);
}

static void build_resnet18(struct nn_model *m, const struct nn_model_spec *spec) {
    build_resnet(m, spec, (const int[4]){2, 2, 2, 2}, basic_block);
}

static void build_resnet34(struct nn_model *m, const struct nn_model_spec *spec) {
    build_resnet(m, spec, (const int[4]){3, 4, 6, 3}, basic_block);
}

static void build_resnet50(struct nn_model *m, const struct nn_model_spec *spec) {
    build_resnet(m, spec, (const int[4]){3, 4, 6, 3}, bottleneck);
}

static void (*const builders[TRAIN_MODELS])(struct nn_model *m,
                                            const struct nn_model_spec *spec) = {
    [TRAIN_MLP] = build_mlp,
    [TRAIN_RESNET18] = build_resnet18,
    [TRAIN_RESNET34] = build_resnet34,
    [TRAIN_RESNET50] = build_resnet50,
    [TRAIN_VIT] = build_vit,
    [TRAIN_VIT_TINY] = build_vit,
    [TRAIN_VIT_SMALL] = build_vit,
    [TRAIN_VIT_BASE] = build_vit,
    [TRAIN_LINFORMER] = build_linformer,
    [TRAIN_AIRBENCH] = build_airbench,
};

const char *model_stem(const struct nn_model *m) {
    bool has = m->spec.has[TRAIN_FIELD_STEM];
    return has ? train_stem_words[m->spec.value[TRAIN_FIELD_STEM]] : "";
}

// Applies older keys to fields that the text omits.
static int take_keys(struct nn_model *m, const struct nn_model_spec *spec, struct err *e) {
    struct train_model_spec *s = &m->spec;
    if (s->has[TRAIN_FIELD_STEM] && !s->given[TRAIN_FIELD_STEM] && spec->stem) {
        int stem = 0;
        while (stem < TRAIN_STEMS && !str_eq(train_stem_words[stem], spec->stem))
            stem++;
        if (stem == TRAIN_STEMS)
            return err_set(e, ERR_CONFIG, "model %s: stem '%s' is neither imagenet nor cifar",
                           spec->name, spec->stem);
        s->value[TRAIN_FIELD_STEM] = stem;
    }
    if (s->has[TRAIN_FIELD_HIDDEN] && !s->given[TRAIN_FIELD_HIDDEN] && spec->nhidden) {
        s->nhidden = spec->nhidden;
        for (int i = 0; i < spec->nhidden; i++)
            s->hidden[i] = spec->hidden[i];
    }
    return 0;
}

int model_build(struct nn_model *m, const struct nn_model_spec *spec, struct err *e) {
    model_begin(m);
    if (train_model_parse(&m->spec, spec->name, e) < 0 || take_keys(m, spec, e) < 0)
        return -1;
    train_model_format(&m->spec, m->text);
    builders[m->spec.model](m, spec);
    return model_end(m, e);
}
