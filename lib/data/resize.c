// SPDX-License-Identifier: Apache-2.0
#include "data/resize.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESIZE_BITS = 22, RESIZE_ROUND = 1 << (RESIZE_BITS - 1) };

// What one output position reads: weights[0 … count-1] from first on.
struct window {
    int first, count;
    const int32_t *weights;
};

static double resize_triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

// The window of output position `at` when `in` pixels become `out`.
static struct window resize_window(int in, int out, int at, int32_t *weights) {
    double scale = (double)in / out, wide = scale < 1 ? 1 : scale;
    double center = (at + 0.5) * scale;
    int first = (int)(center - wide + 0.5), last = (int)(center + wide + 0.5);
    if (first < 0)
        first = 0;
    if (last > in)
        last = in;
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

// Half to even, as Python's round, which places the crop.
static int resize_half(int v) {
    return v % 2 == 0 ? v / 2 : v / 2 + (v / 2) % 2;
}

// Pillow leaves an axis alone that keeps its length, which the general case does not change either:
// its window is the pixel itself with the full weight.
static void resize_columns(struct resize *r, const uint8_t *src, int width, int height, int new_w,
                           int left, int side) {
    size_t pitch = (size_t)side * RESIZE_CHANNELS;
    for (int x = 0; x < side; x++) {
        struct window w = resize_window(width, new_w, left + x, r->weights);
        const uint8_t *from = src + (size_t)w.first * RESIZE_CHANNELS;
        uint8_t *to = r->rows + (size_t)x * RESIZE_CHANNELS;
        for (int y = 0; y < height; y++, to += pitch, from += (size_t)width * RESIZE_CHANNELS)
            for (int k = 0; k < RESIZE_CHANNELS; k++) {
                int32_t sum = RESIZE_ROUND;
                for (int i = 0; i < w.count; i++)
                    sum += from[i * RESIZE_CHANNELS + k] * w.weights[i];
                to[k] = resize_byte(sum);
            }
    }
}

static void resize_rows(struct resize *r, int height, int new_h, int top, int side, uint8_t *out) {
    size_t pitch = (size_t)side * RESIZE_CHANNELS;
    for (int y = 0; y < side; y++, out += pitch) {
        struct window w = resize_window(height, new_h, top + y, r->weights);
        const uint8_t *from = r->rows + (size_t)w.first * pitch;
        for (size_t x = 0; x < pitch; x++) {
            int32_t sum = RESIZE_ROUND;
            for (int i = 0; i < w.count; i++)
                sum += from[(size_t)i * pitch + x] * w.weights[i];
            out[x] = resize_byte(sum);
        }
    }
}

void resize_square(struct resize *r, const uint8_t *src, int width, int height, int side,
                   uint8_t *out) {
    int new_w = side, new_h = side;
    if (width > height)
        new_w = (int)((int64_t)side * width / height);
    else
        new_h = (int)((int64_t)side * height / width);
    int longest = width > height ? width : height;
    r->weights =
        resize_room(r->weights, &r->weights_room, ((size_t)longest * 2 + 4) * sizeof *r->weights);
    r->rows = resize_room(r->rows, &r->rows_room, (size_t)height * (size_t)side * RESIZE_CHANNELS);
    resize_columns(r, src, width, height, new_w, resize_half(new_w - side), side);
    resize_rows(r, height, new_h, resize_half(new_h - side), side, out);
}

void resize_fini(struct resize *r) {
    free(r->rows);
    free(r->weights);
    memset(r, 0, sizeof *r);
}
