// SPDX-License-Identifier: Apache-2.0
// One events file out of many, by time, without holding them: a piece of each is in memory. Events
// of one file stay in its order.
#ifndef RUN_EVENTS_MERGE_H
#define RUN_EVENTS_MERGE_H

#include "base/err.h"

#include <stddef.h>

enum { EVENTS_MERGE_PIECE_BYTES = 32 * 1024, EVENTS_MERGE_LINE_BYTES_MAX = 4 << 20 };

// Absent files are empty. A file that cannot be read, and lines above the limit, are left out with
// a warning. out is replaced at once, or stays what it was.
int events_merge(const char *const *paths, size_t count, const char *out, struct err *e);

#endif
