// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of `dtctl import`: any bytes are refused with their line, or become a
// configuration that the reader of dtctl.toml accepts.
#ifndef TESTS_FUZZ_IMPORT_H
#define TESTS_FUZZ_IMPORT_H

#include "convert/convert.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int import_any(const char *format, const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct strbuf out = {0};
    struct convert_draft d = {.arena = &a, .tool = format, .file = "fuzz"};
    const char *text = arena_strndup(&a, (const char *)data, size);
    if (convert_find(format)->read(&d, text, size, &e) < 0)
        must(e.code == ERR_CONFIG && strstr(e.text, "line "));
    else
        must(convert_draft_write(&d, &out, &e) == 0 && out.len > 0);
    for (size_t i = 0; i < d.note_count; i++)
        must(d.notes[i].text[0] && d.notes[i].from.name);
    strbuf_fini(&out);
    arena_fini(&a);
    return 0;
}

#endif
