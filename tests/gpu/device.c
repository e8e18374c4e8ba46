// SPDX-License-Identifier: Apache-2.0
// build/gpu/device: calls the part that its first argument names.
#include "tests/gpu/device_parts.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } parts[] = {
#define X(part) {#part, part},
        DEVICE_PARTS(X)
#undef X
    };
    for (size_t i = 0; argc > 2 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    fprintf(stderr, "usage: device PART INDEX…, where PART is one of");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fprintf(stderr, " %s", parts[i].name);
    fprintf(stderr, "\n");
    return 2;
}
