// SPDX-License-Identifier: Apache-2.0
// The steps from a stored image to the batch, as a list. A list is folded into one view: a part of
// the stored image, the size to which that part is scaled, and the kept part of the result. An
// image is thus decoded once, at a reduced scale, and only where needed. Pure.
//
//     struct transform list[] = {{TRANSFORM_RESIZE, 256}, {TRANSFORM_CENTER_CROP, 224}, {0}};
//     transform_view(list, width, height, &draw, &view, e);
//
// The meanings are torchvision's: RandomResizedCrop(size, scale=(0.08, 1), ratio=(3/4, 4/3)),
// Resize(size) of the shorter side, CenterCrop(size). Draws are a function of (seed, epoch, index);
// torchvision's generator is another one, so the same image is cut elsewhere. Mirror, shift and
// normalisation come after the view: augment.h.
#ifndef DATA_TRANSFORM_H
#define DATA_TRANSFORM_H

#include "base/err.h"

#include <stdint.h>

enum transform_kind {
    TRANSFORM_END,
    TRANSFORM_RESIZED_CROP, // a random part of 8 to 100 % of the area, brought to size x size
    TRANSFORM_RESIZE,       // the shorter side becomes size
    TRANSFORM_CENTER_CROP   // the middle size x size
};

struct transform {
    enum transform_kind kind;
    int size; // pixels
};

enum { TRANSFORMS_MAX = 4 }; // with the end

struct transform_draw {
    uint64_t seed, epoch;
    uint32_t index; // of the sample
};

// x, y, w, h of the stored image are brought to new_w x new_h, of which out_w x out_h at (left,
// top) are kept.
struct transform_view {
    int x, y, w, h;
    int new_w, new_h;
    int left, top, out_w, out_h;
};

// ERR_CONFIG when a crop is larger than what is left of the image.
int transform_view(const struct transform *list, int width, int height,
                   const struct transform_draw *draw, struct transform_view *v, struct err *e);

// By how much a decoder may reduce the image (1, 2, 4, 8) with every kept pixel still made of at
// least one decoded one.
int transform_reduction(const struct transform_view *v);

#endif
