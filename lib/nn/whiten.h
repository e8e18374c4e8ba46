// SPDX-License-Identifier: Apache-2.0
// Whitening: filters on patches of images whose outputs are uncorrelated and of equal variance. The
// eigenvectors of the covariance of patches, each divided by the root of its eigenvalue, and each
// once more with the other sign (Page, "How to train your ResNet", 2019, with the signs of Jordan,
// 2024). Pure; patches are added image after image.
#ifndef NN_WHITEN_H
#define NN_WHITEN_H

#include <stddef.h>
#include <stdint.h>

enum { WHITEN_PATCH_MAX = 8 * 8 * 3 };

struct whiten {
    int patch, channels, size; // size: numbers of a patch
    int64_t patches;
    double *sum; // size x size, of products; the upper half
};

// patch x patch x channels <= WHITEN_PATCH_MAX. whiten_end ends it.
void whiten_begin(struct whiten *w, int patch, int channels);
void whiten_end(struct whiten *w);
// All patches of one image of height x width x channels, each number (byte / 255 - mean) / std.
void whiten_add(struct whiten *w, const uint8_t *image, int height, int width, const float *mean,
                const float *std);
// 2 * size filters in the order of kernels.h, the largest eigenvalue first.
void whiten_filters(const struct whiten *w, float *filters);

// Eigenvalues of a symmetric n x n matrix, largest first, and the vectors in the rows of v. a is
// overwritten.
void whiten_eigen(double *a, int n, double *value, double *v);

#endif
