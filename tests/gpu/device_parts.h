// SPDX-License-Identifier: Apache-2.0
// Parts of build/gpu/device, the program of tests/gpu/run and benchmarks/gpu/run that works on a
// GPU. Each part is a main: argv[0] is its name, argv[1] the number of the GPU.
#ifndef TESTS_GPU_DEVICE_PARTS_H
#define TESTS_GPU_DEVICE_PARTS_H

#define DEVICE_PARTS(X)                                                                            \
    X(test_cuda_flat)   /* INDEX [FAMILY]: the cases of tests/gpu/test_cuda_flat.c, as TAP */      \
    X(test_cuda_layers) /* the same */                                                             \
    X(test_cuda_product)                                                                           \
    X(test_cuda_rows)                                                                              \
    X(device_speed)  /* INDEX: what the GPU can do at most, as one JSON object */                  \
    X(device_memory) /* INDEX: what others take of its memory until the end of standard input */

#define X(part) int part(int argc, char **argv);
DEVICE_PARTS(X)
#undef X

#endif
