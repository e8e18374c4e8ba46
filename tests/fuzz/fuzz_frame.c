// SPDX-License-Identifier: Apache-2.0
// Frames from a hostile agent: what decodes must encode to the same bytes again.
#include "base/err.h"
#include "channel/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct wire_msg m;
    struct err e;
    size_t used;
    while (frame_take(&a, data, size, 1 << 16, &m, &used, NULL, &e) == 1) {
        struct strbuf again = {0};
        frame_put(&again, &m, NULL);
        must(again.len == used && memcmp(again.data, data, used) == 0);
        strbuf_fini(&again);
        data += used;
        size -= used;
    }
    arena_fini(&a);
    return 0;
}
