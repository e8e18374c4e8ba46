// SPDX-License-Identifier: Apache-2.0
// Uploads: whole files and files in parts. One file is under way at a time, or many small ones.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_put_impl.h"

#include "base/clock.h"
#include "object/object_etag.h"
#include "object/xml.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/md5.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROGRESS_MS = 100,
    SINCE_SPARE_MS = 2000, // the kernel's times of files may be behind the clock
};

uint64_t object_put_part_bytes(uint64_t size) {
    uint64_t bytes = OBJECT_PART_BYTES, mib = 1 << 20;
    if (size > bytes * OBJECT_PARTS_MAX)
        bytes = (size / OBJECT_PARTS_MAX + mib) / mib * mib;
    return bytes;
}

const char *object_put_key(struct upload *u, const char *path) {
    const char *prefix = u->p->prefix;
    return *prefix ? arena_printf(&u->arena, "%s/%s", prefix, path) : arena_strdup(&u->arena, path);
}

static int step(struct upload *u, struct err *e) {
    struct object_put *p = u->p;
    if (http_step(p->s3->http, PROGRESS_MS, e) < 0)
        return -1;
    if (u->err.code) {
        *e = u->err;
        return -1;
    }
    int64_t now = clock_mono_ms();
    if (now - u->told_ms < PROGRESS_MS)
        return 0;
    u->told_ms = now;
    return p->on_progress(p->ctx, u->done, u->total, e);
}

static bool is_busy(const struct upload *u) {
    for (size_t i = 0; i < OBJECT_PUTS_MAX; i++)
        if (u->parts[i].busy)
            return true;
    return false;
}

int object_put_await(struct upload *u, struct err *e) {
    int result = 0;
    while (result == 0 && is_busy(u))
        result = step(u, e);
    return result;
}

int object_put_free_part(struct upload *u, struct upload_part **out, struct err *e) {
    for (;;) {
        for (size_t i = 0; i < OBJECT_PUTS_MAX; i++)
            if (!u->parts[i].busy) {
                *out = &u->parts[i];
                return 0;
            }
        if (step(u, e) < 0)
            return -1;
    }
}

// ---- one request --------------------------------------------------------------------------------

// True when the other files are to be sent all the same. A server that does not answer ends all.
static bool is_tolerated(struct upload *u, const struct manifest_entry *file, const struct err *e) {
    bool own = e->code == ERR_AUTH || e->code == ERR_HASH || e->code == ERR_LIMIT;
    if (!own || !u->p->tolerant)
        return false;
    u->left_out[file - u->p->files->entries] = true;
    if (e->code == ERR_HASH)
        u->p->changed++;
    else if (!u->first.code)
        u->first = *e;
    return true;
}

static void on_end(struct http_call *c, const struct err *e) {
    struct upload_part *part = c->ctx;
    struct upload *u = part->upload;
    struct err why = *e;
    const char *etag = s3_etag(&u->arena, c->etag);
    part->busy = false;
    if (!why.code && strlen(etag) == 2 * MD5_DIGEST_LENGTH && !c->kms &&
        strcasecmp(etag, part->md5_hex) != 0)
        err_set(&why, ERR_HASH, "the server has received other bytes (MD5 %s, sent %s)", etag,
                part->md5_hex);
    if (why.code) {
        err_wrap(&why, "'s3://%s/%.300s'", u->p->bucket, part->key);
        if (!u->err.code && (part->number || !is_tolerated(u, part->file, &why)))
            u->err = why;
        return;
    }
    u->done += part->len;
    if (part->number)
        u->etags[part->number - 1] = arena_strdup(&u->arena, c->etag);
}

static bool is_unchanged(int fd, const struct manifest_entry *file) {
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size == file->size &&
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == file->mtime_ns;
}

static int read_piece(const struct manifest_entry *file, uint64_t from, struct upload_part *part,
                      struct err *e) {
    auto_close int fd = open(file->source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_HASH : ERR_SYS, "cannot open '%s'", file->source);
    if (!is_unchanged(fd, file))
        return err_set(e, ERR_HASH, "'%s' has changed while it was sent", file->source);
    for (size_t got = 0; got < part->len;) {
        ssize_t n = pread(fd, part->data + got, part->len - got, (off_t)(from + got));
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read '%s'", file->source)
                         : err_set(e, ERR_HASH, "'%s' has become shorter", file->source);
        got += (size_t)n;
    }
    return 0;
}

