// SPDX-License-Identifier: Apache-2.0
// Any text as ~/.ssh/config, including itself.
#include "base/str.h"
#include "remote/ssh_config.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
    const char *data;
    size_t len;
    int reads;
};

static int read_again(void *ctx, struct arena *a, const char *pattern,
                      struct ssh_config_file **files, size_t *count, struct err *e) {
    struct text *t = ctx;
    (void)pattern;
    (void)e;
    *count = 0;
    if (t->reads++ > 3) // deeper only costs time
        return 0;
    *files = arena_new(a, struct ssh_config_file, 1);
    (*files)[(*count)++] = (struct ssh_config_file){"again", t->data, t->len};
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct text t = {(const char *)data, size, 0};
    struct ssh_config c = {0};
    struct ssh_config_query q = {
        .alias = "gpu01", .home = "/h", .user = "u", .read_files = read_again, .ctx = &t};
    struct ssh_config_file file = {"f", t.data, t.len};
    struct err e;
    if (ssh_config_add(&a, &q, &file, &c, &e) == 0 && ssh_config_finish(&a, &q, &c, &e) == 0) {
        must(c.host_name && c.port >= 0 && c.port <= 65535);
        for (size_t i = 0; i < c.identity_count; i++)
            must(c.identities[i] != NULL);
    }
    arena_fini(&a);
    return 0;
}
