// SPDX-License-Identifier: Apache-2.0
// The files that dtctl carries: finding, unpacking and checking them.
#include "fleet/bundle.h"

#include "base/hash.h"

#include <string.h>
#include <zstd.h>

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

// ---- unpacking ----------------------------------------------------------------------------------
// Unpacks a file that dtctl carries.

const void *unpack_embedded(struct arena *a, const struct embed_file *file, struct err *e) {
    char *data = arena_alloc(a, file->size ? file->size : 1, 16, 1);
    size_t n = ZSTD_decompress(data, file->size, file->data, file->size_packed);
    if (ZSTD_isError(n) || n != file->size) {
        err_set(e, ERR_FORMAT, "the embedded file '%s' does not unpack; this dtctl is damaged",
                file->name);
        return NULL;
    }
    unsigned char digest[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_of(digest, data, n);
    hash_hex(hex, digest);
    if (strcmp(hex, file->sha256) != 0) {
        err_set(e, ERR_HASH, "the embedded file '%s' has another hash; this dtctl is damaged",
                file->name);
        return NULL;
    }
    return data;
}

// ---- programs for nodes -------------------------------------------------------------------------
// The programs that dtctl brings to every node.

enum { NAME_HASH_DIGITS = 16 };

const char *programs_path(struct arena *a, const char *name) {
    const struct embed_file *file = embed_find(name);
    return file ? arena_printf(a, "bin/%s-%.*s", name, NAME_HASH_DIGITS, file->sha256) : NULL;
}

int programs_add_trainer(struct manifest *m, struct arena *a, struct err *e) {
    const struct embed_file *file = embed_find("dttrain");
    if (!file)
        return err_set(e, ERR_FAILED, "this dtctl carries no trainer: it was built without one");
    const void *data = unpack_embedded(a, file, e);
    if (!data)
        return -1;
    return manifest_add_bytes(m, programs_path(a, "dttrain"), data, file->size, 0755, e);
}