static int send_piece(struct upload *u, const struct manifest_entry *file, const char *key,
                      uint64_t from, uint64_t len, uint32_t number, struct err *e) {
    struct upload_part *part;
    unsigned char digest[MD5_DIGEST_LENGTH];
    if (object_put_free_part(u, &part, e) < 0)
        return -1;
    s3_call_close(&part->call);
    part->data = heap_realloc(part->data, (size_t)len + 1);
    part->upload = u;
    part->file = file;
    part->key = key;
    part->len = (size_t)len;
    part->number = number;
    if (read_piece(file, from, part, e) < 0)
        return -1;
    MD5((const unsigned char *)part->data, part->len, digest);
    base64_encode(part->md5, digest, sizeof digest);
    str_hex(part->md5_hex, digest, sizeof digest);
    struct sigv4_pair headers[] = {{"content-md5", part->md5}, {NULL, NULL}};
    struct sigv4_pair query[] = {
        {"partNumber", arena_printf(&u->arena, "%u", number)}, {"uploadId", u->id}, {NULL, NULL}};
    s3_call_set(&part->call, u->p->s3, "PUT", u->p->bucket, key, number ? query : NULL, headers);
    s3_call_body(&part->call, part->data, part->len);
    part->call.http.on_end = on_end;
    part->call.http.ctx = part;
    part->busy = true;
    http_begin(u->p->s3->http, &part->call.http);
    return 0;
}

// ---- a file in parts ----------------------------------------------------------------------------

struct find {
    struct arena *arena;
    const char *wanted, *text; // wanted: the element, whatever its root is called
};

static int on_field(void *ctx, const char *path, const char *text, struct err *e) {
    struct find *f = ctx;
    (void)e;
    const char *slash = strrchr(path, '/');
    if (slash && strcmp(slash + 1, f->wanted) == 0)
        f->text = arena_strdup(f->arena, text);
    return 0;
}

// One request about the upload; the text of one element of its answer.
static int ask(struct upload *u, const char *method, const char *key,
               const struct sigv4_pair *query, const struct strbuf *body, const char *element,
               const char **text, struct err *e) {
    static const struct xml_events events = {on_field};
    struct find find = {&u->arena, element, NULL};
    struct s3_call c;
    s3_call_set(&c, u->p->s3, method, u->p->bucket, key, query, NULL);
    if (body)
        s3_call_body(&c, strbuf_cstr(body), body->len);
    int result = s3_run(&c, e);
    if (result == 0 && element)
        result = xml_read(strbuf_cstr(&c.http.body), c.http.body.len, &events, &find, e);
    if (result == 0 && element && !find.text)
        result = err_set(e, ERR_FORMAT, "the server's answer has no %s: %.200s", element,
                         strbuf_cstr(&c.http.body));
    if (text)
        *text = find.text;
    s3_call_close(&c);
    return result;
}

