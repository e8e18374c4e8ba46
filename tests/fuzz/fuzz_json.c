// SPDX-License-Identifier: Apache-2.0
// The JSON reader: any bytes; what parses is written again and must parse to the same text.
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_value(struct json_out *j, const struct json *v) {
    switch (v->type) {
    case JSON_NULL: json_null(j, v->key); break;
    case JSON_BOOL: json_bool(j, v->key, v->boolean); break;
    case JSON_INT: json_int(j, v->key, v->integer); break;
    case JSON_NUM: json_num(j, v->key, v->number); break;
    case JSON_STR: json_strn(j, v->key, v->str, v->len); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        v->type == JSON_ARRAY ? json_array(j, v->key) : json_object(j, v->key);
        for (const struct json *c = v->child; c; c = c->next)
            write_value(j, c);
        json_end(j);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct json *v, *again;
    if (json_parse(&a, (const char *)data, size, &v, &e) == 0) {
        struct strbuf once = {0}, twice = {0};
        struct json_out j;
        json_open(&j, &once);
        write_value(&j, v);
        if (json_parse(&a, strbuf_cstr(&once), once.len, &again, &e) < 0)
            abort();
        json_open(&j, &twice);
        write_value(&j, again);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
            abort();
        strbuf_fini(&once);
        strbuf_fini(&twice);
    }
    arena_fini(&a);
    return 0;
}
