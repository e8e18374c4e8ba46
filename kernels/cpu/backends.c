// SPDX-License-Identifier: Apache-2.0
// The list of backends, found by name.
#include <string.h>

#include "kernels/kernels.h"

static const struct kernel_backend *const backends[] = {
    &kernels_cpu,
    &kernels_reference,
    &kernels_reference_f64,
};

const struct kernel_backend *kernels_at(int i) {
    int count = (int)(sizeof backends / sizeof backends[0]);
    return i >= 0 && i < count ? backends[i] : NULL;
}

const struct kernel_backend *kernels_find(const char *name) {
    for (int i = 0; kernels_at(i); i++)
        if (strcmp(kernels_at(i)->name, name) == 0)
            return kernels_at(i);
    return NULL;
}
