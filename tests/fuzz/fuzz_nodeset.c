// SPDX-License-Identifier: Apache-2.0
// Node sets: any text is either refused with words or gives logins that are safe to use, and the
// fold of the hosts gives the same hosts again.
#include "cluster/nodeset.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct nodeset set;
    char *text = arena_strndup(&a, (const char *)data, size);
    if (nodeset_parse(&a, text, &set, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
    } else {
        must(set.count >= 1 && set.count <= NODESET_NODES_MAX);
        for (size_t i = 0; i < set.count; i++) {
            const struct nodeset_login *l = &set.logins[i];
            must(l->host[0] && l->host[0] != '-' && !strpbrk(l->host, " ;$`'\"/\n"));
            must(!l->user || (l->user[0] && l->user[0] != '-'));
            must(l->port >= 0 && l->port <= 65535);
        }
    }
    char **names = NULL;
    size_t count = 0;
    if (nodeset_parse_names(&a, text, &names, &count, &e) == 0) {
        char *folded = nodeset_fold(&a, (const char **)names, count);
        char **again = NULL;
        size_t again_count = 0;
        // An IPv6 address does not fold into a name, and a fold can be longer than a set may be;
        // everything else comes back.
        if (!strchr(folded, ':') && strlen(folded) <= NODESET_TEXT_BYTES_MAX)
            must(nodeset_parse_names(&a, folded, &again, &again_count, &e) == 0 &&
                 again_count == count);
    }
    arena_fini(&a);
    return 0;
}
