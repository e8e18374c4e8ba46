// SPDX-License-Identifier: Apache-2.0
// Any bytes as CIFAR-10 records.
#include "data/cifar10.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err e = {0};
    size_t count = size / CIFAR10_RECORD_BYTES;
    uint8_t *pixels = malloc(count * (CIFAR10_RECORD_BYTES - 1) + 1);
    int32_t *labels = malloc((count + 1) * sizeof *labels);
    if (cifar10_convert(data, size, pixels, labels, &e) == 0)
        for (size_t i = 0; i < count; i++)
            must(labels[i] >= 0 && labels[i] < CIFAR10_CLASSES);
    free(pixels);
    free(labels);
    return 0;
}
