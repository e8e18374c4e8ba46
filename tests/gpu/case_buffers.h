// SPDX-License-Identifier: Apache-2.0
// The beginning of both devices of cuda_case.h: the sources of kernels, TAP, and how many buffers a
// case may have.
#ifndef TESTS_GPU_CASE_BUFFERS_H
#define TESTS_GPU_CASE_BUFFERS_H
#include "kernels/cuda/cuda_launch.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum { CASE_BUFFERS_MAX = 64 };

#endif
