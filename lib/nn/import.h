// SPDX-License-Identifier: Apache-2.0
// Weights of vision transformers as other libraries write them: their names for what timm, and this
// trainer, calls otherwise; and positions of another image size.
#ifndef NN_IMPORT_H
#define NN_IMPORT_H

#include "nn/model.h"

enum { IMPORT_PARTS_MAX = 3, IMPORT_NAME_BYTES_MAX = 128 };

enum import_from {
    IMPORT_AS_IT_IS,
    IMPORT_HUGGING_FACE, // transformers: ViTForImageClassification
    IMPORT_TORCHVISION,  // vit_b_16 and others
    IMPORT_FROMS
};

// The names in such a file of what makes up the parameter `ours`, along its first dimension: as
// many as are returned. 0: such files have nothing for it.
int import_names(enum import_from from, const char *ours,
                 char names[IMPORT_PARTS_MAX][IMPORT_NAME_BYTES_MAX]);

// A grid of positions, numbers side by side, brought from h x w to out_h x out_w: bicubic with
// antialiasing (a = -0.5, half-pixel centres), as timm's resample_abs_pos_embed does by
// torch.nn.functional.interpolate.
struct import_grid {
    int h, w, out_h, out_w, width;
};
void import_positions(const struct import_grid *g, const float *in, float *out);

#endif
