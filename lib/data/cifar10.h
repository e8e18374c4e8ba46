// SPDX-License-Identifier: Apache-2.0
// CIFAR-10's binary files (Krizhevsky, 2009): records of one label byte and 3 planes of 32 x 32.
#ifndef DATA_CIFAR10_H
#define DATA_CIFAR10_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CIFAR10_SIDE = 32,
    CIFAR10_CLASSES = 10,
    CIFAR10_RECORD_BYTES = 1 + 3 * CIFAR10_SIDE * CIFAR10_SIDE,
    CIFAR10_RECORDS_MAX = 1 << 20 // per file
};

// len / CIFAR10_RECORD_BYTES images as HWC pixels, and their labels. ERR_FORMAT names the record.
int cifar10_convert(const uint8_t *records, size_t len, uint8_t *pixels, int32_t *labels,
                    struct err *e);

#endif
