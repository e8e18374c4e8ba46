// SPDX-License-Identifier: Apache-2.0
// Resizing so that the shorter side becomes `side`, then cutting the middle square out:
// torchvision's Resize(side) + CenterCrop(side) on Pillow images. The filter is the triangle with
// antialiasing, in Pillow's own order and fixed-point arithmetic (columns first, 22 fractional
// bits), so results are the same bits on every machine.
#ifndef DATA_RESIZE_H
#define DATA_RESIZE_H

#include <stddef.h>
#include <stdint.h>

enum { RESIZE_CHANNELS = 3 };

// Memory that is reused from image to image; zero-initialise, one per thread.
struct resize {
    uint8_t *rows;
    size_t rows_room;
    int32_t *weights;
    size_t weights_room;
};

void resize_square(struct resize *r, const uint8_t *src, int width, int height, int side,
                   uint8_t *out);
void resize_fini(struct resize *r);

#endif
