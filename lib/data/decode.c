// SPDX-License-Identifier: Apache-2.0
// One image: header, view, decode of the part, resize.
#include "data/decode.h"

#include <string.h>

int decoder_open(struct decoder *d, struct err *e) {
    memset(d, 0, sizeof *d);
    return jpeg_open(&d->jpeg, e);
}

void decoder_close(struct decoder *d) {
    jpeg_close(d->jpeg);
    resize_fini(&d->resize);
    memset(d, 0, sizeof *d);
}

static int decode_size(const struct decode_plan *plan, const struct transform_view *v,
                       struct err *e) {
    if (v->out_w == plan->width && v->out_h == plan->height)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "image of %d x %d where others have %d x %d: set the image size to have all "
                   "resized",
                   v->out_w, v->out_h, plan->width, plan->height);
}

// The edge of an image whose size the reduction does not divide is one narrower pixel; the part may
// not reach beyond the pixels that there are.
static double decode_edge(double length, double from, int most) {
    return length > most - from ? most - from : length;
}

static void decode_resize(struct decoder *d, const struct transform_view *v,
                          const struct jpeg_part *part, const struct jpeg_pixels *p, uint8_t *out) {
    double by = part->reduction;
    struct resize_source s = {
        .pitch = (size_t)p->width * RESIZE_CHANNELS, .x = v->x / by - p->x, .y = v->y / by - p->y};
    // Pillow resizes the part as an image of its own: nothing around it is read.
    int left = (int)s.x, top = (int)s.y;
    s.x -= left;
    s.y -= top;
    s.pixels = p->rgb + (size_t)top * s.pitch + (size_t)left * RESIZE_CHANNELS;
    s.width = (int)((v->x + v->w + part->reduction - 1) / part->reduction) - p->x - left;
    s.height = (int)((v->y + v->h + part->reduction - 1) / part->reduction) - p->y - top;
    if (s.width > p->width - left)
        s.width = p->width - left;
    if (s.height > p->height - top)
        s.height = p->height - top;
    s.w = decode_edge(v->w / by, s.x, s.width);
    s.h = decode_edge(v->h / by, s.y, s.height);
    const struct resize_target t = {v->new_w, v->new_h, v->left, v->top, v->out_w, v->out_h};
    resize_part(&d->resize, &s, &t, out);
}

int decoder_image(struct decoder *d, const struct decode_plan *plan,
                  const struct transform_draw *draw, const void *jpeg, size_t len, uint8_t *out,
                  struct err *e) {
    int width, height;
    struct transform_view v;
    if (jpeg_size(d->jpeg, jpeg, len, &width, &height, e) < 0 ||
        transform_view(plan->list, width, height, draw, &v, e) < 0 || decode_size(plan, &v, e) < 0)
        return -1;
    bool whole = v.w == width && v.h == height;
    struct jpeg_part part = {v.x, v.y, v.w, v.h, plan->reduce ? transform_reduction(&v) : 1};
    struct jpeg_pixels p = {0};
    if (whole && part.reduction == 1) { // to its end, so that a cut file is found
        if (jpeg_decode(d->jpeg, jpeg, len, &p.rgb, &p.width, &p.height, e) < 0)
            return -1;
    } else if (jpeg_decode_part(d->jpeg, jpeg, len, &part, &p, e) < 0) {
        return -1;
    }
    if (whole && part.reduction == 1 && v.new_w == width && v.new_h == height && v.out_w == width &&
        v.out_h == height)
        memcpy(out, p.rgb, (size_t)width * (size_t)height * RESIZE_CHANNELS);
    else
        decode_resize(d, &v, &part, &p, out);
    return 0;
}
