// SPDX-License-Identifier: Apache-2.0
// Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024: a whitened first layer, and
// three blocks of two convolutions that at first copy their input. Layers have the names of that
// network as torch.nn.Sequential numbers it.
#include "nn/models_impl.h"

#include <stdio.h>

static const double AIRBENCH_EPS = 1e-12, AIRBENCH_MOMENTUM = 0.4;
enum { BLOCKS = 3, FIRST_BLOCK = 2 /* its number */, WIDER = 4, PATCH_MAX = 8 };

// Names of the layers of a block, which are alive until the next call.
static const char *part(char name[NN_NAME_BYTES_MAX], int block, const char *what, int i) {
    snprintf(name, NN_NAME_BYTES_MAX, "%d.%s%d", FIRST_BLOCK + block, what, i);
    return name;
}

static int add_block(struct nn_model *m, int block, int in, int out) {
    char name[NN_NAME_BYTES_MAX];
    int at = in;
    for (int i = 1; i <= 2; i++) {
        at = model_copyconv(m, part(name, block, "conv", i), at, out, 3);
        if (i == 1)
            at = model_maxpool(m, part(name, block, "pool", i), at, 2, 2, 0);
        at = model_shiftnorm(m, part(name, block, "norm", i), at, AIRBENCH_EPS, AIRBENCH_MOMENTUM);
        at = model_gelu(m, part(name, block, "activ", i), at);
    }
    return at;
}

void build_airbench(struct nn_model *m, const struct nn_model_spec *spec) {
    int width = m->spec.value[TRAIN_FIELD_WIDTH], patch = m->spec.value[TRAIN_FIELD_PATCH];
    int at = model_input(m, spec->h, spec->w, spec->c);
    if (patch > PATCH_MAX)
        model_refuse(m, "patches of %d pixels are too large to whiten, the limit is %d", patch,
                     PATCH_MAX);
    at = model_whiten(m, "0", at, patch < PATCH_MAX ? patch : PATCH_MAX);
    at = model_gelu(m, "1", at);
    for (int i = 0; i < BLOCKS; i++)
        at = add_block(m, i, at, i ? WIDER * width : width);
    at = model_maxpool(m, "5", at, 3, 3, 0);
    model_scaled(m, "7", at, spec->classes, 1.0 / m->spec.value[TRAIN_FIELD_DIVISOR]);
}
