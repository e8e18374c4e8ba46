// SPDX-License-Identifier: Apache-2.0
// Unpacks a file that dtctl carries.
#include "fleet/unpack.h"

#include "base/hash.h"

#include <string.h>
#include <zstd.h>

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
