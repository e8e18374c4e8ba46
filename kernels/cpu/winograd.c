// SPDX-License-Identifier: Apache-2.0
// Cuts images into tiles for Winograd's convolution.
#include "kernels/cpu/winograd.h"

#include "kernels/cpu/share.h"

enum { big_outputs = 4, small_outputs = 3 };

static struct winograd_axis axis_of(int outputs) {
    struct winograd_axis a = {.outputs = outputs, .tiles = (int)div_up(outputs, big_outputs)};
    int spare = a.tiles * big_outputs - outputs;
    a.big = a.tiles - (spare < a.tiles ? spare : a.tiles);
    return a;
}

struct winograd_grid winograd_grid_of(int n, int out_h, int out_w) {
    struct winograd_grid g = {.y = axis_of(out_h), .x = axis_of(out_w)};
    g.tiles = (int64_t)n * g.y.tiles * g.x.tiles;
    return g;
}

static int first_output(const struct winograd_axis *a, int i) {
    return i < a->big ? i * big_outputs : a->big * big_outputs + (i - a->big) * small_outputs;
}

struct winograd_tile winograd_tile_at(const struct winograd_grid *g, int64_t i) {
    int64_t per_image = (int64_t)g->y.tiles * g->x.tiles;
    int rest = (int)(i % per_image), ty = rest / g->x.tiles, tx = rest % g->x.tiles;
    return (struct winograd_tile){.image = i / per_image,
                                  .y = first_output(&g->y, ty),
                                  .x = first_output(&g->x, tx),
                                  .ny = winograd_points - (ty >= g->y.big),
                                  .nx = winograd_points - (tx >= g->x.big)};
}

void winograd_count(struct winograd_rows *rows, const struct winograd_tile *t) {
    for (int i = 0; i < winograd_classes; i++)
        rows->count[i] += winograd_in_class(t, i);
}

void winograd_pixels(const struct winograd_images *from, const struct winograd_tile *t, int pad,
                     int fewer, const float *zeros, const float **at) {
    for (int i = 0; i < t->ny - fewer; i++) {
        int y = t->y - pad + i, inside = y >= 0 && y < from->h;
        const float *line = from->at + (t->image * from->h + (inside ? y : 0)) * from->w * from->c;
        for (int j = 0; j < t->nx - fewer; j++) {
            int x = t->x - pad + j;
            at[winograd_points * i + j] =
                inside && x >= 0 && x < from->w ? line + (ptrdiff_t)x * from->c : zeros;
        }
    }
}

size_t winograd_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    struct winograd_grid y = winograd_grid_of(s->n, kernel_conv_out(s->h, 3, 1, s->pad),
                                              kernel_conv_out(s->w, 3, 1, s->pad));
    struct winograd_grid x = winograd_grid_of(s->n, s->h, s->w);
    size_t forward = winograd_forward_wins(ctx, s) ? winograd_rows_floats(ctx, &y, s->c, s->o) : 0;
    size_t data = winograd_data_wins(ctx, s) ? winograd_rows_floats(ctx, &x, s->o, s->c) : 0;
    size_t weight = winograd_weight_wins(ctx, s) ? winograd_weight_floats(ctx, &y, s) : 0;
    size_t most = forward > data ? forward : data;
    return (most > weight ? most : weight) * sizeof(float);
}
