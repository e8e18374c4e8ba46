// SPDX-License-Identifier: Apache-2.0
// The index files of webdataset shards that dtdata serves.
#include "content/tar.h"
#include "data/data_index.h"
#include "data/served.h"
#include "data/shard_index.h"
#include "sys/file.h"
#include "sys/loop.h" // container_of

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

// ---- the bytes of a shard -----------------------------------------------------------------------

struct indexing {
    struct served served;
    const char *to;
    struct data_indexed *out;
    uint64_t total;
    int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
    void *ctx;
};

struct served_input {
    struct tar_input in;
    const struct indexing *all;
    struct served_link *link;
    const struct served_object *object;
    uint64_t at, begin, end; // at: next byte; bytes begin … end - 1 are in the buffer
    char buffer[BUFFER_BYTES];
};

static int show_progress(void *ctx, struct err *e) {
    const struct indexing *x = ctx;
    return x->progress ? x->progress(x->ctx, x->out->shards, x->total, e) : 0;
}

static int fill(struct served_input *x, struct err *e) {
    uint64_t left = x->object->bytes - x->at;
    size_t len = left < sizeof x->buffer ? (size_t)left : sizeof x->buffer;
    if (served_read(&x->all->served, &x->link, x->object, x->at, len, x->buffer, e) < 0)
        return -1;
    x->begin = x->at;
    x->end = x->at + len;
    return 0;
}

static int input_read(struct tar_input *in, void *buf, uint64_t len, struct err *e) {
    struct served_input *x = container_of(in, struct served_input, in);
    char *to = buf;
    if (x->at == x->object->bytes && len > 0)
        return 0;
    if (len > x->object->bytes - x->at)
        return err_set(e, ERR_FORMAT, "archive ends in the middle of an entry");
    for (; !to && len; len = 0) // skipped
        x->at += len;
    while (len > 0) {
        if ((x->at < x->begin || x->at >= x->end) && fill(x, e) < 0)
            return -1;
        uint64_t n = x->end - x->at < len ? x->end - x->at : len;
        memcpy(to, x->buffer + (x->at - x->begin), (size_t)n);
        to += n;
        x->at += n;
        len -= n;
    }
    return 1;
}

static void input_close(struct tar_input *in) {
    struct served_input *x = container_of(in, struct served_input, in);
    served_link_close(x->link);
    free(x);
}

static struct tar_input *open_input(const struct indexing *all, const struct served_object *o) {
    struct served_input *x = heap_alloc(sizeof *x);
    x->in = (struct tar_input){input_read, input_close};
    x->all = all;
    x->object = o;
    x->link = NULL;
    x->at = x->begin = x->end = 0;
    return &x->in;
}

// ---- the shards of a folder ---------------------------------------------------------------------

static int add_shard(struct indexing *x, struct shard_index_writer *w,
                     const struct served_object *o, struct err *e) {
    if (shard_index_begin_shard(w, file_base(o->path), o->bytes, e) < 0 ||
        webdataset_scan_input(open_input(x, o), o->path, shard_index_add, w, e) < 0)
        return -1;
    x->out->shards++;
    return 0;
}

// The shards beside the first one; objects are sorted by their paths.
static int index_folder(struct indexing *x, size_t first, struct err *e) {
    const struct served *s = &x->served;
    const char *path = s->object[first].path;
    struct shard_index_writer w = {.count = 0};
    struct arena a = {0};
    int result = 0;
    for (size_t i = first; i < s->count && result == 0; i++)
        if (shard_index_is_shard(s->object[i].path) &&
            shard_index_is_beside(s->object[i].path, path))
            result = add_shard(x, &w, &s->object[i], e);
    const char *to = arena_printf(&a, "%s/%.*s", x->to, (int)shard_index_folder(path), path);
    if (result == 0)
        result = file_make_dirs(to, 0755, e);
    if (result == 0)
        result = shard_index_save(&w, file_join(&a, to, SHARD_INDEX_FILE), e);
    x->out->samples += w.samples;
    x->out->folders++;
    shard_index_writer_close(&w);
    arena_fini(&a);
    return result;
}

static bool is_first(const struct served *s, size_t i) {
    for (size_t k = i; k-- > 0;)
        if (shard_index_is_shard(s->object[k].path) &&
            shard_index_is_beside(s->object[k].path, s->object[i].path))
            return false;
    return shard_index_is_shard(s->object[i].path);
}

int data_index_served(const char *served, const char *to,
                      int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                      void *ctx, struct data_indexed *out, struct err *e) {
    struct indexing x = {.to = to, .out = out, .progress = progress, .ctx = ctx};
    *out = (struct data_indexed){0};
    int result = served_open(&x.served, served, e);
    x.served.on_wait = show_progress;
    x.served.wait_ctx = &x;
    for (size_t i = 0; result == 0 && i < x.served.count; i++)
        x.total += shard_index_is_shard(x.served.object[i].path);
    for (size_t i = 0; result == 0 && i < x.served.count; i++)
        if (is_first(&x.served, i))
            result = index_folder(&x, i, e);
    served_close(&x.served);
    return result;
}
