// SPDX-License-Identifier: Apache-2.0
// Requests at the health check port: no answer while one is incomplete, and then exactly one.
#include "agent/health_check.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct strbuf out = {0};
    bool done = health_answer((const char *)data, size, &out);
    must(done == (out.len > 0) && (done || size < HEALTH_REQUEST_BYTES_MAX));
    if (done)
        must(strncmp(out.data, "HTTP/1.1 ", 9) == 0 && strstr(out.data, "\r\n\r\n"));
    strbuf_fini(&out);
    return 0;
}
