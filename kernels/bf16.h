// SPDX-License-Identifier: Apache-2.0
// Between a float and the bits of a bfloat16.
#ifndef DTCTL_KERNELS_BF16_H
#define DTCTL_KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

static inline float bf16_widen(uint16_t bits) {
    uint32_t v = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &v, sizeof f);
    return f;
}

// To the nearest, ties to even; NaN stays NaN.
static inline uint16_t bf16_narrow(float f) {
    uint32_t v;
    memcpy(&v, &f, sizeof v);
    uint32_t near = (v + 0x7fffU + (v >> 16 & 1)) >> 16;
    return (uint16_t)((v & 0x7fffffffU) > 0x7f800000U ? v >> 16 | 0x40U : near);
}

#endif
