// SPDX-License-Identifier: Apache-2.0
// Files whose bytes the bucket has under another key: the server copies them.
#include "object/object_etag.h"
#include "object/object_put_impl.h"

#include <stdlib.h>
#include <string.h>

#define COPY_BYTES_MAX ((uint64_t)5 << 30) // of one request of S3

static int by_path(const void *x, const void *y) {
    return strcmp(((const struct object_put_copy *)x)->path,
                  ((const struct object_put_copy *)y)->path);
}

// prefix/copies/NODE/PATH
void object_put_find_copies(struct upload *u, const struct s3_objects *before) {
    const char *folder = u->p->copies ? object_put_key(u, u->p->copies) : NULL;
    size_t len = folder ? strlen(folder) : 0;
    u->copies = arena_new(&u->arena, struct object_put_copy, before->count + 1);
    u->uncopied = arena_new(&u->arena, const struct manifest_entry *, u->p->files->count + 1);
    for (size_t i = 0; folder && i < before->count; i++) {
        const char *key = before->items[i].key;
        const char *slash = strncmp(key, folder, len) == 0 ? strchr(key + len, '/') : NULL;
        if (slash)
            u->copies[u->copy_count++] = (struct object_put_copy){slash + 1, &before->items[i]};
    }
    qsort(u->copies, u->copy_count, sizeof *u->copies, by_path);
}

// 1 and *out: an object with the bytes of the file. 0: none. -1: the file cannot be read.
static int copy_at(const struct upload *u, const struct manifest_entry *file, const char *path,
                   const struct s3_object **out, struct err *e) {
    size_t low = 0, high = u->copy_count;
    int same = 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(u->copies[mid].path, path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; same == 0 && low < u->copy_count && strcmp(u->copies[low].path, path) == 0; low++)
        if ((same = object_etag_matches(file, u->copies[low].object, e)) > 0)
            *out = u->copies[low].object;
    return same;
}

// The file KIND/PATH, or KIND/NODE/PATH where files of nodes are apart.
int object_put_find_copy(struct upload *u, const struct manifest_entry *file,
                         const struct s3_object **out, struct err *e) {
    const char *first = strchr(file->path, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    if (u->copy_count == 0 || file->size > COPY_BYTES_MAX)
        return 0;
    int same = copy_at(u, file, file->path, out, e);
    if (same || !second)
        return same;
    const char *path =
        arena_printf(&u->arena, "%.*s%s", (int)(first - file->path), file->path, second);
    return copy_at(u, file, path, out, e);
}

// Its own permission is needed, and the answer 200 may be an error: the file is sent then.
static void on_copied(struct http_call *c, const struct err *e) {
    struct upload_part *part = c->ctx;
    struct upload *u = part->upload;
    part->busy = false;
    if (e->code || !strstr(strbuf_cstr(&c->body), "<ETag>")) {
        u->uncopied[u->uncopied_count++] = part->file;
        return;
    }
    u->done += part->file->size;
    u->p->copied++;
}

int object_put_begin_copy(struct upload *u, const struct manifest_entry *file, const char *key,
                          const struct s3_object *from, struct err *e) {
    struct upload_part *part;
    struct strbuf source = {0};
    if (object_put_free_part(u, &part, e) < 0)
        return -1;
    s3_call_close(&part->call);
    strbuf_addf(&source, "/%s/", u->p->bucket);
    uri_encode(&source, from->key, strlen(from->key), true);
    struct sigv4_pair headers[] = {
        {"x-amz-copy-source", arena_strdup(&u->arena, strbuf_cstr(&source))},
        {"x-amz-copy-source-if-match", arena_printf(&u->arena, "\"%s\"", from->etag)},
        {NULL, NULL}};
    strbuf_fini(&source);
    part->upload = u;
    part->file = file;
    part->key = key;
    s3_call_set(&part->call, u->p->s3, "PUT", u->p->bucket, key, NULL, headers);
    s3_call_body(&part->call, "", 0);
    part->call.http.on_end = on_copied;
    part->call.http.ctx = part;
    part->busy = true;
    http_begin(u->p->s3->http, &part->call.http);
    return 0;
}
