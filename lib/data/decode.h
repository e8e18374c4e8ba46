// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: from the bytes of a JPEG to the pixels of a view. One decoder per thread.
#ifndef DATA_DECODE_H
#define DATA_DECODE_H

#include "data/jpeg.h"
#include "data/resize.h"
#include "data/transform.h"

#include <stdbool.h>
#include <stdint.h>

struct decoder {
    struct jpeg *jpeg;
    struct resize resize;
};

int decoder_open(struct decoder *d, struct err *e);
void decoder_close(struct decoder *d); // safe on a zeroed one

// The processing of every image of a data set.
struct decode_plan {
    struct transform list[TRANSFORMS_MAX];
    int width, height; // of the result; another result is ERR_CONFIG
    // Decode at 1/2, 1/4 or 1/8 where the view leaves room for it. The pixels differ a little from
    // those of a full decode (docs/datasets.md), so evaluation does without.
    bool reduce;
};

// The view's pixels, width x height x 3, into out.
int decoder_image(struct decoder *d, const struct decode_plan *plan,
                  const struct transform_draw *draw, const void *jpeg, size_t len, uint8_t *out,
                  struct err *e);

#endif
