// SPDX-License-Identifier: Apache-2.0
// The XML reader: any bytes; every path and text that comes out is a string of bounded length.
#include "object/xml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_end(void *ctx, const char *path, const char *text, struct err *e) {
    (void)ctx;
    (void)e;
    if (strlen(path) > XML_DEPTH_MAX * (XML_NAME_BYTES_MAX + 1) ||
        strlen(text) > XML_TEXT_BYTES_MAX || !*path)
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct xml_events events = {on_end};
    struct err e = {0};
    xml_read((const char *)data, size, &events, NULL, &e);
    return 0;
}
