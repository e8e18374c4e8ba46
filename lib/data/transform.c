// SPDX-License-Identifier: Apache-2.0
// Folds a list of transforms into a view, and chooses at which reduction a JPEG is decoded.
#include "data/transform.h"

#include "base/philox.h"

#include <math.h>

// RandomResizedCrop as torchvision's defaults have it.
enum { CROP_TRIES = 10 };
static const double CROP_AREA_MIN = 0.08, CROP_RATIO_MIN = 3.0 / 4, CROP_RATIO_MAX = 4.0 / 3;

// Half to even, as Python's round.
static int transform_half(int v) {
    return v % 2 == 0 ? v / 2 : v / 2 + (v / 2) % 2;
}

static double transform_unit(uint32_t word) {
    return ((double)word + 0.5) / 4294967296.0;
}

// The middle, as large as the ratios allow: after ten tries that did not fit.
static void transform_crop_middle(struct transform_view *v) {
    double ratio = (double)v->w / v->h;
    int w = v->w, h = v->h;
    if (ratio < CROP_RATIO_MIN)
        h = (int)rint(w / CROP_RATIO_MIN);
    else if (ratio > CROP_RATIO_MAX)
        w = (int)rint(h * CROP_RATIO_MAX);
    h = h < 1 ? 1 : h > v->h ? v->h : h;
    w = w < 1 ? 1 : w > v->w ? v->w : w;
    v->x += (v->w - w) / 2;
    v->y += (v->h - h) / 2;
    v->w = w;
    v->h = h;
}

// Counter words 0 and 1 of try k choose area and shape, 2 and 3 the place. Try 0 uses position k =
// 1, since k = 0 belongs to the mirror and the shift (augment.c).
static void transform_resized_crop(struct transform_view *v, const struct transform_draw *d) {
    double area = (double)v->w * v->h;
    for (uint64_t k = 1; k <= CROP_TRIES; k++) {
        struct philox r = philox(d->seed, d->epoch, k << 32 | d->index);
        double part = area * (CROP_AREA_MIN + (1 - CROP_AREA_MIN) * transform_unit(r.word[0]));
        double low = log(CROP_RATIO_MIN), high = log(CROP_RATIO_MAX);
        double ratio = exp(low + (high - low) * transform_unit(r.word[1]));
        int w = (int)rint(sqrt(part * ratio)), h = (int)rint(sqrt(part / ratio));
        if (w < 1 || h < 1 || w > v->w || h > v->h)
            continue;
        v->x += (int)philox_below(r.word[2], (uint32_t)(v->w - w + 1));
        v->y += (int)philox_below(r.word[3], (uint32_t)(v->h - h + 1));
        v->w = w;
        v->h = h;
        return;
    }
    transform_crop_middle(v);
}

static void transform_resize(struct transform_view *v, int size) {
    int w = v->out_w, h = v->out_h;
    v->new_w = w > h ? (int)((int64_t)size * w / h) : size;
    v->new_h = w > h ? size : (int)((int64_t)size * h / w);
    v->out_w = v->new_w;
    v->out_h = v->new_h;
}

int transform_view(const struct transform *list, int width, int height,
                   const struct transform_draw *draw, struct transform_view *v, struct err *e) {
    *v = (struct transform_view){0, 0, width, height, width, height, 0, 0, width, height};
    for (; list->kind != TRANSFORM_END; list++) {
        int size = list->size;
        switch (list->kind) {
        case TRANSFORM_RESIZED_CROP:
            transform_resized_crop(v, draw);
            v->new_w = v->new_h = v->out_w = v->out_h = size;
            break;
        case TRANSFORM_RESIZE: transform_resize(v, size); break;
        case TRANSFORM_CENTER_CROP:
            if (size > v->out_w || size > v->out_h)
                return err_set(e, ERR_CONFIG, "an image of %d x %d has no middle of %d x %d",
                               v->out_w, v->out_h, size, size);
            v->left += transform_half(v->out_w - size);
            v->top += transform_half(v->out_h - size);
            v->out_w = v->out_h = size;
            break;
        case TRANSFORM_END: break;
        }
    }
    return 0;
}

int transform_reduction(const struct transform_view *v) {
    int by = 8;
    while (by > 1 && (v->w / by < v->new_w || v->h / by < v->new_h))
        by /= 2;
    return by;
}
