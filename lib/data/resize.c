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

// The two inner loops, which are nearly all of the time. Their results are the same bits however
// they are compiled, so the fastest that the CPU has is taken.
static inline __attribute__((always_inline)) void
resize_line(const uint8_t *from, const struct window *window, int count, uint8_t *to) {
    for (int x = 0; x < count; x++, to += RESIZE_CHANNELS) {
        const struct window *w = &window[x];
        const uint8_t *p = from + (size_t)w->first * RESIZE_CHANNELS;
        int32_t red = RESIZE_ROUND, green = RESIZE_ROUND, blue = RESIZE_ROUND;
        for (int i = 0; i < w->count; i++, p += RESIZE_CHANNELS) {
            red += p[0] * w->weights[i];
            green += p[1] * w->weights[i];
            blue += p[2] * w->weights[i];
        }
        to[0] = resize_byte(red);
        to[1] = resize_byte(green);
        to[2] = resize_byte(blue);
    }
}

static inline __attribute__((always_inline)) void
resize_add(const uint8_t *restrict from, int32_t weight, size_t count, int32_t *restrict sum) {
    for (size_t x = 0; x < count; x++)
        sum[x] += from[x] * weight;
}

struct resize_loops {
    void (*line)(const uint8_t *from, const struct window *window, int count, uint8_t *to);
    void (*add)(const uint8_t *restrict from, int32_t weight, size_t count, int32_t *restrict sum);
};

#ifdef __clang__
#define RESIZE_VECTORS
#else
#define RESIZE_VECTORS __attribute__((optimize("tree-vectorize")))
#endif
#define RESIZE_LOOPS(isa, target)                                                                  \
    target RESIZE_VECTORS static void resize_line_##isa(                                           \
        const uint8_t *from, const struct window *window, int count, uint8_t *to) {                \
        resize_line(from, window, count, to);                                                      \
    }                                                                                              \
    target RESIZE_VECTORS static void resize_add_##isa(                                            \
        const uint8_t *restrict from, int32_t weight, size_t count, int32_t *restrict sum) {       \
        resize_add(from, weight, count, sum);                                                      \
    }
RESIZE_LOOPS(plain, )
static const struct resize_loops resize_plain = {resize_line_plain, resize_add_plain};

#ifdef __x86_64__
RESIZE_LOOPS(avx2, __attribute__((target("avx2"))))
static const struct resize_loops resize_avx2 = {resize_line_avx2, resize_add_avx2};

static const struct resize_loops *resize_loops(void) {
    return __builtin_cpu_supports("avx2") ? &resize_avx2 : &resize_plain;
}
#else
static const struct resize_loops *resize_loops(void) {
    return &resize_plain;
}
#endif

// The windows of all output positions of an axis, with their weights behind one another.
static void resize_windows(struct resize *r, const struct axis *a, int at, int count) {
    double scale = a->length / a->out;
    size_t widest = (size_t)(scale < 1 ? 1 : scale) * 2 + 4;
    r->windows = resize_room(r->windows, &r->windows_room, (size_t)count * sizeof(struct window));
    r->weights =
        resize_room(r->weights, &r->weights_room, (size_t)count * widest * sizeof *r->weights);
    struct window *w = r->windows;
    for (int i = 0; i < count; i++)
        w[i] = resize_window(a, at + i, r->weights + (size_t)i * widest);
}

// Pillow leaves an axis alone that keeps its length, which the general case does not change either:
// its window is the pixel itself with the full weight. Only the rows that are read are made.
static void resize_columns(struct resize *r, const struct resize_source *s, const struct axis *a,
                           const struct resize_target *t, int row, int rows) {
    size_t pitch = (size_t)t->out_w * RESIZE_CHANNELS;
    const struct resize_loops *loops = resize_loops();
    resize_windows(r, a, t->left, t->out_w);
    for (int y = 0; y < rows; y++)
        loops->line(s->pixels + (size_t)(row + y) * s->pitch, r->windows, t->out_w,
                    r->rows + (size_t)y * pitch);
}

// Row by row into sums, so that the inner loop runs along the rows.
static void resize_rows(struct resize *r, const struct axis *a, const struct resize_target *t,
                        int row, uint8_t *out) {
    size_t pitch = (size_t)t->out_w * RESIZE_CHANNELS;
    const struct resize_loops *loops = resize_loops();
    r->sums = resize_room(r->sums, &r->sums_room, pitch * sizeof *r->sums);
    resize_windows(r, a, t->top, t->out_h);
    const struct window *windows = r->windows;
    for (int y = 0; y < t->out_h; y++, out += pitch) {
        const struct window *w = &windows[y];
        const uint8_t *from = r->rows + (size_t)(w->first - row) * pitch;
        for (size_t x = 0; x < pitch; x++)
            r->sums[x] = RESIZE_ROUND;
        for (int i = 0; i < w->count; i++, from += pitch)
            loops->add(from, w->weights[i], pitch, r->sums);
        for (size_t x = 0; x < pitch; x++)
            out[x] = resize_byte(r->sums[x]);
    }
}

// The rows that the output reads: from the first of its first window on.
static int resize_span(struct resize *r, const struct axis *a, const struct resize_target *t,
                       int *count) {
    resize_windows(r, a, t->top, t->out_h);
    const struct window *first = r->windows, *last = first + t->out_h - 1;
    *count = last->first + last->count - first->first;
    return first->first;
}

void resize_part(struct resize *r, const struct resize_source *s, const struct resize_target *t,
                 uint8_t *out) {
    const struct axis across = {s->width, t->new_w, s->x, s->w};
    const struct axis down = {s->height, t->new_h, s->y, s->h};
    int rows, first = resize_span(r, &down, t, &rows);
    r->rows =
        resize_room(r->rows, &r->rows_room, (size_t)rows * (size_t)t->out_w * RESIZE_CHANNELS);
    resize_columns(r, s, &across, t, first, rows);
    resize_rows(r, &down, t, first, out);
}

// Half to even, as Python's round, which places the crop.
static int resize_half(int v) {
    return (v + v / 2 % 2) / 2;
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
    free(r->windows);
    free(r->sums);
    memset(r, 0, sizeof *r);
}
