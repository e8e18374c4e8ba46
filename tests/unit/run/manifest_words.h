// SPDX-License-Identifier: Apache-2.0
// Manifests in a line of text, for tests of inputs.
#ifndef TESTS_UNIT_RUN_MANIFEST_WORDS_H
#define TESTS_UNIT_RUN_MANIFEST_WORDS_H

#include "base/str.h"
#include "content/manifest.h"
#include "tests/tap.h"

#include <string.h>

// Words "PATH=CONTENT", where the content is a letter, and "PATH/" for folders. An upper letter is
// content that is not on this computer.
TAP_UNUSED static struct manifest *manifest_of(struct arena *a, const char *words) {
    struct manifest *m = manifest_new();
    struct err e;
    char **all;
    size_t count = *words ? str_split(a, words, ' ', &all) : 0;
    for (size_t i = 0; i < count; i++) {
        char *is = strchr(all[i], '=');
        struct manifest_entry x = {.kind = MANIFEST_FOLDER, .mode = 0755};
        if (is) {
            x = (struct manifest_entry){
                .kind = MANIFEST_FILE, .mode = 0644, .size = 1, .hashed = true};
            memset(x.hash, is[1], HASH_BYTES);
            x.source = is[1] >= 'a' ? arena_printf(a, "/data/%s", all[i]) : NULL;
            *is = '\0';
        } else
            all[i][strlen(all[i]) - 1] = '\0';
        x.path = all[i];
        if (manifest_append(m, &x, &e) < 0)
            bail_out("%s", e.text);
    }
    if (manifest_sort(m, &e) < 0)
        bail_out("%s", e.text);
    return m;
}

#endif
