// SPDX-License-Identifier: Apache-2.0
// RGB to JPEG, for test data.
#ifndef DATA_JPEG_WRITE_H
#define DATA_JPEG_WRITE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { JPEG_WRITE_QUALITY = 95 };

// A baseline file of width x height RGB pixels; *out is the caller's to free. The same pixels give
// the same bytes.
int jpeg_write(const uint8_t *rgb, int width, int height, unsigned char **out, size_t *len,
               struct err *e);

#endif
