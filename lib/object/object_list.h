// SPDX-License-Identifier: Apache-2.0
// The objects of a source, each with an address that needs no key and an identity for its content.
#ifndef OBJECT_OBJECT_LIST_H
#define OBJECT_OBJECT_LIST_H

#include "base/hash.h"
#include "object/s3.h"

struct object_list {
    struct s3 s3;
    struct uri from;
    bool folder; // the objects below a prefix; else one object, whose path is its last name
    struct s3_object *items;
    size_t count, skip; // skip: bytes of the prefix in front of the paths
    const char *url;    // https: where it was found after redirects does not matter
    int64_t wall_ms;    // when addresses were signed
};

// s3://BUCKET/KEY is the object of that key, or else the folder KEY/. https://… is one object.
// ERR_NOT_FOUND, ERR_AUTH, ERR_NET, ERR_FORMAT for keys that cannot be paths.
int object_list(struct object_list *l, struct arena *a, const char *source,
                const struct s3_user *user, int64_t wall_ms, struct err *e);
// When the addresses end, on the wall clock; 0: they do not.
int64_t object_list_ends_ms(const struct object_list *l);
// One line of JSON (main.c of dtdata has its members) with its newline.
void object_list_line(const struct object_list *l, size_t i, struct strbuf *line);
void object_list_close(struct object_list *l);

#endif
