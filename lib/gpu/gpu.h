// SPDX-License-Identifier: Apache-2.0
// One GPU, through NVIDIA's driver: its properties, whether this program can use it, and its
// kernels.
//
//     gpu_open(&gpu, local_rank, false, e);
//     gpu_stay_near(gpu);
//     struct kernel_config config = {.device = gpu};
//     gpu_kernels.open(&ctx, &config); …
//     gpu_close(gpu);
//
// The stand-in of tests/gpu calls its device "emulated (tests only)". It is refused unless the
// caller asks for it.
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "base/err.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>

enum { GPU_NAME_BYTES_MAX = 128, GPU_ABOUT_BYTES_MAX = 256 };

struct gpu;

// The index-th of the GPUs that this process sees. ERR_NOT_FOUND: the machine has no driver or no
// GPU; every other error says what is wrong with the one it has, and what to do.
int gpu_open(struct gpu **out, int index, bool emulated, struct err *e);
// The number of GPUs that this process sees, usable or not; at least 1. Errors as of gpu_open.
int gpu_count(struct err *e);
// Keeps this thread, and those that it starts from now on, on those of its processors that belong
// to the GPU's NUMA node: copies between the node's memory and the GPU cross no other one.
// gpu_about says so. Where it may use none of them, or no others, it stays as it is.
void gpu_stay_near(struct gpu *g);
void gpu_close(struct gpu *g);               // NULL is allowed
size_t gpu_memory_free(const struct gpu *g); // bytes
const char *gpu_about(const struct gpu *g);  // for the line at the start
bool gpu_has_tf32(const struct gpu *g);      // whether products of KERNEL_TF32 are possible

// The table of kernels; kernel_config.device is the GPU, which outlives the context.
extern const struct kernel_backend gpu_kernels;

#endif
