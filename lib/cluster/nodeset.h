// SPDX-License-Identifier: Apache-2.0
// Node sets: expands `user@gpu[01-04,07].lab:2222` to a list of logins, and folds names to a set.
//
//     struct nodeset set;
//     nodeset_parse(&arena, "root@10.0.0.[1-4], [fe80::1]:2222", &set, e);   // 5 nodes
//
// Grammar: sets are separated by commas or white space; a set is [user@]host[:port], with a host of
// base/hostlist.h. Brackets that contain a colon are an IPv6 address. Duplicates (same user, host
// and port) are errors. Pure: no names are resolved.
#ifndef CLUSTER_NODESET_H
#define CLUSTER_NODESET_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    NODESET_NODES_MAX = 4096,
    NODESET_TEXT_BYTES_MAX = 64 * 1024,
    NODESET_USER_BYTES_MAX = 64,
};

struct nodeset_login {
    const char *user; // NULL: not given
    const char *host; // name or numeric address, no brackets
    int port;         // 0: not given
};

struct nodeset {
    struct nodeset_login *logins; // in the order of the text
    size_t count;
};

// All memory is in the arena. ERR_CONFIG names the set and the position, ERR_LIMIT the limit.
int nodeset_parse(struct arena *a, const char *text, struct nodeset *out, struct err *e);
// Parses several texts (elements of a configuration array) into one list; checks duplicates.
int nodeset_parse_list(struct arena *a, const char *const *texts, size_t count, struct nodeset *out,
                       struct err *e);

// Expands a list of plain names with brackets (`node[0-3],node7`), for --node; no user, no port.
int nodeset_parse_names(struct arena *a, const char *text, char ***names, size_t *count,
                        struct err *e);

// Folds names in natural order: {"n1","n2","n3","x"} -> "n[1-3],x". Sorts names in place.
char *nodeset_fold(struct arena *a, const char **names, size_t count);

#endif
