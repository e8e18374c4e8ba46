// SPDX-License-Identifier: Apache-2.0
// The list of an input's files, as a run brings it to the nodes.
#ifndef TESTS_UNIT_COPIES_INPUT_LIST_H
#define TESTS_UNIT_COPIES_INPUT_LIST_H
#include "content/generation.h"
#include "sys/file.h"
#include "tests/tap.h"

// Writes the list of a folder's files to `path`. The manifest is the caller's.
static inline struct manifest *input_list_write(struct arena *a, const char *folder,
                                                const char *path) {
    struct manifest *m = manifest_new();
    struct strbuf list = {0};
    struct err e = {0};
    if (manifest_add_path(m, folder, "", &(struct manifest_rules){0}, &e) < 0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("no files: %s", e.text);
    generation_encode(m, &list);
    if (file_make_dirs(file_dir(a, path), 0755, &e) < 0 ||
        file_write_atomic(path, list.data, list.len, 0644, &e) < 0)
        bail_out("no list: %s", e.text);
    strbuf_fini(&list);
    return m;
}

#endif
