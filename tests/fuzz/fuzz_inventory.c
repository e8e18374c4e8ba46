// SPDX-License-Identifier: Apache-2.0
// The inventory file: any bytes are refused with words, or read, written and read again the same.
#include "cluster/inventory.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv, again;
    struct strbuf first = {0}, second = {0};
    if (inventory_parse(&a, (const char *)data, size, "fuzz", &inv, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
    } else {
        inventory_format(&inv, &first);
        must(inventory_parse(&a, first.data, first.len, "fuzz", &again, &e) == 0);
        inventory_format(&again, &second);
        must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
        for (size_t i = 0; i < inv.count; i++) {
            must(str_is_name(inv.nodes[i].name, INVENTORY_NAME_BYTES_MAX));
            must(!inv.nodes[i].host || inv.nodes[i].host[0] != '-');
            must(inv.nodes[i].root && inv.nodes[i].address);
        }
    }
    strbuf_fini(&first);
    strbuf_fini(&second);
    arena_fini(&a);
    return 0;
}
