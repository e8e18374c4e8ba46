// SPDX-License-Identifier: Apache-2.0
// Workspace in bytes of the two halves of the convolution.
#ifndef DTCTL_KERNELS_CPU_CONV_WORK_H
#define DTCTL_KERNELS_CPU_CONV_WORK_H

#include "kernels/kernels.h"

size_t cpu_conv2d_rows_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s);
size_t cpu_conv2d_weight_workspace(const struct conv2d_shape *s);

#endif
