// SPDX-License-Identifier: Apache-2.0
// Plans the filter taps of a convolution: along one axis, output positions are grouped by the taps
// that fall inside the source, so that products with padding are never computed. Pure; no memory.
//
// The same description serves a convolution (positions of y, sources in x) and its data gradient
// (positions of x, sources in dy). Taps are kept in "slots", an order in which the taps of any
// group, and the source coordinates they read, are both consecutive.
#ifndef DTCTL_KERNELS_CPU_CONV_PLAN_H
#define DTCTL_KERNELS_CPU_CONV_PLAN_H

enum { conv_taps_max = 16, conv_groups_max = 3 * conv_taps_max + 2 };

// Positions first + i * step (i < count) read sources src + i * src_step + j through slot
// slot + j, j < taps. taps may be 0.
struct axis_group {
    int first, step, count;
    int slot, taps;
    int src, src_step;
};

struct axis_plan {
    int groups;
    struct axis_group group[conv_groups_max];
    int slot_tap[conv_taps_max];            // which tap of the filter a slot holds
    unsigned char slot_used[conv_taps_max]; // by any group
};

// in, out: lengths of x and y along the axis; k <= conv_taps_max, stride <= conv_taps_max.
void axis_plan_forward(struct axis_plan *p, int in, int out, int k, int stride, int pad);
void axis_plan_data(struct axis_plan *p, int in, int out, int k, int stride, int pad);

#endif
