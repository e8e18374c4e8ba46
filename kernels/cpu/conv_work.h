// SPDX-License-Identifier: Apache-2.0
// Private to the convolution: which form a shape takes, and the workspace of each in bytes.
#ifndef DTCTL_KERNELS_CPU_CONV_WORK_H
#define DTCTL_KERNELS_CPU_CONV_WORK_H

#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/pack.h"
#include "kernels/kernels.h"

size_t cpu_conv2d_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
size_t cpu_conv2d_weight_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);

// Output pixels whose source for one tap is inside: rectangle [y0, y1) x [x0, x1) of each image.
struct conv_tap {
    int ky, kx, y0, y1, x0, x1;
    int64_t count; // of an image
};
struct conv_tap conv_tap_at(const struct conv2d_shape *s, int tap);

// The weight gradient of spaced types (conv_weight_rows.c).
size_t conv_weight_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
void conv_weight_rows(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                      const void *dy, float *dw, int accumulate);

// Few channels of x: a pixel fills only part of a vector.
static inline int conv_narrow(const struct conv2d_shape *s) {
    return s->c <= 8;
}

// x with its border.
static inline struct image_source conv_padded_source(const struct conv2d_shape *s) {
    return (struct image_source){
        .n = s->n, .h = s->h, .w = s->w, .c = s->c, .border = s->pad, .store = s->x_store};
}

// By copied patches (conv_patch.c): filters that lie side by side, as a vision transformer's do,
// and filters or strides beyond the tables of conv_plan.h.
static inline int conv_by_patches(const struct conv2d_shape *s) {
    int beside = s->kh == s->stride && s->kw == s->stride && s->stride > 1 && s->pad == 0;
    return beside || s->kh > conv_taps_max || s->kw > conv_taps_max || s->stride > conv_taps_max;
}

size_t conv_patch_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
void conv_patch_forward(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                        const float *w, const float *bias, int relu, void *y);
void conv_patch_backward_data(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *dy,
                              const float *w, void *dx, int accumulate);
void conv_patch_backward_weight(struct kernel_ctx *ctx, const struct conv2d_shape *s, const void *x,
                                const void *dy, float *dw, int accumulate);

#endif
