// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JPEG: decoded, and the result resized; then a random part of it at a reduced
// scale. Large pictures only take long and are left out here.
#include "data/decode.h"

#include <stdlib.h>
#include <string.h>

enum { PIXELS_MAX = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_parts(const uint8_t *data, size_t size) {
    enum { SIDE = 12 };
    static struct decoder d;
    static const struct decode_plan plan = {
        .list = {{TRANSFORM_RESIZED_CROP, SIDE}}, .width = SIDE, .height = SIDE, .reduce = true};
    uint8_t out[SIDE * SIDE * 3];
    struct err e;
    if (!d.jpeg && decoder_open(&d, &e) < 0)
        abort();
    for (uint32_t i = 0; i < 4; i++) {
        const struct transform_draw draw = {size, 0, i};
        decoder_image(&d, &plan, &draw, data, size, out, &e);
    }
}

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
    decode_parts(data, size);
    return 0;
}