static int complete(struct upload *u, const char *key, uint32_t count, struct err *e) {
    struct sigv4_pair query[] = {{"uploadId", u->id}, {NULL, NULL}};
    struct strbuf body = {0};
    const char *etag;
    strbuf_adds(&body, "<CompleteMultipartUpload>");
    for (uint32_t i = 0; i < count; i++) {
        strbuf_addf(&body, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
        for (const char *p = u->etags[i]; *p; p++)
            if (*p == '"')
                strbuf_adds(&body, "&quot;");
            else if (!strchr("<>&", *p))
                strbuf_addc(&body, *p);
        strbuf_adds(&body, "</ETag></Part>");
    }
    strbuf_adds(&body, "</CompleteMultipartUpload>");
    // The status is 200 also when it fails later; an answer that says so has no ETag.
    int result = ask(u, "POST", key, query, &body, "ETag", &etag, e);
    strbuf_fini(&body);
    return result;
}

static void abandon(struct upload *u, const char *key) {
    struct sigv4_pair query[] = {{"uploadId", u->id}, {NULL, NULL}};
    struct err ignored = {0};
    for (size_t i = 0; i < OBJECT_PUTS_MAX; i++) {
        s3_call_close(&u->parts[i].call);
        u->parts[i].call = (struct s3_call){.s3 = NULL};
        u->parts[i].busy = false;
    }
    ask(u, "DELETE", key, query, NULL, NULL, NULL, &ignored);
}

static int put_parts(struct upload *u, const struct manifest_entry *file, const char *key,
                     struct err *e) {
    static const struct sigv4_pair begin[] = {{"uploads", ""}, {NULL, NULL}};
    uint64_t bytes = object_put_part_bytes(file->size);
    uint32_t count = (uint32_t)((file->size + bytes - 1) / bytes);
    if (file->size > OBJECT_PUT_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "it is larger than 5 TiB, the limit of S3");
    if (object_put_await(u, e) < 0 || ask(u, "POST", key, begin, NULL, "UploadId", &u->id, e) < 0)
        return -1;
    u->etags = arena_new(&u->arena, const char *, count);
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < count; i++) {
        uint64_t from = i * bytes, len = file->size - from < bytes ? file->size - from : bytes;
        result = send_piece(u, file, key, from, len, i + 1, e);
    }
    if (result == 0)
        result = object_put_await(u, e);
    if (result == 0)
        result = complete(u, key, count, e);
    if (result < 0)
        abandon(u, key);
    return result;
}

// ---- all files ----------------------------------------------------------------------------------

// Both lists are sorted by bytes of the key.
static int by_key(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, ((const struct s3_object *)y)->key);
}

static const struct s3_object *look_up(const struct s3_objects *in, const char *key) {
    return in->count ? bsearch(&key, in->items, in->count, sizeof *in->items, by_key) : NULL;
}

static int list_folder(struct upload *u, const char *folder, struct s3_objects *out,
                       struct err *e) {
    return s3_list(u->p->s3, u->p->bucket, object_put_key(u, folder), 0, out, e);
}

// Where the prefix also has copies, these do not count: each folder of the files is listed.
static int list(struct upload *u, struct s3_objects *out, struct err *e) {
    const struct manifest *m = u->p->files;
    const char *last = NULL;
    if (!u->p->copies)
        return list_folder(u, "", out, e);
    for (size_t i = 0; i < m->count; i++) {
        const char *path = m->entries[i].path;
        if (last && str_starts(path, last))
            continue;
        last = arena_printf(&u->arena, "%.*s/", (int)strcspn(path, "/"), path);
        if (list_folder(u, last, out, e) < 0)
            return -1;
    }
    return 0;
}

// ---- what is not there --------------------------------------------------------------------------

// Whether the bucket has the file. A file that was not touched is not read again.
static int is_there(const struct upload *u, struct object_tags *tags, const struct s3_object *o,
                    struct err *e) {
    const struct manifest_entry *file = tags->file;
    struct stat st;
    if (o && u->p->since_ms && o->size == file->size && lstat(file->source, &st) == 0 &&
        (int64_t)st.st_ctim.tv_sec * 1000 + SINCE_SPARE_MS < u->p->since_ms)
        return 1;
    return o ? object_etag_matches(tags, o, e) : 0;
}

static int send_file(struct upload *u, const struct manifest_entry *file, const char *key,
                     struct err *e) {
    u->p->sent += file->size;
    return file->size <= OBJECT_PART_BYTES ? send_piece(u, file, key, 0, file->size, 0, e)
                                           : put_parts(u, file, key, e);
}

static int put_file(struct upload *u, const struct manifest_entry *file, const char *key,
                    const struct s3_objects *before, struct err *e) {
    const struct s3_object *from = NULL;
    struct object_tags tags = {.file = file};
    if (strlen(key) > URI_KEY_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "its key has more than %d bytes, the limit of S3",
                       URI_KEY_BYTES_MAX);
    int same = is_there(u, &tags, look_up(before, key), e);
    if (same) {
        u->p->there += same > 0;
        u->done += same > 0 ? file->size : 0;
        return same > 0 ? 0 : -1;
    }
    same = object_put_find_copy(u, &tags, &from, e);
    if (same)
        return same > 0 ? object_put_begin_copy(u, file, key, from, e) : -1;
    return send_file(u, file, key, e);
}

