// SPDX-License-Identifier: Apache-2.0
// Resizing with the triangle filter and antialiasing, in Pillow's own order and fixed-point
// arithmetic (columns first, 22 fractional bits). Where the source is a whole image that was
// decoded in full, the result is Pillow's, byte for byte: torchvision's Resize, CenterCrop and
// resized_crop on Pillow images. It is the same bits on every machine in any case.
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
    void *windows; // of the positions of an axis
    size_t windows_room;
    int32_t *sums; // of a row
    size_t sums_room;
};

// The source pixels, and the part of them to scale. The part may begin between pixels (a decoder
// reduced the image); reads never leave width x height.
struct resize_source {
    const uint8_t *pixels;
    size_t pitch;      // bytes from row to row
    int width, height; // pixels
    double x, y, w, h; // the part; 0 <= x, x + w <= width
};

// The part becomes new_w x new_h, of which out_w x out_h at (left, top) are written.
struct resize_target {
    int new_w, new_h;
    int left, top, out_w, out_h;
};

void resize_part(struct resize *r, const struct resize_source *s, const struct resize_target *t,
                 uint8_t *out);
// The shorter side becomes `side`, and the middle square is kept.
void resize_square(struct resize *r, const uint8_t *src, int width, int height, int side,
                   uint8_t *out);
void resize_fini(struct resize *r);

#endif
