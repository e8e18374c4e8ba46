// SPDX-License-Identifier: Apache-2.0
// Pretrained weights of vision transformers from files of other libraries: the names of parameters
// there, and positions of another image size.
#ifndef NN_PRETRAINED_H
#define NN_PRETRAINED_H

#include "nn/model.h"

enum { PRETRAINED_PARTS_MAX = 3, PRETRAINED_NAME_BYTES_MAX = 128 };

enum pretrained_kind {
    PRETRAINED_SAME_NAMES,   // as in this trainer, such as timm
    PRETRAINED_HUGGING_FACE, // transformers: ViTForImageClassification
    PRETRAINED_TORCHVISION,  // vit_b_16 and others
    PRETRAINED_KINDS
};

// Lists the tensors of such a file that form the parameter `ours`, one behind the other along its
// first dimension. Returns their number. 0: such files do not have this parameter.
int pretrained_names(enum pretrained_kind kind, const char *ours,
                     char names[PRETRAINED_PARTS_MAX][PRETRAINED_NAME_BYTES_MAX]);

// A grid of positions, numbers side by side, brought from h x w to out_h x out_w: bicubic with
// antialiasing (a = -0.5, half-pixel centres), as timm's resample_abs_pos_embed does by
// torch.nn.functional.interpolate.
struct pretrained_grid {
    int h, w, out_h, out_w, width;
};
void pretrained_positions(const struct pretrained_grid *g, const float *in, float *out);

#endif
