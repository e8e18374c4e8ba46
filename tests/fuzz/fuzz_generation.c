// SPDX-License-Identifier: Apache-2.0
// Lists of generations from other nodes: any bytes give only paths below a folder, none of them
// below a file or link, and encode to a list that says the same.
#include "content/generation.h"
#include "sys/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct manifest *m = NULL, *again = NULL;
    struct strbuf list = {0};
    struct err e;
    if (generation_decode(data, size, &m, &e) < 0)
        return 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        must(file_is_safe_relative(n->path, strlen(n->path)));
        must((n->kind == MANIFEST_LINK) == (n->target != NULL));
    }
    generation_encode(m, &list);
    must(generation_decode(list.data, list.len, &again, &e) == 0 && again->count == m->count);
    manifest_free(again);
    manifest_free(m);
    strbuf_fini(&list);
    return 0;
}
