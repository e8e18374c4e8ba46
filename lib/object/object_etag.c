// SPDX-License-Identifier: Apache-2.0
// Compares MD5s of a file and of its parts with the ETag of an object.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_etag.h"

#include "base/str.h"
#include "object/object_put.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/md5.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

// The MD5 of the next `len` bytes. The file may have become shorter: the MD5 then differs.
static int sum(int fd, uint64_t len, unsigned char out[MD5_DIGEST_LENGTH], const char *name,
               struct err *e) {
    static char bytes[READ_BYTES];
    MD5_CTX md5;
    MD5_Init(&md5);
    while (len) {
        ssize_t n = read(fd, bytes, len < READ_BYTES ? (size_t)len : READ_BYTES);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "cannot read '%s'", name);
        if (n == 0)
            break;
        MD5_Update(&md5, bytes, (size_t)n);
        len -= (uint64_t)n;
    }
    MD5_Final(out, &md5);
    return 0;
}

// in_parts: the ETag that object_put's parts give. The server's own copies have none.
static int tag_of(const struct manifest_entry *file, bool in_parts, char out[OBJECT_TAG_BYTES_MAX],
                  struct err *e) {
    uint64_t bytes = in_parts ? object_put_part_bytes(file->size) : file->size;
    uint64_t left = file->size, count = 0;
    unsigned char digest[MD5_DIGEST_LENGTH];
    MD5_CTX all;
    auto_close int fd = open(file->source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_HASH : ERR_SYS, "cannot open '%s'", file->source);
    MD5_Init(&all);
    do {
        uint64_t len = left < bytes ? left : bytes;
        if (sum(fd, len, digest, file->source, e) < 0)
            return -1;
        MD5_Update(&all, digest, sizeof digest);
        left -= len;
        count++;
    } while (left);
    if (in_parts)
        MD5_Final(digest, &all);
    str_hex(out, digest, sizeof digest);
    if (in_parts)
        snprintf(out + strlen(out), 16, "-%llu", (unsigned long long)count);
    return 0;
}

int object_etag_matches(struct object_tags *t, const struct s3_object *o, struct err *e) {
    bool in_parts = strchr(o->etag, '-') != NULL;
    if (o->size != t->file->size || strlen(o->etag) < (size_t)2 * MD5_DIGEST_LENGTH)
        return 0;
    if (!t->known[in_parts] && tag_of(t->file, in_parts, t->text[in_parts], e) < 0)
        return -1;
    t->known[in_parts] = true;
    return strcasecmp(t->text[in_parts], o->etag) == 0;
}
