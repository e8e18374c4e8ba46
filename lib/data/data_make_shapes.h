// SPDX-License-Identifier: Apache-2.0
// `dtctl data make-shapes`: a small data set for tests. progress is called at intervals and may end
// the work.
#ifndef DATA_DATA_MAKE_SHAPES_H
#define DATA_DATA_MAKE_SHAPES_H

#include "base/err.h"

#include <stdint.h>

struct data_shapes {
    const char *dir; // must not exist, or be empty
    uint32_t train, test;
    int size; // pixels per side
    uint64_t seed;
};

// The built-in shapes as a folder: train/<class>/000000.jpg, test/<class>/000000.jpg. The same
// numbers give the same bytes.
int data_make_shapes(const struct data_shapes *t,
                     int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                     void *ctx, struct err *e);

#endif
