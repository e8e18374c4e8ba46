// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tar archive: every member is read and offered to the image layout; all of it is
// checked as the archive of an environment.
#include "content/env_archive.h"
#include "data/layout.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBER_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err e = {0};
    struct arena arena = {0};
    struct tar t;
    struct tar_entry entry;
    struct layout l;
    uint64_t before = 0;
    layout_init(&l, &arena, size % 2 ? DATASET_TRAIN : DATASET_TEST);
    tar_open_input(&t, tar_input_memory(data, size));
    while (tar_next(&t, &entry, &e) > 0) {
        must(entry.offset > before && entry.offset <= size);
        must(strnlen(entry.path, sizeof entry.path) < sizeof entry.path);
        must(strnlen(entry.link, sizeof entry.link) < sizeof entry.link && entry.mtime_s >= 0);
        before = entry.offset;
        if (layout_add(&l, entry.path, entry.offset, entry.size, 0, &e) < 0)
            break;
        if (entry.type != TAR_FILE || entry.size > MEMBER_BYTES_MAX)
            continue;
        uint8_t *copy = malloc(entry.size + 1);
        int bad = tar_read(&t, copy, entry.size, &e);
        must(bad || memcmp(copy, data + entry.offset, entry.size) == 0);
        free(copy);
        if (bad)
            break;
    }
    if (layout_finish(&l, &e) == 0)
        for (size_t i = 0; i < l.count; i++)
            must(l.items[i].label >= 0 && l.items[i].label < l.class_count);
    layout_fini(&l);
    tar_close(&t);
    struct env_archive facts;
    if (env_archive_check_input(tar_input_memory(data, size), &facts, NULL, NULL, &e) == 0)
        must(facts.total.entries > 0 && facts.total.bytes <= facts.total.disk_bytes &&
             facts.total.bytes <= size);
    arena_fini(&arena);
    return 0;
}
