// SPDX-License-Identifier: Apache-2.0
// Lines of JSON from a dtctl: any number of objects, and a last one with "end". An input without
// its last line is that of a dtctl that is gone.
#ifndef DTDATA_JSON_LINES_H
#define DTDATA_JSON_LINES_H

#include "base/json.h"

#define JSON_LINES_BYTES_MAX ((uint64_t)1 << 30) // of all lines
enum { JSON_LINES_LINE_BYTES_MAX = 16 << 20 };   // the first one may hold certificates

// Calls each with every line before the last one; number counts from 1. The trees are in the arena.
typedef int json_lines_each(void *ctx, const struct json *line, size_t number, struct err *e);
int json_lines_read(int fd, struct arena *a, json_lines_each *each, void *ctx, struct err *e);

#endif
