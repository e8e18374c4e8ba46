// SPDX-License-Identifier: Apache-2.0
// Lists sources, and finds out size and ETag of an https address.
#include "object/object_list.h"

#include "base/json.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

static void add(struct object_list *l, const char *key, const char *etag, uint64_t size) {
    l->items = heap_realloc(l->items, (l->count + 1) * sizeof *l->items);
    l->items[l->count++] = (struct s3_object){key, etag, size};
}

// ---- https --------------------------------------------------------------------------------------

// Requests one byte, because addresses that are signed for GET refuse HEAD. A server that ignores
// the range sends more bytes, which are not read.
static int stop_reading(struct http_call *c, const void *p, size_t len, struct err *e) {
    (void)p;
    (void)len;
    return c->status == 206 ? 0 : err_set(e, ERR_EXISTS, "enough");
}

static int size_of(const struct http_call *c, int64_t *size, struct err *e) {
    const char *slash = strrchr(c->range, '/');
    if (c->status == 206 && slash && str_parse_i64(slash + 1, 0, INT64_MAX, size, e) == 0)
        return 0;
    *size = c->length;
    return c->status != 206 && *size >= 0
               ? 0
               : err_set(e, ERR_FORMAT, "the server does not report the size");
}

static int list_https(struct object_list *l, struct err *e) {
    struct arena *a = l->s3.arena;
    struct http_call c = {.method = "GET",
                          .url = l->from.url,
                          .follow = true,
                          .headers = {{"Range", "bytes=0-0"}},
                          .header_count = 1,
                          .on_data = stop_reading};
    int64_t size = -1;
    const char *end = l->from.url + strcspn(l->from.url, "?"), *start = end;
    while (start[-1] != '/')
        start--;
    const char *name = uri_decode(a, arena_strndup(a, start, (size_t)(end - start)));
    if (!name || !file_is_safe_relative(name, strlen(name)) || strchr(name, '/'))
        return err_set(e, ERR_CONFIG, "'%.300s' does not end with the name of a file", l->from.url);
    if (!l->s3.ca_len)
        return err_set(e, ERR_CONFIG,
                       "this computer has no file of certificates (try: set "
                       "SSL_CERT_FILE, or install ca-certificates)");
    int result = http_run(l->s3.http, &c, e);
    if (result < 0 && e->code == ERR_EXISTS && c.status == 200) {
        err_clear(e);
        result = 0;
    } else if (c.status == 416) { // an empty file has no first byte
        err_clear(e);
        c.status = 200;
        c.length = result = 0;
    }
    if (result == 0)
        result = size_of(&c, &size, e);
    if (result == 0)
        add(l, name, s3_etag(a, c.etag), (uint64_t)size);
    http_call_close(&c);
    return result < 0 ? err_wrap(e, "'%.300s'", l->from.url) : 0;
}

// ---- s3 -----------------------------------------------------------------------------------------

static int check_paths(const struct object_list *l, struct err *e) {
    for (size_t i = 0; i < l->count; i++) {
        const char *path = l->items[i].key + l->skip;
        if (!file_is_safe_relative(path, strlen(path)))
            return err_set(e, ERR_FORMAT,
                           "the key '%.300s' cannot be the path of a file (try: exclude it by a "
                           "longer prefix)",
                           l->items[i].key);
    }
    return 0;
}

static int list_s3(struct object_list *l, struct err *e) {
    struct arena *a = l->s3.arena;
    const char *bucket = l->from.bucket, *key = l->from.key;
    struct s3_objects found = {0};
    bool slash = !*key || str_ends(key, "/");
    // The first key with this prefix is the key itself, if there is an object of that name.
    int result = slash ? 0 : s3_list(&l->s3, bucket, key, 1, &found, e);
    l->folder = !(result == 0 && found.count && strcmp(found.items[0].key, key) == 0);
    if (result == 0 && l->folder) {
        found.count = 0;
        key = slash ? key : arena_printf(a, "%s/", key);
        result = s3_list(&l->s3, bucket, key, 0, &found, e);
        l->skip = strlen(key);
    } else if (result == 0) {
        found.count = 1;
        l->skip = (size_t)(file_base(key) - key);
    }
    l->items = found.items;
    l->count = found.count;
    if (result == 0 && l->count == 0)
        result = err_set(e, ERR_NOT_FOUND, "s3://%s/%s has no object", bucket, key);
    return result == 0 ? check_paths(l, e) : -1;
}

// ---- both ---------------------------------------------------------------------------------------

int object_list(struct object_list *l, struct arena *a, const char *source,
                const struct s3_user *user, int64_t wall_ms, struct err *e) {
    *l = (struct object_list){.wall_ms = wall_ms};
    if (uri_parse(a, source, &l->from, e) < 0 || s3_open(&l->s3, a, user, e) < 0)
        return -1;
    if (l->from.url)
        return list_https(l, e);
    return s3_open_account(&l->s3, e) < 0 ? -1 : list_s3(l, e);
}

int64_t object_list_ends_ms(const struct object_list *l) {
    return l->from.url ? 0 : s3_urls_end_ms(&l->s3, l->wall_ms);
}

// An object without an ETag cannot be recognized later.
static void identify(const struct object_list *l, const struct s3_object *o,
                     char hex[HASH_HEX_BYTES]) {
    unsigned char digest[HASH_BYTES];
    struct hash h;
    struct strbuf text = {0};
    strbuf_addf(&text, "%s%c%s%c%s%c%s%c%llu", l->from.url ? l->from.url : l->s3.server.host, 0,
                l->from.url ? "" : l->from.bucket, 0, o->key, 0, o->etag, 0,
                (unsigned long long)o->size);
    hash_init(&h);
    hash_add(&h, text.data, text.len);
    if (!o->etag[0]) {
        hash_random(digest, sizeof digest);
        hash_add(&h, digest, sizeof digest);
    }
    hash_final(&h, digest);
    hash_hex(hex, digest);
    strbuf_fini(&text);
}

void object_list_line(const struct object_list *l, size_t i, struct strbuf *line) {
    const struct s3_object *o = &l->items[i];
    struct arena a = {0};
    struct json_out j;
    char id[HASH_HEX_BYTES];
    identify(l, o, id);
    json_open(&j, line);
    json_object(&j, NULL);
    json_str(&j, "path", o->key + l->skip);
    json_str(&j, "name",
             l->from.url ? l->from.url : arena_printf(&a, "s3://%s/%s", l->from.bucket, o->key));
    json_str(&j, "url",
             l->from.url ? l->from.url
                         : s3_presign(&l->s3, &a, l->from.bucket, o->key, l->wall_ms));
    json_int(&j, "size", (int64_t)o->size);
    json_str(&j, "etag", o->etag);
    json_str(&j, "id", id);
    json_end(&j);
    strbuf_addc(line, '\n');
    arena_fini(&a);
}

void object_list_close(struct object_list *l) {
    s3_close(&l->s3);
    free(l->items);
    l->items = NULL;
    l->count = 0;
}
