// SPDX-License-Identifier: Apache-2.0
// Merges event files by time into one. Only a piece of each file is in memory. The order of events
// within a file is kept.
#ifndef FOLLOW_EVENTS_MERGE_H
#define FOLLOW_EVENTS_MERGE_H

#include "base/err.h"

#include <stddef.h>

enum { EVENTS_MERGE_PIECE_BYTES = 32 * 1024, EVENTS_MERGE_LINE_BYTES_MAX = 4 << 20 };

// Absent files count as empty. Unreadable files and lines above the limit are left out with a
// warning. Replaces `out` in one step, or leaves it as it was.
int events_merge(const char *const *paths, size_t count, const char *out, struct err *e);

#endif
