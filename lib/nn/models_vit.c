// SPDX-License-Identifier: Apache-2.0
// Vision transformers: Dosovitskiy and others, "An image is worth 16x16 words", ICLR 2021.
#include "nn/models_impl.h"

#include <stdio.h>

static const double TIMM_EPS = 1e-6, TORCH_EPS = 1e-5;
static const double TIMM_DEVIATION = 0.02, TIMM_FIRST = 1e-6; // of weights; of the class token

// Checks the fields against each other and the image. The error names the field.
static bool fits(struct nn_model *m, const struct nn_model_spec *spec) {
    int dim = m->spec.value[TRAIN_FIELD_DIM], heads = m->spec.value[TRAIN_FIELD_HEADS];
    int patch = m->spec.value[TRAIN_FIELD_PATCH];
    if (dim % heads)
        model_refuse(m, "dim %d is no multiple of heads %d", dim, heads);
    else if (spec->h % patch || spec->w % patch)
        model_refuse(m,
                     "images of %d x %d pixels are no multiple of patch %d (try: train.image_size)",
                     spec->w, spec->h, patch);
    return m->err.code == ERR_NONE;
}

static const char *name_of(char name[NN_NAME_BYTES_MAX], const char *prefix, int i,
                           const char *rest) {
    snprintf(name, NN_NAME_BYTES_MAX, "%s.%d.%s", prefix, i, rest);
    return name;
}

// x + attention(norm(x)), then x + mlp(norm(x)).
static int vit_block(struct nn_model *m, int i, int x) {
    const int *value = m->spec.value;
    int dim = value[TRAIN_FIELD_DIM];
    char name[NN_NAME_BYTES_MAX];
    int at = model_layernorm(m, name_of(name, "blocks", i, "norm1"), x, TIMM_EPS);
    at = model_rows(m, name_of(name, "blocks", i, "attn.qkv"), at, 3 * dim, -1, TIMM_DEVIATION);
    at = model_attention(m, name_of(name, "blocks", i, "attn"), at, value[TRAIN_FIELD_HEADS]);
    x = model_rows(m, name_of(name, "blocks", i, "attn.proj"), at, dim, x, TIMM_DEVIATION);
    at = model_layernorm(m, name_of(name, "blocks", i, "norm2"), x, TIMM_EPS);
    at = model_rows(m, name_of(name, "blocks", i, "mlp.fc1"), at, value[TRAIN_FIELD_MLP] * dim, -1,
                    TIMM_DEVIATION);
    at = model_gelu(m, name_of(name, "blocks", i, "mlp.act"), at);
    return model_rows(m, name_of(name, "blocks", i, "mlp.fc2"), at, dim, x, TIMM_DEVIATION);
}

// Names, shapes and initial values are those of timm's VisionTransformer. Its last norm covers all
// tokens; the head reads only the first, and only that one is normalised here.
void build_vit(struct nn_model *m, const struct nn_model_spec *spec) {
    if (!fits(m, spec))
        return;
    int at = model_input(m, spec->h, spec->w, spec->c);
    at = model_patches(m, "patch_embed.proj", at, m->spec.value[TRAIN_FIELD_DIM],
                       m->spec.value[TRAIN_FIELD_PATCH], false);
    at = model_tokens(m, "pos_embed", at, TIMM_DEVIATION, TIMM_FIRST);
    for (int i = 0; i < m->spec.value[TRAIN_FIELD_DEPTH]; i++)
        at = vit_block(m, i, at);
    at = model_first_token(m, "pool", at);
    at = model_layernorm(m, "norm", at, TIMM_EPS);
    model_rows(m, "head", at, spec->classes, -1, TIMM_DEVIATION);
}

static int linformer_block(struct nn_model *m, int i, int x) {
    const int *value = m->spec.value;
    int dim = value[TRAIN_FIELD_DIM];
    char name[NN_NAME_BYTES_MAX];
#define NAME(rest) name_of(name, "transformer.net.layers", i, rest)
    int at = model_layernorm(m, NAME("0.norm"), x, TORCH_EPS);
    at = model_linformer(m, NAME("0.fn"), at, value[TRAIN_FIELD_HEADS], value[TRAIN_FIELD_KEYS]);
    x = model_rows(m, NAME("0.fn.to_out"), at, dim, x, 0);
    at = model_layernorm(m, NAME("1.norm"), x, TORCH_EPS);
    at = model_rows(m, NAME("1.fn.w1"), at, value[TRAIN_FIELD_MLP] * dim, -1, 0);
    at = model_gelu(m, NAME("1.fn.act"), at);
    return model_rows(m, NAME("1.fn.w2"), at, dim, x, 0);
#undef NAME
}

// Names and shapes are those of vit-pytorch's efficient ViT around the package linformer.
void build_linformer(struct nn_model *m, const struct nn_model_spec *spec) {
    if (!fits(m, spec))
        return;
    int at = model_input(m, spec->h, spec->w, spec->c);
    at = model_patches(m, "to_patch_embedding.1", at, m->spec.value[TRAIN_FIELD_DIM],
                       m->spec.value[TRAIN_FIELD_PATCH], true);
    at = model_tokens(m, "pos_embedding", at, 1, 1);
    for (int i = 0; i < m->spec.value[TRAIN_FIELD_DEPTH]; i++)
        at = linformer_block(m, i, at);
    bool mean = m->spec.value[TRAIN_FIELD_POOL] == TRAIN_POOL_MEAN;
    at = mean ? model_avgpool(m, "pool", at) : model_first_token(m, "pool", at);
    at = model_layernorm(m, "mlp_head.0", at, TORCH_EPS);
    model_rows(m, "mlp_head.1", at, spec->classes, -1, 0);
}
