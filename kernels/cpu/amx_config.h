// SPDX-License-Identifier: Apache-2.0
// The operand of LDTILECFG: eight tile registers of 16 rows of 64 bytes.
#ifndef DTCTL_KERNELS_CPU_AMX_CONFIG_H
#define DTCTL_KERNELS_CPU_AMX_CONFIG_H

#include <stdint.h>

static const struct amx_config {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#endif
