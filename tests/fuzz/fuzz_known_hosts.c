// SPDX-License-Identifier: Apache-2.0
// Any text as known_hosts, as a key (public or private) and as an ignore file.
#include "base/hash.h"
#include "content/ignore.h"
#include "remote/known_hosts.h"
#include "remote/ssh_key.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    struct known_hosts_found f = {0}, port = {0};
    struct err e;
    void *blob = NULL;
    size_t len = 0;
    char *text = arena_strndup(&a, (const char *)data, size);
    if (known_hosts_parse_key(&a, text, &blob, &len, &e) == 0) {
        void *again;
        size_t again_len;
        char *line = known_hosts_format(&a, "h", 22, blob, len);
        must(known_hosts_parse_key(&a, line + 2, &again, &again_len, &e) == 0);
        must(again_len == len && memcmp(again, blob, len) == 0);
        known_hosts_search("f", line, strlen(line), "h", 22, blob, len, &f);
        must(f.match && !f.differs);
    }
    const char *public_key = NULL;
    if (ssh_key_public(&a, text, "c", &public_key, &e) == 0)
        must(known_hosts_parse_key(&a, public_key, &blob, &len, &e) == 0);
    memset(&f, 0, sizeof f);
    known_hosts_search("f", (const char *)data, size, "gpu01", 22, blob, len, &f);
    known_hosts_search("f", (const char *)data, size, "gpu01", 2200, blob, len, &port);
    must(!(f.match && f.differs) && (blob || (!f.match && !f.revoked)));
    struct ignore ig = {0};
    if (ignore_add(&a, &ig, "base", text, strlen(text), &e) == 0) {
        (void)ignore_match(&ig, "base/a/b.c", false);
        (void)ignore_match(&ig, "base/a", true);
    }
    arena_fini(&a);
    return 0;
}
