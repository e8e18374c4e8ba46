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

// From the header alone.
int jpeg_size(struct jpeg *j, const void *data, size_t len, int *width, int *height, struct err *e);
// Full decode; *rgb (width * height * 3) belongs to j and is valid until its next use.
int jpeg_decode(struct jpeg *j, const void *data, size_t len, const uint8_t **rgb, int *width,
                int *height, struct err *e);

#endif
