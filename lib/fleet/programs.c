// SPDX-License-Identifier: Apache-2.0
// The programs that dtctl brings to every node.
#include "fleet/programs.h"

#include "fleet/embed.h"
#include "fleet/unpack.h"

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
