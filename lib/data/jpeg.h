// SPDX-License-Identifier: Apache-2.0
// JPEG to RGB through libjpeg-turbo. One decoder per thread; its memory grows to the largest image
// seen, within the limits below. Grey images become RGB, CMYK ones (Adobe's inverted kind too) are
// multiplied out. A truncated file is an error; lesser damage that the library repairs is not.
#ifndef DATA_JPEG_H
#define DATA_JPEG_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_PIXELS_MAX = 64 << 20,     // width times height
    JPEG_SIDE_MAX = 32768,          // pixels
    JPEG_FILE_BYTES_MAX = 128 << 20 // compressed
};

struct jpeg;

int jpeg_open(struct jpeg **out, struct err *e);
void jpeg_close(struct jpeg *j); // NULL is allowed

// The part of an image that is wanted, in pixels of the whole one, and by how much it is reduced
// while it is decoded (1, 2, 4, 8).
struct jpeg_part {
    int x, y, w, h;
    int reduction;
};

// Decoded pixels: at least the part, and what else came with it. They belong to the decoder and are
// valid until its next use.
struct jpeg_pixels {
    const uint8_t *rgb;
    int x, y; // of the first pixel, in the reduced image
    int width, height;
};

// From the header alone.
int jpeg_size(struct jpeg *j, const void *data, size_t len, int *width, int *height, struct err *e);
// Full decode; *rgb (width * height * 3) belongs to j and is valid until its next use.
int jpeg_decode(struct jpeg *j, const void *data, size_t len, const uint8_t **rgb, int *width,
                int *height, struct err *e);
// Decodes only the given part. Without reduction its pixels equal those of a full decode; data
// below the part is not read.
int jpeg_decode_part(struct jpeg *j, const void *data, size_t len, const struct jpeg_part *part,
                     struct jpeg_pixels *out, struct err *e);

#endif
