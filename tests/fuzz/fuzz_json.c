// SPDX-License-Identifier: Apache-2.0
// The JSON reader: any bytes; what parses is written again and must parse to the same text.
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct json *v, *again;
    if (json_parse(&a, (const char *)data, size, &v, &e) == 0) {
        struct strbuf once = {0}, twice = {0};
        struct json_out j;
        json_open(&j, &once);
        json_value(&j, v);
        if (json_parse(&a, strbuf_cstr(&once), once.len, &again, &e) < 0)
            abort();
        json_open(&j, &twice);
        json_value(&j, again);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
            abort();
        strbuf_fini(&once);
        strbuf_fini(&twice);
    }
    arena_fini(&a);
    return 0;
}
