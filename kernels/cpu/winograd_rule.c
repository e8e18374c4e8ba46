// SPDX-License-Identifier: Apache-2.0
// Decides by shape where Winograd's form of a convolution is used. Costs count products of the
// direct form; their weights were measured with AVX-512, on one core of Zen 5 (kernels/README.md).
#include "kernels/cpu/winograd.h"

enum {
    channels_min = 16,      // fewer fill no vector
    point_cost = 460,       // of a tile's channel: all of its values at points, on either side
    near_weights = 1 << 17, // of a layer; 36 floats for each of so many fill a third-level cache
};
// Of a filter's values, or of its gradient's sums, for a channel: near, and beyond the caches.
static const int filter_cost[] = {250, 1300}, sum_cost[] = {750, 1300};

// Pairs of an output position and a tap that reads a pixel, along one axis.
static int64_t pairs_of(int in, int out, int pad) {
    int64_t n = 0;
    for (int tap = 0; tap < 3; tap++) {
        int begin = pad > tap ? pad - tap : 0, end = in + pad - tap < out ? in + pad - tap : out;
        n += end > begin ? end - begin : 0;
    }
    return n;
}

static int64_t points_of(const struct winograd_axis *a) {
    return (int64_t)a->tiles * (winograd_points - 1) + a->big;
}

int winograd_exists(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && s->pad <= 2 && s->type == KERNEL_FLOAT &&
           s->x_store == KERNEL_FLOAT && s->y_store == KERNEL_FLOAT &&
           ctx->winograd != KERNEL_WINOGRAD_NEVER;
}

// More images never turn the answer into no: workspaces rely on that.
static int wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s, int out_h, int out_w,
                const int cost[2]) {
    if (!winograd_exists(ctx, s))
        return 0;
    if (ctx->winograd == KERNEL_WINOGRAD_ALWAYS)
        return 1;
    if (s->c < channels_min || s->o < channels_min)
        return 0;
    struct winograd_grid one = winograd_grid_of(1, out_h, out_w);
    int64_t weights = (int64_t)s->c * s->o;
    int64_t direct = pairs_of(s->h, kernel_conv_out(s->h, 3, 1, s->pad), s->pad) *
                     pairs_of(s->w, kernel_conv_out(s->w, 3, 1, s->pad), s->pad) * weights;
    int64_t image =
        points_of(&one.y) * points_of(&one.x) * weights + one.tiles * (s->c + s->o) * point_cost;
    return (direct - image) * s->n > weights * cost[weights > near_weights];
}

int winograd_forward_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    int pad = s->pad;
    return wins(ctx, s, kernel_conv_out(s->h, 3, 1, pad), kernel_conv_out(s->w, 3, 1, pad),
                filter_cost);
}

int winograd_data_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    return wins(ctx, s, s->h, s->w, filter_cost);
}

int winograd_weight_wins(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    int pad = s->pad;
    return wins(ctx, s, kernel_conv_out(s->h, 3, 1, pad), kernel_conv_out(s->w, 3, 1, pad),
                sum_cost);
}
