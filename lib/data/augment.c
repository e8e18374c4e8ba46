// SPDX-License-Identifier: Apache-2.0
// Random mirror and shift of an image, and its values as normalized floats.
#include "data/augment.h"

#include "base/philox.h"

#include <string.h>

const float augment_imagenet_mean[3] = {0.485F, 0.456F, 0.406F};
const float augment_imagenet_std[3] = {0.229F, 0.224F, 0.225F};

struct augment_draw augment_draw(const struct augment_config *c, uint64_t epoch, uint32_t index) {
    struct augment_draw d = {0};
    if (!c->flip && c->crop_pad == 0)
        return d;
    struct philox r = philox(c->seed, epoch, index);
    if (c->flip && c->alternate)
        d.flip = (uint8_t)((philox(c->seed, 0, index).word[0] >> 31) ^ (epoch & 1));
    else if (c->flip)
        d.flip = (uint8_t)(r.word[0] >> 31);
    if (c->crop_pad > 0) {
        uint32_t range = 2 * (uint32_t)c->crop_pad + 1;
        d.offset_y = (int16_t)((int)philox_below(r.word[1], range) - c->crop_pad);
        d.offset_x = (int16_t)((int)philox_below(r.word[2], range) - c->crop_pad);
    }
    return d;
}

void augment_table_init(struct augment_table *t, const struct augment_config *c) {
    for (int k = 0; k < AUGMENT_CHANNELS_MAX; k++) {
        float std = c->std[k] > 0 ? c->std[k] : 1.0F;
        for (int b = 0; b < 256; b++) {
            float unit = (float)b / 255.0F;
            float centred = unit - c->mean[k];
            t->value[k][b] = centred / std;
        }
    }
}

// count pixels of a row, read forwards or backwards.
static void augment_run(const struct augment_table *t, const uint8_t *src, ptrdiff_t src_step,
                        int channels, int count, float *out) {
    if (channels == 3) { // the usual case, unrolled by hand: this loop is the whole cost
        const float *r = t->value[0], *g = t->value[1], *b = t->value[2];
        for (int i = 0; i < count; i++, src += src_step, out += 3) {
            out[0] = r[src[0]];
            out[1] = g[src[1]];
            out[2] = b[src[2]];
        }
        return;
    }
    for (int i = 0; i < count; i++, src += src_step, out += channels)
        for (int k = 0; k < channels; k++)
            out[k] = t->value[k][src[k]];
}

static void augment_zero(const struct augment_table *t, int channels, int count, float *out) {
    for (int i = 0; i < count; i++, out += channels)
        for (int k = 0; k < channels; k++)
            out[k] = t->value[k][0];
}

static int augment_clamp(int v, int low, int high) {
    return v < low ? low : v > high ? high : v;
}

void augment_apply(const struct augment_table *t, const struct augment_draw *d, const uint8_t *src,
                   int height, int width, int channels, float *out) {
    // Columns [first, last) of the unmirrored output are inside the source. As in torchvision the
    // crop comes first and the mirror second. The order does not matter: both are uniform, and the
    // mirrored output is the mirrored crop.
    int first = augment_clamp(-d->offset_x, 0, width);
    int last = augment_clamp(width - d->offset_x, first, width);
    for (int y = 0; y < height; y++, out += (size_t)width * (size_t)channels) {
        int sy = y + d->offset_y;
        if (sy < 0 || sy >= height) {
            augment_zero(t, channels, width, out);
            continue;
        }
        const uint8_t *row = src + (size_t)sy * (size_t)width * (size_t)channels;
        const uint8_t *from = row + (ptrdiff_t)(first + d->offset_x) * channels;
        int inside = last - first;
        int left = d->flip ? width - last : first;
        augment_zero(t, channels, left, out);
        float *at = out + (size_t)left * (size_t)channels;
        if (d->flip && inside > 0)
            augment_run(t, from + (ptrdiff_t)(inside - 1) * channels, -channels, channels, inside,
                        at);
        else
            augment_run(t, from, channels, channels, inside, at);
        augment_zero(t, channels, width - left - inside, at + (size_t)inside * (size_t)channels);
    }
}
