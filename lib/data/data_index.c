// SPDX-License-Identifier: Apache-2.0
// The index files of a folder of webdataset shards.
#include "data/data_index.h"

#include "data/archive_find.h"
#include "data/shard_index.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct indexing {
    struct archives archives;
    struct arena arena;
    struct data_indexed *out;
    int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e);
    void *ctx;
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int index_shards(struct indexing *x, const char **paths, uint32_t count, struct err *e) {
    struct shard_index_writer w = {.count = 0};
    const char *to = arena_printf(&x->arena, "%.*s%s", (int)shard_index_folder(paths[0]), paths[0],
                                  SHARD_INDEX_FILE);
    int result = 0;
    qsort(paths, count, sizeof *paths, by_name);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        struct stat st;
        if (stat(paths[i], &st) < 0)
            result = err_errno(e, ERR_SYS, "reading '%s'", paths[i]);
        else if (shard_index_begin_shard(&w, file_base(paths[i]), (uint64_t)st.st_size, e) < 0)
            result = -1;
        else if (webdataset_scan(paths[i], shard_index_add, &w, e) < 0)
            result = -1;
        else if (x->progress)
            result = x->progress(x->ctx, ++x->out->shards, x->archives.count, e);
        else
            x->out->shards++;
    }
    if (result == 0)
        result = shard_index_save(&w, to, e);
    x->out->samples += w.samples;
    x->out->folders++;
    shard_index_writer_close(&w);
    return result;
}

static bool is_new_dir(const struct archives *a, uint32_t i) {
    for (uint32_t k = i; k-- > 0;)
        if (shard_index_is_beside(a->file[k].path, a->file[i].path))
            return false;
    return true;
}

int data_index(const char *dir,
               int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e), void *ctx,
               struct data_indexed *out, struct err *e) {
    struct indexing x = {.out = out, .progress = progress, .ctx = ctx};
    const struct archives *a = &x.archives;
    struct stat st;
    *out = (struct data_indexed){0};
    if (stat(dir, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "'%s'", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_CONFIG, "'%s' is no folder (try: the folder of the shards)", dir);
    int result = archives_find(&x.archives, &x.arena, dir, DATASET_TRAIN, e);
    if (result == 0 && !archives_are_shards(a))
        result = err_set(e, ERR_NOT_FOUND,
                         "'%s' holds no shards of stem.jpg and stem.cls: looked for train/*.tar, "
                         "val/*.tar and *.tar",
                         dir);
    for (uint32_t i = 0; i < a->count && result == 0; i++) {
        if (!is_new_dir(a, i))
            continue;
        const char **paths = arena_new(&x.arena, const char *, a->count);
        uint32_t count = 0;
        for (uint32_t k = i; k < a->count; k++)
            if (shard_index_is_beside(a->file[k].path, a->file[i].path))
                paths[count++] = a->file[k].path;
        result = index_shards(&x, paths, count, e);
    }
    archives_close(&x.archives);
    arena_fini(&x.arena);
    return result;
}