static int put_all(struct upload *u, const struct s3_objects *before, struct err *e) {
    const struct manifest *m = u->p->files;
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *file = &m->entries[i];
        u->p->links += file->kind == MANIFEST_LINK;
        if (file->kind != MANIFEST_FILE)
            continue;
        const char *key = object_put_key(u, file->path);
        if (put_file(u, file, key, before, e) == 0) {
            u->p->count++;
            continue;
        }
        if (!u->err.code)
            err_wrap(e, "'s3://%s/%.300s'", u->p->bucket, key);
        if (!is_tolerated(u, file, e))
            return -1;
        err_clear(&u->err);
        err_clear(e);
    }
    if (object_put_await(u, e) < 0)
        return -1;
    for (size_t i = 0; i < u->uncopied_count; i++) {
        const char *key = object_put_key(u, u->uncopied[i]->path);
        if (send_file(u, u->uncopied[i], key, e) < 0)
            return u->err.code ? -1 : err_wrap(e, "'s3://%s/%.300s'", u->p->bucket, key);
    }
    return object_put_await(u, e);
}

static int check_list(struct upload *u, const struct s3_objects *found, struct err *e) {
    const struct manifest *m = u->p->files;
    int result = 0;
    for (size_t i = 0; result == 0 && i < m->count; i++) {
        if (m->entries[i].kind != MANIFEST_FILE || u->left_out[i])
            continue;
        const char *key = object_put_key(u, m->entries[i].path);
        const struct s3_object *o = look_up(found, key);
        if (!o || o->size != m->entries[i].size)
            result = err_set(e, ERR_HASH, "'s3://%s/%.300s' was written and is %s", u->p->bucket,
                             key, o ? "of another size in the bucket" : "not in the bucket's list");
    }
    return result;
}

// Checks what is there now, and removes what is to go of it. The mirror that was copied is listed
// again: another dtctl may have written to it.
static int finish(struct upload *u, struct err *e) {
    struct object_put *p = u->p;
    struct s3_objects found = {0}, mirror = {0};
    int result = p->count || p->mirrors ? list(u, &found, e) : 0;
    if (result == 0)
        result = check_list(u, &found, e);
    if (result == 0 && p->mirrors && p->copies)
        result = list_folder(u, p->mirrors, &mirror, e);
    if (result == 0 && p->mirrors)
        result = object_put_remove_rest(u, p->copies ? &mirror : &found, e);
    free(found.items);
    free(mirror.items);
    return result;
}

int object_put_all(struct object_put *p, struct err *e) {
    struct upload *u = heap_alloc(sizeof *u);
    struct s3_objects before = {0}, live = {0};
    u->p = p;
    u->total = p->files->bytes;
    u->left_out = arena_new(&u->arena, bool, p->files->count + 1);
    int result = list(u, &before, e);
    if (result == 0 && p->copies)
        result = list_folder(u, p->copies, &live, e);
    object_put_find_copies(u, &live);
    if (result == 0)
        result = put_all(u, &before, e);
    if (result == 0)
        result = finish(u, e);
    for (size_t i = 0; i < OBJECT_PUTS_MAX; i++) {
        s3_call_close(&u->parts[i].call);
        free(u->parts[i].data);
    }
    free(before.items);
    free(live.items);
    if (result == 0)
        result = p->on_progress(p->ctx, u->total, u->total, e);
    if (result == 0 && u->first.code) {
        *e = u->first;
        result = -1;
    }
    arena_fini(&u->arena);
    free(u);
    return result;
}

int object_put_check(struct object_put *p, struct err *e) {
    static const struct sigv4_pair begin[] = {{"uploads", ""}, {NULL, NULL}};
    struct upload *u = heap_alloc(sizeof *u);
    struct s3_objects found = {0};
    u->p = p;
    const char *key = object_put_key(u, ".dtctl-check");
    int result = s3_list(p->s3, p->bucket, object_put_key(u, ""), 1, &found, e);
    if (result == 0)
        result = ask(u, "POST", key, begin, NULL, "UploadId", &u->id, e);
    if (result == 0) {
        struct sigv4_pair query[] = {{"uploadId", u->id}, {NULL, NULL}};
        result = ask(u, "DELETE", key, query, NULL, NULL, NULL, e);
    }
    free(found.items);
    arena_fini(&u->arena);
    free(u);
    return result;
}
