// SPDX-License-Identifier: Apache-2.0
#include "fleet/embed.h"

#include <string.h>

// Made by embed.sh; ends with an entry whose name is NULL. Weak, so that tests link without it.
extern const struct embed_file embed_files[] __attribute__((weak));

const struct embed_file *embed_at(size_t i) {
    if (!embed_files)
        return NULL;
    for (size_t n = 0; n <= i; n++)
        if (!embed_files[n].name)
            return NULL;
    return &embed_files[i];
}

const struct embed_file *embed_find(const char *name) {
    const struct embed_file *file;
    for (size_t i = 0; (file = embed_at(i)); i++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}
