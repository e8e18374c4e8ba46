// SPDX-License-Identifier: Apache-2.0
// Lines that a node gives as records: what was not sealed with the key is refused with words, and
// nothing of it comes out.
#include "provider/cluster_backup.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static const unsigned char key[AES_GCM_KEY_BYTES] = "no line of the corpus has this";
    struct arena a = {0};
    // As a line of its own, and as the sealed part of each kind.
    for (int kind = RECORD_CLUSTER; kind <= RECORD_RUN; kind++) {
        struct err e = {0};
        char *line = arena_strndup(&a, (const char *)data, size), *text = NULL;
        size_t len = size, text_len = 1;
        if (cluster_backup_kind_of(line, len) < 0) {
            line = arena_printf(&a, "dtctl-record-1 %s %s", kind ? "run" : "cluster", line);
            len = strlen(line);
            must(len <= strlen("dtctl-record-1 cluster ") ||
                 cluster_backup_kind_of(line, len) == kind);
        }
        must(cluster_backup_open(&a, key, (enum record_kind)kind, line, len, &text, &text_len, &e) <
             0);
        must((e.code == ERR_FORMAT || e.code == ERR_AUTH) && e.text[0]);
    }
    arena_fini(&a);
    return 0;
}
