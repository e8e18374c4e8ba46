// SPDX-License-Identifier: Apache-2.0
// The output of a node: any bytes are refused, or give records that stay inside the buffer and name
// only files of a run.
#include "follow/run_history.h"
#include "protocol/follow_record.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static const char *const nodes[] = {"a", "b"};
    struct arena arena = {0}, scratch = {0};
    struct run_history history;
    size_t at = 0;
    run_history_init(&history, &arena, nodes, 2);
    while (at < size) {
        struct follow_record r;
        struct follow_file file;
        struct err e = {0};
        const struct json *event = NULL;
        int64_t took = follow_record_read(data + at, size - at, &r, &e);
        if (took <= 0) {
            must(took == 0 || e.text[0]);
            break;
        }
        must((size_t)took <= size - at);
        if (r.kind == FOLLOW_BYTES) {
            must(r.data >= data && r.data + r.len <= data + size);
            must(follow_file_parse(r.name, &file) && !strstr(r.name, ".."));
            if (r.file.kind == FOLLOW_EVENTS)
                run_history_add(&history, &scratch, at % 2, (const char *)r.data, r.len, &event);
        }
        at += (size_t)took;
    }
    arena_fini(&arena);
    arena_fini(&scratch);
    return 0;
}
