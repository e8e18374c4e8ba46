// SPDX-License-Identifier: Apache-2.0
// The kernel's lists of processors: "0-3,8".
#ifndef BASE_CPU_LIST_H
#define BASE_CPU_LIST_H

#include "base/err.h"

#include <sched.h>

enum { CPU_LIST_MAX = 8 * sizeof(cpu_set_t) }; // musl's CPU_SETSIZE counts bytes, not processors

// text ends with a zero or a line feed. Processors from CPU_LIST_MAX on are left out. ERR_FORMAT:
// text is no list; an empty one is.
int cpu_list_parse(const char *text, cpu_set_t *out, struct err *e);

#endif
