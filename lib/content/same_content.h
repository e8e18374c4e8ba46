// SPDX-License-Identifier: Apache-2.0
// Compares the bytes of two files.
#ifndef CONTENT_SAME_CONTENT_H
#define CONTENT_SAME_CONTENT_H

#include "content/content_tick.h"

#include <stdbool.h>

// Neither path may be a symbolic link.
int same_content(const char *x, const char *y, const struct content_ticks *ticks, bool *same,
                 struct err *e);

#endif
