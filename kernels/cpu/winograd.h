// SPDX-License-Identifier: Apache-2.0
// Private to the convolution: Winograd's form for 3x3 filters of stride 1 in float, and its tiles.
#ifndef DTCTL_KERNELS_CPU_WINOGRAD_H
#define DTCTL_KERNELS_CPU_WINOGRAD_H

#include "kernels/cpu/ctx.h"
#include "kernels/kernels.h"

// Whether the form can be used, and whether it is: by shape alone, and by the context's setting.
int winograd_exists(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
int winograd_forward_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
int winograd_data_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
int winograd_weight_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s);

// Bytes of the directions that use the form; enough for fewer images.
size_t winograd_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
void winograd_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *x,
                      const float *w, const float *bias, int relu, float *y);
void winograd_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *dy,
                            const float *w, float *dx, int accumulate);
void winograd_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const float *x,
                              const float *dy, float *dw, int accumulate);

// An axis of an image: `big` tiles of four outputs, then tiles of three. Of the last one the end
// may lie outside.
struct winograd_axis {
    int outputs, tiles, big;
};

// The tiles of all images.
struct winograd_grid {
    struct winograd_axis y, x;
    int64_t tiles;
};

struct winograd_tile {
    int64_t image;
    int y, x;   // the first output
    int ny, nx; // points
};

struct winograd_images {
    const float *at;
    int h, w, c;
};

// Rows that a run of tiles has in the planes of each class.
struct winograd_rows {
    int count[winograd_classes];
};

struct winograd_grid winograd_grid_of(int n, int out_h, int out_w);
struct winograd_tile winograd_tile_at(const struct winograd_grid *g, int64_t i);
static inline int winograd_in_class(const struct winograd_tile *t, int class) {
    return (t->ny == winograd_points || !(class & 1)) && (t->nx == winograd_points || class < 2);
}
void winograd_count(struct winograd_rows *rows, const struct winograd_tile *t);

// at[y][x], in rows of winograd_points: as many pixels along each axis as the tile has points, but
// for `fewer`, from `pad` before its first output on; outside the image `zeros`.
void winograd_pixels(const struct winograd_images *from, const struct winograd_tile *t, int pad,
                     int fewer, const float *zeros, const float **at);

// Floats of a plane, so that the same place in neighbouring planes falls on other cache sets.
static inline size_t winograd_plane(size_t floats) {
    enum { line = 16 };
    size_t lines = (floats + line - 1) / line;
    return (lines | 1) * line;
}

static inline int winograd_class(int plane) {
    return (plane / winograd_points == winograd_points - 1) +
           2 * (plane % winograd_points == winograd_points - 1);
}

// Workspaces: of a convolution of `in` channels to `out`, and of a weight gradient.
size_t winograd_rows_floats(const struct kernel_ctx *ctx, const struct winograd_grid *g, int in,
                            int out);
size_t winograd_weight_floats(const struct kernel_ctx *ctx, const struct winograd_grid *g,
                              const struct conv2d_shape *s);

#endif
