// SPDX-License-Identifier: Apache-2.0
// From stored bytes to what a network eats: random mirror, random shift (pad and crop), then
// out = (byte / 255 - mean) / std in exactly the float steps of torchvision's ToTensor + Normalize.
// (Training takes raw bytes, and the kernels' image_normalize, which rounds once, from double.)
//
// Random draws depend only on (seed, epoch, sample index), never on rank, batch or thread.
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUGMENT_CHANNELS_MAX = 4, AUGMENT_PAD_MAX = 512 };

// Zeroed std counts as 1, so a zeroed config only scales bytes to 0 … 1.
struct augment_config {
    bool flip;      // mirror left-right with probability one half
    bool alternate; // flip: draw once, and mirror what was not mirrored in the epoch before
    int crop_pad;   // pixels of zero bytes around the image before a crop of its own size; 0: none
    float mean[AUGMENT_CHANNELS_MAX], std[AUGMENT_CHANNELS_MAX];
    uint64_t seed;
};

// torchvision's usual constants for natural images.
extern const float augment_imagenet_mean[3], augment_imagenet_std[3];

struct augment_draw {
    int16_t offset_y, offset_x; // source pixel of output (0, 0); may be negative
    uint8_t flip;
};

struct augment_draw augment_draw(const struct augment_config *c, uint64_t epoch, uint32_t index);

// Table of the 256 possible results per channel: exact and fast.
struct augment_table {
    float value[AUGMENT_CHANNELS_MAX][256];
};
void augment_table_init(struct augment_table *t, const struct augment_config *c);

// One image: src and out are height x width x channels; outside the source counts as byte 0.
void augment_apply(const struct augment_table *t, const struct augment_draw *d, const uint8_t *src,
                   int height, int width, int channels, float *out);

#endif
