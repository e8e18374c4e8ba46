// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JPEG: decoded, and the result resized. Large pictures only take long and are left
// out here.
#include "data/jpeg.h"
#include "data/resize.h"

#include <stdlib.h>
#include <string.h>

enum { PIXELS_MAX = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct jpeg *j;
    static struct resize r;
    static uint8_t small[24 * 24 * 3];
    struct err e = {0};
    const uint8_t *rgb;
    int width, height;
    if (!j && jpeg_open(&j, &e) < 0)
        abort();
    if (jpeg_size(j, data, size, &width, &height, &e) < 0 || (int64_t)width * height > PIXELS_MAX)
        return 0;
    if (jpeg_decode(j, data, size, &rgb, &width, &height, &e) < 0)
        return 0;
    size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *copy = malloc(bytes); // every byte must be there
    memcpy(copy, rgb, bytes);
    free(copy);
    resize_square(&r, rgb, width, height, 24, small);
    return 0;
}
