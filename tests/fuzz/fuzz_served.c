// SPDX-License-Identifier: Apache-2.0
// Any bytes as the head of an answer of the node's server of streamed inputs.
#include "data/served.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct served_answer a;
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    ssize_t n = served_answer_parse(copy, size, &a);
    must(n <= (ssize_t)size);
    must(n <= 0 ||
         (a.status >= 200 && a.status <= 999 && memcmp(copy + n - 4, "\r\n\r\n", 4) == 0));
    free(copy);
    return 0;
}
