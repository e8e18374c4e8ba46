// SPDX-License-Identifier: Apache-2.0
// Answers of a node about what it keeps: any bytes give only names that are safe in a shell.
#include "fleet/fleet_kept.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct kept out = {0};
    fleet_kept_parse(&a, (const char *)data, size, 3, &out);
    for (size_t i = 0; i < out.count; i++) {
        must(out.items[i].node_index == 3 && out.items[i].name[0]);
        must(!strpbrk(out.items[i].name, " ;$`'\"/\n"));
    }
    arena_fini(&a);
    return 0;
}
