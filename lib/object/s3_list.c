// SPDX-License-Identifier: Apache-2.0
// ListObjectsV2, page by page.
#include "object/s3.h"

#include "base/array.h"
#include "object/xml.h"

#include <stdlib.h>
#include <string.h>

#define CONTENTS "ListBucketResult/Contents"

struct page {
    struct s3 *s3;
    struct s3_objects *out;
    const char *key, *etag, *next;
    int64_t size;
    bool truncated, encoded;
};

static void add_object(struct s3_objects *out, const struct s3_object *o) {
    array_grow(out->items, &out->room, out->count + 1);
    out->items[out->count++] = *o;
}

static int end_object(struct page *p, struct err *e) {
    struct arena *a = p->s3->arena;
    const char *key = p->key && p->encoded ? uri_decode(a, p->key) : p->key;
    if (!key || p->size < 0)
        return err_set(e, ERR_FORMAT, "the list has an object without a readable key and size");
    if (!str_ends(key, "/"))
        add_object(p->out, &(struct s3_object){key, p->etag ? p->etag : "", (uint64_t)p->size});
    p->key = p->etag = NULL;
    p->size = -1;
    return 0;
}

static int on_field(void *ctx, const char *path, const char *text, struct err *e) {
    struct page *p = ctx;
    struct arena *a = p->s3->arena;
    if (strcmp(path, CONTENTS) == 0)
        return end_object(p, e);
    if (strcmp(path, CONTENTS "/Key") == 0)
        p->key = arena_strdup(a, text);
    else if (strcmp(path, CONTENTS "/ETag") == 0)
        p->etag = s3_etag(a, text);
    else if (strcmp(path, CONTENTS "/Size") == 0)
        return str_parse_i64(text, 0, INT64_MAX, &p->size, e);
    else if (strcmp(path, "ListBucketResult/IsTruncated") == 0)
        p->truncated = strcmp(text, "true") == 0;
    else if (strcmp(path, "ListBucketResult/NextContinuationToken") == 0)
        p->next = arena_strdup(a, text);
    else if (strcmp(path, "ListBucketResult/EncodingType") == 0)
        p->encoded = strcmp(text, "url") == 0;
    return 0;
}

// EncodingType may come after the keys, so it is looked for first.
static int on_encoding(void *ctx, const char *path, const char *text, struct err *e) {
    struct page *p = ctx;
    (void)e;
    if (strcmp(path, "ListBucketResult/EncodingType") == 0)
        p->encoded = strcmp(text, "url") == 0;
    return 0;
}

static int read_page(struct page *p, const struct strbuf *body, struct err *e) {
    static const struct xml_events look = {on_encoding}, events = {on_field};
    return xml_read(strbuf_cstr(body), body->len, &look, p, e) < 0 ||
                   xml_read(strbuf_cstr(body), body->len, &events, p, e) < 0
               ? -1
               : 0;
}

static int get_page(struct page *p, const char *bucket, const char *prefix, const char *token,
                    size_t most, struct err *e) {
    struct sigv4_pair query[6] = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    struct s3_call call;
    size_t count = 3;
    if (token)
        query[count++] = (struct sigv4_pair){"continuation-token", token};
    if (most)
        query[count++] = (struct sigv4_pair){"max-keys", arena_printf(p->s3->arena, "%zu", most)};
    s3_call_set(&call, p->s3, "GET", bucket, "", query, NULL);
    int result = s3_run(&call, e);
    if (result == 0)
        result = read_page(p, &call.http.body, e);
    s3_call_close(&call);
    return result;
}

static int by_key(const void *x, const void *y) {
    return strcmp(((const struct s3_object *)x)->key, ((const struct s3_object *)y)->key);
}

int s3_list(struct s3 *s, const char *bucket, const char *prefix, size_t most,
            struct s3_objects *out, struct err *e) {
    const char *token = NULL;
    size_t before = out->count;
    for (;;) {
        struct page p = {.s3 = s, .out = out, .size = -1};
        if (get_page(&p, bucket, prefix, token, most, e) < 0)
            return err_wrap(e, "list of s3://%s/%s", bucket, prefix);
        if (out->count - before > S3_OBJECTS_MAX)
            return err_set(e, ERR_LIMIT, "s3://%s/%s has more than %d objects, the limit", bucket,
                           prefix, S3_OBJECTS_MAX);
        if (!p.truncated || (most && out->count - before >= most))
            break;
        if (!p.next || !*p.next || str_eq(p.next, token))
            return err_set(e, ERR_FORMAT,
                           "list of s3://%s/%s: the server says that there is more, "
                           "and not where",
                           bucket, prefix);
        token = p.next;
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_key);
    return 0;
}
