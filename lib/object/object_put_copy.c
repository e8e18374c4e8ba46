// SPDX-License-Identifier: Apache-2.0
// Objects of a mirror: the server copies those with the bytes of a file, and removes the rest.
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
void object_put_find_copies(struct upload *u, const struct s3_objects *live) {
    const char *folder = u->p->copies ? object_put_key(u, u->p->copies) : NULL;
    size_t len = folder ? strlen(folder) : 0;
    u->copies = arena_new(&u->arena, struct object_put_copy, live->count + 1);
    u->uncopied = arena_new(&u->arena, const struct manifest_entry *, u->p->files->count + 1);
    for (size_t i = 0; folder && i < live->count; i++) {
        const char *key = live->items[i].key;
        const char *slash = strncmp(key, folder, len) == 0 ? strchr(key + len, '/') : NULL;
        if (slash)
            u->copies[u->copy_count++] = (struct object_put_copy){slash + 1, &live->items[i]};
    }
    qsort(u->copies, u->copy_count, sizeof *u->copies, by_path);
}

// 1 and *out: an object with the bytes of the file. 0: none. -1: the file cannot be read.
static int copy_at(const struct upload *u, struct object_tags *file, const char *path,
                   const struct s3_object **out, struct err *e) {
    const struct object_put_copy key = {.path = path}, *end = u->copies + u->copy_count;
    const struct object_put_copy *c =
        u->copy_count ? bsearch(&key, u->copies, u->copy_count, sizeof key, by_path) : NULL;
    int same = 0;
    while (c && c > u->copies && by_path(c - 1, &key) == 0)
        c--;
    for (; c && same == 0 && c < end && by_path(c, &key) == 0; c++)
        if ((same = object_etag_matches(file, c->object, e)) > 0)
            *out = c->object;
    return same;
}

// The file KIND/PATH, or KIND/NODE/PATH where files of nodes are apart.
int object_put_find_copy(struct upload *u, struct object_tags *tags, const struct s3_object **out,
                         struct err *e) {
    const struct manifest_entry *file = tags->file;
    const char *first = strchr(file->path, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    if (u->copy_count == 0 || file->size > COPY_BYTES_MAX)
        return 0;
    int same = copy_at(u, tags, file->path, out, e);
    if (same || !second)
        return same;
    const char *path =
        arena_printf(&u->arena, "%.*s%s", (int)(first - file->path), file->path, second);
    return copy_at(u, tags, path, out, e);
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

// ---- objects that are to go ---------------------------------------------------------------------

// The mirrored kinds: the second name below the folder; every object, where none are named.
static bool may_go(const struct object_put *p, const char *below) {
    const char *kind = strchr(below, '/');
    if (!p->mirrored)
        return true;
    for (const char *const *k = p->mirrored; kind && *k; k++)
        if (strncmp(kind + 1, *k, strlen(*k)) == 0 && kind[1 + strlen(*k)] == '/')
            return true;
    return false;
}

static int by_name(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void on_removed(struct http_call *c, const struct err *e) {
    struct upload_part *part = c->ctx;
    struct upload *u = part->upload;
    part->busy = false;
    u->p->stay += e->code && e->code != ERR_NOT_FOUND;
    u->may_not_remove |= e->code == ERR_AUTH;
}

static int begin_remove(struct upload *u, const char *key, struct err *e) {
    struct upload_part *part;
    if (object_put_free_part(u, &part, e) < 0)
        return -1;
    s3_call_close(&part->call);
    part->upload = u;
    part->key = key;
    s3_call_set(&part->call, u->p->s3, "DELETE", u->p->bucket, key, NULL, NULL);
    part->call.http.on_end = on_removed;
    part->call.http.ctx = part;
    part->busy = true;
    http_begin(u->p->s3->http, &part->call.http);
    return 0;
}

int object_put_remove_rest(struct upload *u, const struct s3_objects *there, struct err *e) {
    const struct manifest *m = u->p->files;
    const char *folder = object_put_key(u, u->p->mirrors);
    size_t len = strlen(folder), count = 0;
    const char **keys = arena_new(&u->arena, const char *, m->count + 1);
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE)
            keys[count++] = object_put_key(u, m->entries[i].path);
    qsort(keys, count, sizeof *keys, by_name);
    for (size_t i = 0; i < there->count; i++) {
        const char *key = there->items[i].key;
        if (strncmp(key, folder, len) != 0 || !may_go(u->p, key + len) ||
            bsearch(&key, keys, count, sizeof *keys, by_name))
            continue;
        if (u->may_not_remove)
            u->p->stay++;
        else if (begin_remove(u, key, e) < 0)
            return -1;
    }
    return object_put_await(u, e);
}
