// SPDX-License-Identifier: Apache-2.0
// Two passes, each with the window of every output position.
#include "data/resize.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESIZE_BITS = 22, RESIZE_ROUND = 1 << (RESIZE_BITS - 1) };

// One axis: the part [from, from + length) of `in` pixels becomes `out` positions.
struct axis {
    int in, out;
    double from, length;
};

// The inputs of one output position: weights[0 … count-1] from first on.
struct window {
    int first, count;
    const int32_t *weights;
};

static double resize_triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static struct window resize_window(const struct axis *a, int at, int32_t *weights) {
    double scale = a->length / a->out, wide = scale < 1 ? 1 : scale;
    double center = a->from + (at + 0.5) * scale;
    int first = (int)(center - wide + 0.5), last = (int)(center + wide + 0.5);
    if (first < 0)
        first = 0;
    if (last > a->in)
        last = a->in;
    double sum = 0;
    for (int i = first; i < last; i++)
        sum += resize_triangle((i - center + 0.5) / wide);
    for (int i = first; i < last; i++) {
        double w = resize_triangle((i - center + 0.5) / wide) / sum;
        weights[i - first] = (int32_t)(0.5 + w * (1 << RESIZE_BITS));
    }
    return (struct window){first, last - first, weights};
}

static uint8_t resize_byte(int32_t sum) {
    sum >>= RESIZE_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void *resize_room(void *buf, size_t *room, size_t bytes) {
    if (*room >= bytes)
        return buf;
    free(buf);
    *room = bytes;
    return heap_alloc(bytes);
}

// Pillow leaves an axis alone that keeps its length, which the general case does not change either:
// its window is the pixel itself with the full weight. Only the rows that are read are made.
static void resize_columns(struct resize *r, const struct resize_source *s, const struct axis *a,
                           const struct resize_target *t, int row, int rows) {
    size_t pitch = (size_t)t->out_w * RESIZE_CHANNELS;
    for (int x = 0; x < t->out_w; x++) {
        struct window w = resize_window(a, t->left + x, r->weights);
        const uint8_t *from =
            s->pixels + (size_t)row * s->pitch + (size_t)w.first * RESIZE_CHANNELS;
        uint8_t *to = r->rows + (size_t)x * RESIZE_CHANNELS;
        for (int y = 0; y < rows; y++, to += pitch, from += s->pitch) {
            int32_t red = RESIZE_ROUND, green = RESIZE_ROUND, blue = RESIZE_ROUND;
            const uint8_t *p = from;
            for (int i = 0; i < w.count; i++, p += RESIZE_CHANNELS) {
                red += p[0] * w.weights[i];
                green += p[1] * w.weights[i];
                blue += p[2] * w.weights[i];
            }
            to[0] = resize_byte(red);
            to[1] = resize_byte(green);
            to[2] = resize_byte(blue);
        }
    }
}

// Row by row into sums, so that the inner loop runs along the rows.
static void resize_rows(struct resize *r, const struct axis *a, const struct resize_target *t,
                        int row, uint8_t *out) {
    size_t pitch = (size_t)t->out_w * RESIZE_CHANNELS;
    int32_t *sum = r->weights + a->in + 4;
    for (int y = 0; y < t->out_h; y++, out += pitch) {
        struct window w = resize_window(a, t->top + y, r->weights);
        const uint8_t *from = r->rows + (size_t)(w.first - row) * pitch;
        for (size_t x = 0; x < pitch; x++)
            sum[x] = RESIZE_ROUND;
        for (int i = 0; i < w.count; i++, from += pitch)
            for (size_t x = 0; x < pitch; x++)
                sum[x] += from[x] * w.weights[i];
        for (size_t x = 0; x < pitch; x++)
            out[x] = resize_byte(sum[x]);
    }
}

void resize_part(struct resize *r, const struct resize_source *s, const struct resize_target *t,
                 uint8_t *out) {
    const struct axis across = {s->width, t->new_w, s->x, s->w};
    const struct axis down = {s->height, t->new_h, s->y, s->h};
    size_t longest = (size_t)(s->width > s->height ? s->width : s->height) + 4;
    size_t sums = (size_t)t->out_w * RESIZE_CHANNELS;
    r->weights = resize_room(r->weights, &r->weights_room, (longest + sums) * sizeof *r->weights);
    struct window w = resize_window(&down, t->top, r->weights);
    int first = w.first;
    w = resize_window(&down, t->top + t->out_h - 1, r->weights);
    int rows = w.first + w.count - first;
    r->rows = resize_room(r->rows, &r->rows_room, (size_t)rows * sums);
    resize_columns(r, s, &across, t, first, rows);
    resize_rows(r, &down, t, first, out);
}

// Half to even, as Python's round, which places the crop.
static int resize_half(int v) {
    return v % 2 == 0 ? v / 2 : v / 2 + (v / 2) % 2;
}

void resize_square(struct resize *r, const uint8_t *src, int width, int height, int side,
                   uint8_t *out) {
    struct resize_target t = {side, side, 0, 0, side, side};
    if (width > height)
        t.new_w = (int)((int64_t)side * width / height);
    else
        t.new_h = (int)((int64_t)side * height / width);
    t.left = resize_half(t.new_w - side);
    t.top = resize_half(t.new_h - side);
    const struct resize_source s = {
        src, (size_t)width * RESIZE_CHANNELS, width, height, 0, 0, width, height};
    resize_part(r, &s, &t, out);
}

void resize_fini(struct resize *r) {
    free(r->rows);
    free(r->weights);
    memset(r, 0, sizeof *r);
}
