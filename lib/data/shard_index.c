// SPDX-License-Identifier: Apache-2.0
// Reading and writing the index of webdataset shards.
#include "data/shard_index.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "content/tar.h"
#include "data/dataset.h"
#include "data/webdataset.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAGIC_BYTES = 8,
    HEAD_BYTES = MAGIC_BYTES + 8,
    SHARD_BYTES_MIN = 8 + 4 + 2 + 1, // of one in the head
};
static const char MAGIC[] = "DTINDEX1";

// ---- paths --------------------------------------------------------------------------------------

bool shard_index_is_shard(const char *path) {
    const char *slash = strchr(path, '/');
    return str_ends(path, ".tar") && (!slash || !strchr(slash + 1, '/'));
}

size_t shard_index_folder(const char *path) {
    return (size_t)(file_base(path) - path);
}

bool shard_index_is_beside(const char *a, const char *b) {
    size_t len = shard_index_folder(a);
    return len == shard_index_folder(b) && memcmp(a, b, len) == 0;
}

// ---- reading ------------------------------------------------------------------------------------

static bool is_name(const char *name, size_t len) {
    return len > 0 && len <= SHARD_INDEX_NAME_BYTES_MAX && !memchr(name, '/', len) &&
           !memchr(name, '\0', len);
}

static int read_shards(struct shard_index *x, struct bytes_reader *r, struct err *e) {
    uint64_t samples = 0;
    if (x->shards > bytes_left(r) / SHARD_BYTES_MIN)
        return err_set(e, ERR_FORMAT, "it names %u shards and is too short for them", x->shards);
    x->shard = arena_new(&x->arena, struct shard_index_shard, x->shards + 1);
    for (uint32_t i = 0; i < x->shards; i++) {
        struct shard_index_shard *s = &x->shard[i];
        s->bytes = bytes_u64(r);
        s->samples = bytes_u32(r);
        s->first = (uint32_t)samples;
        size_t len = bytes_u16(r);
        const char *name = bytes_get(r, len);
        if (!name || !is_name(name, len))
            return err_set(e, ERR_FORMAT, "shard %u has no name", i);
        s->name = arena_strndup(&x->arena, name, len);
        samples += s->samples;
        if (i > 0 && strcmp(x->shard[i - 1].name, s->name) >= 0)
            return err_set(e, ERR_FORMAT, "its shards are not in the order of their names");
    }
    return samples == x->samples
               ? 0
               : err_set(e, ERR_FORMAT, "its shards have %llu samples, and it has %u",
                         (unsigned long long)samples, x->samples);
}

static bool is_inside(uint64_t at, uint64_t size, const struct shard_index_shard *s) {
    return at >= TAR_BLOCK_BYTES && at <= s->bytes && size <= s->bytes - at;
}

static int check_samples(const struct shard_index *x, struct err *e) {
    for (uint32_t k = 0; k < x->shards; k++) {
        const struct shard_index_shard *s = &x->shard[k];
        for (uint32_t i = s->first; i < s->first + s->samples; i++) {
            struct webdataset_sample m;
            shard_index_sample(x, i, &m);
            if (!is_inside(m.at, m.size, s) || !is_inside(m.label_at, m.label_size, s) ||
                m.label_size < 1 || m.label_size > WEBDATASET_LABEL_BYTES_MAX)
                return err_set(e, ERR_FORMAT, "sample %u does not lie in shard '%s'", i, s->name);
        }
    }
    return 0;
}

int shard_index_parse(struct shard_index *x, const void *bytes, size_t len, struct err *e) {
    struct bytes_reader r = bytes_reader(bytes, len);
    unsigned char digest[HASH_BYTES];
    *x = (struct shard_index){.shard = NULL};
    const char *magic = bytes_get(&r, MAGIC_BYTES);
    if (!magic || memcmp(magic, MAGIC, MAGIC_BYTES) != 0 || len < HEAD_BYTES + HASH_BYTES)
        return err_set(e, ERR_FORMAT, "it is no index of shards");
    hash_of(digest, bytes, len - HASH_BYTES);
    if (memcmp(digest, (const unsigned char *)bytes + len - HASH_BYTES, HASH_BYTES) != 0)
        return err_set(e, ERR_HASH, "it is damaged: its hash is another one");
    r.end -= HASH_BYTES;
    x->shards = bytes_u32(&r);
    x->samples = bytes_u32(&r);
    int result = read_shards(x, &r, e);
    if (result == 0 && bytes_left(&r) != (size_t)x->samples * SHARD_INDEX_RECORD_BYTES)
        result = err_set(e, ERR_FORMAT, "it has not the length of %u samples", x->samples);
    x->records = r.p;
    if (result == 0)
        result = check_samples(x, e);
    if (result < 0)
        shard_index_close(x);
    return result;
}

