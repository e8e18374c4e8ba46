// SPDX-License-Identifier: Apache-2.0
// Maps names of parameters to those of other libraries, and interpolates positions.
#include "nn/pretrained.h"

#include "base/arena.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// '*' is a number. ".weight" or ".bias" follows a name; after '_' without the full stop.
struct row {
    const char *ours;
    const char *theirs[PRETRAINED_PARTS_MAX];
};

static const struct row hugging_face[] = {
    {"cls_token", {"vit.embeddings.cls_token"}},
    {"pos_embed", {"vit.embeddings.position_embeddings"}},
    {"patch_embed.proj", {"vit.embeddings.patch_embeddings.projection"}},
    {"blocks.*.norm1", {"vit.encoder.layer.*.layernorm_before"}},
    {"blocks.*.attn.qkv",
     {"vit.encoder.layer.*.attention.attention.query",
      "vit.encoder.layer.*.attention.attention.key",
      "vit.encoder.layer.*.attention.attention.value"}},
    {"blocks.*.attn.proj", {"vit.encoder.layer.*.attention.output.dense"}},
    {"blocks.*.norm2", {"vit.encoder.layer.*.layernorm_after"}},
    {"blocks.*.mlp.fc1", {"vit.encoder.layer.*.intermediate.dense"}},
    {"blocks.*.mlp.fc2", {"vit.encoder.layer.*.output.dense"}},
    {"norm", {"vit.layernorm"}},
    {"head", {"classifier"}},
    {0},
};

static const struct row torchvision[] = {
    {"cls_token", {"class_token"}},
    {"pos_embed", {"encoder.pos_embedding"}},
    {"patch_embed.proj", {"conv_proj"}},
    {"blocks.*.norm1", {"encoder.layers.encoder_layer_*.ln_1"}},
    {"blocks.*.attn.qkv", {"encoder.layers.encoder_layer_*.self_attention.in_proj_"}},
    {"blocks.*.attn.proj", {"encoder.layers.encoder_layer_*.self_attention.out_proj"}},
    {"blocks.*.norm2", {"encoder.layers.encoder_layer_*.ln_2"}},
    {"blocks.*.mlp.fc1", {"encoder.layers.encoder_layer_*.mlp.0"}},
    {"blocks.*.mlp.fc2", {"encoder.layers.encoder_layer_*.mlp.3"}},
    {"norm", {"encoder.ln"}},
    {"head", {"heads.head"}},
    {0},
};

static const struct row *const tables[PRETRAINED_KINDS] = {
    [PRETRAINED_HUGGING_FACE] = hugging_face,
    [PRETRAINED_TORCHVISION] = torchvision,
};

// The rest of the name after the pattern, or NULL; *number: the digits of '*'.
static const char *rest_of(const char *pattern, const char *name, const char **number,
                           int *digits) {
    *number = "";
    *digits = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*pattern != *name++)
                return NULL;
            continue;
        }
        *number = name;
        while (isdigit((unsigned char)*name))
            name++;
        *digits = (int)(name - *number);
    }
    return *name == '\0' || *name == '.' ? name : NULL;
}

static void fill(const char *pattern, const char *number, int digits, const char *rest,
                 char out[PRETRAINED_NAME_BYTES_MAX]) {
    const char *star = strchr(pattern, '*');
    size_t front = star ? (size_t)(star - pattern) : strlen(pattern);
    bool joined = pattern[strlen(pattern) - 1] == '_' && *rest == '.';
    snprintf(out, PRETRAINED_NAME_BYTES_MAX, "%.*s%.*s%s%s", (int)front, pattern, digits, number,
             star ? star + 1 : "", rest + joined);
}

int pretrained_names(enum pretrained_kind kind, const char *ours,
                     char names[PRETRAINED_PARTS_MAX][PRETRAINED_NAME_BYTES_MAX]) {
    if (kind == PRETRAINED_SAME_NAMES) {
        snprintf(names[0], PRETRAINED_NAME_BYTES_MAX, "%s", ours);
        return 1;
    }
    for (const struct row *r = tables[kind]; r->ours; r++) {
        const char *number;
        int digits, parts = 0;
        const char *rest = rest_of(r->ours, ours, &number, &digits);
        for (; rest && parts < PRETRAINED_PARTS_MAX && r->theirs[parts]; parts++)
            fill(r->theirs[parts], number, digits, rest, names[parts]);
        if (rest)
            return parts;
    }
    return 0;
}

// ---- positions ---------------------------------------------------------------------------------

// Keys, "Cubic convolution interpolation for digital image processing", 1981.
static double cubic(double x) {
    static const double A = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((A + 2) * x - (A + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * A : 0;
}

// One axis, for each of `rows` lines of `in` groups of `width` numbers.
static void resample(int rows, int in, int out, int width, const double *x, double *y) {
    double ratio = (double)in / out, wide = ratio > 1 ? ratio : 1;
    double *weight = heap_alloc((size_t)in * sizeof *weight);
    for (int o = 0; o < out; o++) {
        double centre = ratio * (o + 0.5), sum = 0;
        int from = (int)fmax(centre - 2 * wide + 0.5, 0);
        int to = (int)fmin(centre + 2 * wide + 0.5, in);
        for (int i = from; i < to; i++)
            sum += weight[i] = cubic((i - centre + 0.5) / wide);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < width; c++) {
                double v = 0;
                for (int i = from; i < to; i++)
                    v += weight[i] *
                         x[((size_t)r * (size_t)in + (size_t)i) * (size_t)width + (size_t)c];
                y[((size_t)r * (size_t)out + (size_t)o) * (size_t)width + (size_t)c] = v / sum;
            }
    }
    free(weight);
}

void pretrained_positions(const struct pretrained_grid *g, const float *in, float *out) {
    size_t count = (size_t)g->h * (size_t)g->w * (size_t)g->width;
    size_t half = (size_t)g->h * (size_t)g->out_w * (size_t)g->width;
    size_t last = (size_t)g->out_h * (size_t)g->out_w * (size_t)g->width;
    double *x = heap_alloc(count * sizeof *x), *y = heap_alloc(half * sizeof *y);
    double *z = heap_alloc(last * sizeof *z);
    for (size_t i = 0; i < count; i++)
        x[i] = (double)in[i];
    resample(g->h, g->w, g->out_w, g->width, x, y);
    resample(1, g->h, g->out_h, g->out_w * g->width, y, z);
    for (size_t i = 0; i < last; i++)
        out[i] = (float)z[i];
    free(x);
    free(y);
    free(z);
}
