// SPDX-License-Identifier: Apache-2.0
// Private to object_put.
#ifndef OBJECT_OBJECT_PUT_IMPL_H
#define OBJECT_OBJECT_PUT_IMPL_H

#include "base/base64.h"
#include "object/object_etag.h"
#include "object/object_put.h"

enum { OBJECT_PUT_MD5_BYTES = 16 };

struct upload_part {
    struct s3_call call;
    struct upload *upload;
    const struct manifest_entry *file;
    const char *key;
    char *data;
    size_t len;
    uint32_t number; // from 1; 0: the whole file
    char md5[BASE64_ENCODED_BYTES(OBJECT_PUT_MD5_BYTES)], md5_hex[2 * OBJECT_PUT_MD5_BYTES + 1];
    char number_text[16];
    bool busy;
};

struct upload {
    struct object_put *p;
    struct arena arena;
    struct upload_part parts[OBJECT_PUTS_MAX];
    uint64_t done, total;
    struct err err, first; // first: of a file that was left out, see tolerant
    bool *left_out;        // by entry
    bool may_not_remove;   // the server has refused to remove an object
    int64_t told_ms;
    // Of the file in parts that is under way.
    const char *id;
    const char **etags;
    // Objects that the server can copy, by path.
    struct object_put_copy {
        const char *path;
        const struct s3_object *object;
    } * copies;
    size_t copy_count;
    // Files that it has not copied.
    const struct manifest_entry **uncopied;
    size_t uncopied_count;
};

const char *object_put_key(struct upload *u, const char *path); // of a path below the prefix
// Waits until a request may begin.
int object_put_free_part(struct upload *u, struct upload_part **out, struct err *e);
int object_put_await(struct upload *u, struct err *e); // all requests

// object_put_copy.c: objects of p->copies.
void object_put_find_copies(struct upload *u, const struct s3_objects *live);
// 1 and *out: an object with the bytes of the file. 0: none. -1: the file cannot be read.
int object_put_find_copy(struct upload *u, struct object_tags *tags, const struct s3_object **out,
                         struct err *e);
// A copy that fails is one of u->uncopied at its end.
int object_put_begin_copy(struct upload *u, const struct manifest_entry *file, const char *key,
                          const struct s3_object *from, struct err *e);
// Removes what is there of p->mirrors and is no file. Needs a permission of its own: the first
// refusal ends it. p->stay counts what is not removed.
int object_put_remove_rest(struct upload *u, const struct s3_objects *there, struct err *e);

#endif
