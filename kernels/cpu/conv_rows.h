// SPDX-License-Identifier: Apache-2.0
// Private to conv_rows.c and conv_filters.c: a convolution or its data gradient while it runs.
#ifndef DTCTL_KERNELS_CPU_CONV_ROWS_H
#define DTCTL_KERNELS_CPU_CONV_ROWS_H

#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/ctx.h"

struct rows_job {
    const struct conv2d_shape *s;
    const struct kernel_ctx *ctx;
    const struct cpu_type *type;
    struct axis_plan y, x;
    int data;                                     // 0: convolution, 1: data gradient
    int images;                                   // that are done at a time
    int src_h, src_w, src_c, dst_h, dst_w, dst_c; // src_c: words of a pixel
    const float *src, *w, *bias;
    const float *end;       // of a source without a copy; NULL: words behind it can be read
    enum kernel_type store; // of dst
    void *dst;
    float *panels; // [panel of dst_c][y slot][x slot][src_c][tile_cols]
    int accumulate, relu;
};

// A worker's part of the panels of a struct rows_job.
void conv_rows_pack(void *arg, int worker, int workers);

#endif