void shard_index_close(struct shard_index *x) {
    arena_fini(&x->arena);
    *x = (struct shard_index){.shard = NULL};
}

static int compare_shard(const void *name, const void *shard) {
    return strcmp(name, ((const struct shard_index_shard *)shard)->name);
}

const struct shard_index_shard *shard_index_find(const struct shard_index *x, const char *name) {
    return x->shards ? bsearch(name, x->shard, x->shards, sizeof *x->shard, compare_shard) : NULL;
}

void shard_index_sample(const struct shard_index *x, uint32_t i, struct webdataset_sample *out) {
    const unsigned char *p = x->records + (size_t)i * SHARD_INDEX_RECORD_BYTES;
    *out = (struct webdataset_sample){.at = bytes_load(p, 4) * TAR_BLOCK_BYTES,
                                      .size = bytes_load(p + 4, 4),
                                      .label_at = bytes_load(p + 8, 4) * TAR_BLOCK_BYTES,
                                      .label = (int32_t)bytes_load(p + 12, 2),
                                      .label_size = p[14]};
}

// ---- writing ------------------------------------------------------------------------------------

static void put(struct strbuf *out, uint64_t v, size_t width) {
    unsigned char bytes[8];
    bytes_store(bytes, v, width);
    strbuf_add(out, (const char *)bytes, width);
}

static void end_shard(struct shard_index_writer *w) {
    if (w->count)
        bytes_store(w->shards.data + w->open, w->samples - w->begun, 4);
    w->begun = w->samples;
}

int shard_index_begin_shard(struct shard_index_writer *w, const char *name, uint64_t bytes,
                            struct err *e) {
    size_t len = strlen(name);
    if (!is_name(name, len))
        return err_set(e, ERR_LIMIT, "the name '%s' has more than %d bytes", name,
                       SHARD_INDEX_NAME_BYTES_MAX);
    end_shard(w);
    put(&w->shards, bytes, 8);
    w->open = w->shards.len;
    put(&w->shards, 0, 4);
    put(&w->shards, len, 2);
    strbuf_add(&w->shards, name, len);
    w->bytes = bytes;
    w->count++;
    return 0;
}

int shard_index_add(void *writer, const struct webdataset_sample *s, struct err *e) {
    struct shard_index_writer *w = writer;
    uint64_t image = s->at / TAR_BLOCK_BYTES, label = s->label_at / TAR_BLOCK_BYTES;
    if (image > UINT32_MAX || label > UINT32_MAX)
        return err_set(e, ERR_LIMIT, "a shard is above the limit of 2 TiB");
    if (s->at + s->size > w->bytes)
        return err_set(e, ERR_FORMAT, "the archive ends in the middle of a member");
    if (HEAD_BYTES + HASH_BYTES + w->shards.len + w->records.len + SHARD_INDEX_RECORD_BYTES >
        SHARD_INDEX_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the index of %u samples is above the limit of %d MiB",
                       w->samples, SHARD_INDEX_BYTES_MAX >> 20);
    put(&w->records, image, 4);
    put(&w->records, s->size < UINT32_MAX ? s->size : UINT32_MAX, 4);
    put(&w->records, label, 4);
    put(&w->records, (uint64_t)s->label, 2);
    put(&w->records, s->label_size, 1);
    put(&w->records, 0, 1);
    w->samples++;
    return 0;
}

_Static_assert(DATASET_CLASSES_MAX <= UINT16_MAX + 1, "a label has 16 bits");

void shard_index_finish(struct shard_index_writer *w, struct strbuf *out) {
    unsigned char digest[HASH_BYTES];
    end_shard(w);
    strbuf_add(out, MAGIC, MAGIC_BYTES);
    put(out, w->count, 4);
    put(out, w->samples, 4);
    strbuf_add(out, w->shards.data, w->shards.len);
    strbuf_add(out, w->records.data, w->records.len);
    hash_of(digest, out->data, out->len);
    strbuf_add(out, (const char *)digest, sizeof digest);
}

int shard_index_save(struct shard_index_writer *w, const char *path, struct err *e) {
    struct strbuf out = {0};
    shard_index_finish(w, &out);
    int result = file_write_atomic(path, out.data, out.len, 0644, e);
    strbuf_fini(&out);
    return result;
}

void shard_index_writer_close(struct shard_index_writer *w) {
    strbuf_fini(&w->shards);
    strbuf_fini(&w->records);
}
