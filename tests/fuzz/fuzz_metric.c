// SPDX-License-Identifier: Apache-2.0
// Metrics: an expression, a newline, a line. Any expression is refused with words or compiles, and
// the search in any line ends soon.
#include "base/arena.h"
#include "base/clock.h"
#include "conf/metric_regex.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { SEARCH_NS_MAX = 1000000000 }; // of CPU; far above METRIC_LINE_MS_MAX: sanitizers are slow

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct metric_regex x;
    const unsigned char *end = memchr(data, '\n', size);
    size_t len = end ? (size_t)(end - data) : size;
    char *text = arena_strndup(&a, (const char *)data, len);
    char *line = arena_strndup(&a, end ? (const char *)end + 1 : "", end ? size - len - 1 : 0);
    if (metric_regex_compile(&x, text, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
    } else {
        double value = 0;
        int64_t began = clock_cpu_ns();
        metric_regex_find(&x, line, strlen(line), &value);
        must(clock_cpu_ns() - began < SEARCH_NS_MAX);
        metric_regex_fini(&x);
    }
    arena_fini(&a);
    return 0;
}
