// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's lists of processors.
#include "base/cpu_list.h"

#include <ctype.h>
#include <stdlib.h>

int cpu_list_parse(const char *text, cpu_set_t *out, struct err *e) {
    CPU_ZERO(out);
    for (const char *p = text; *p && *p != '\n';) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return err_set(e, ERR_FORMAT, "'%.100s' is no list of processors", text);
        long first = strtol(p, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtol(end + 1, &end, 10);
        if ((*end && *end != ',' && *end != '\n') || last < first)
            return err_set(e, ERR_FORMAT, "'%.100s' is no list of processors", text);
        for (long cpu = first; cpu <= last && cpu < CPU_LIST_MAX; cpu++)
            CPU_SET((size_t)cpu, out);
        p = end + (*end == ',');
    }
    return 0;
}
