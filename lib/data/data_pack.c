// SPDX-License-Identifier: Apache-2.0
// Packing a data set into webdataset shards, or into the packed form.
#include "data/data_pack.h"

#include "base/str.h"
#include "content/tar_write.h"
#include "data/data_index.h"
#include "data/data_scan.h"
#include "data/jpeg.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_BYTES = 32,
    TAR_END_BYTES = 1024, // the closing blocks of an archive
};

struct shards {
    struct data_scan scan;
    struct data_packed *out;
    const char *dir;
    uint64_t shard_bytes;
    struct jpeg *jpeg;
    struct arena arena; // paths of the shard
    struct tar_writer tar;
    char *path, *temporary; // NULL: no shard is open
    int fd;
};

static int shard_begin(struct shards *h, struct err *e) {
    char name[NAME_BYTES];
    arena_reset(&h->arena);
    snprintf(name, sizeof name, "%06u.tar", h->out->shards);
    h->path = file_join(&h->arena, h->dir, name);
    h->temporary = arena_printf(&h->arena, "%s.part", h->path);
    h->fd = open(h->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (h->fd < 0)
        return err_errno(e, ERR_SYS, "making '%s'", h->temporary);
    tar_write_open(&h->tar, h->fd);
    return 0;
}

static void shard_abort(struct shards *h) {
    tar_write_abort(&h->tar);
    if (h->fd >= 0) {
        close(h->fd);
        unlink(h->temporary);
    }
    h->fd = -1;
    h->path = NULL;
}

static int shard_end(struct shards *h, struct err *e) {
    if (!h->path)
        return 0;
    int bad = tar_write_end(&h->tar, e);
    if (bad == 0 && fsync(h->fd) < 0)
        bad = err_errno(e, ERR_SYS, "writing");
    if (bad == 0 && rename(h->temporary, h->path) < 0)
        bad = err_errno(e, ERR_SYS, "renaming");
    if (bad) {
        err_wrap(e, "'%s'", h->path);
        shard_abort(h);
        return -1;
    }
    close(h->fd);
    h->fd = -1;
    h->out->bytes += h->tar.bytes;
    h->out->shards++;
    h->path = NULL;
    return 0;
}

static int shard_add(void *ctx, uint32_t i, const struct sample *sample, struct err *e) {
    struct shards *h = ctx;
    struct source *s = &h->scan.store->source;
    char name[NAME_BYTES], label[NAME_BYTES];
    const uint8_t *rgb;
    int width, height;
    if (jpeg_decode(h->jpeg, sample->bytes, sample->len, &rgb, &width, &height, e) < 0)
        return dataset_note_bad(h->scan.store, i, false, e);
    int digits = snprintf(label, sizeof label, "%d", s->labels[i]);
    uint64_t more = tar_write_size(sample->len) + tar_write_size((size_t)digits);
    if (h->path && h->tar.bytes + more + TAR_END_BYTES > h->shard_bytes && shard_end(h, e) < 0)
        return -1;
    if (!h->path && shard_begin(h, e) < 0)
        return -1;
    snprintf(name, sizeof name, "%09u.cls", i);
    if (tar_write_file(&h->tar, name, label, (size_t)digits, e) < 0)
        return err_wrap(e, "'%s'", h->path);
    snprintf(name, sizeof name, "%09u.jpg", i);
    if (tar_write_file(&h->tar, name, sample->bytes, sample->len, e) < 0)
        return err_wrap(e, "'%s'", h->path);
    h->out->samples++;
    return 0;
}

static int shard_classes(const struct shards *h, struct err *e) {
    const struct source *s = &h->scan.store->source;
    struct arena a = {0};
    struct strbuf text = {0};
    for (int i = 0; i < s->classes; i++)
        strbuf_addf(&text, "%s\n", s->class_names[i]);
    int bad = file_write_atomic(file_join(&a, h->dir, "classes.txt"), strbuf_cstr(&text), text.len,
                                0644, e);
    strbuf_fini(&text);
    arena_fini(&a);
    return bad;
}

int data_pack_shards(const struct dataset_config *c, const char *dir, uint64_t shard_bytes,
                     struct data_packed *out, struct err *e) {
    struct shards h = {.out = out, .dir = dir, .shard_bytes = shard_bytes, .fd = -1};
    *out = (struct data_packed){0};
    int bad = data_scan_open(&h.scan, c, e);
    if (bad == 0 && h.scan.store->source.height > 0)
        bad = err_set(e, ERR_CONFIG,
                      "%s holds pixels and no JPEG files, so it has no shards (try: a name that "
                      "ends in .dtpack)",
                      h.scan.store->source.kind->name);
    if (bad == 0)
        bad = data_scan_folder(dir, e);
    if (bad == 0)
        bad = jpeg_open(&h.jpeg, e);
    if (bad == 0)
        bad = data_scan_each(&h.scan, shard_add, &h, e);
    if (bad == 0)
        bad = shard_end(&h, e);
    if (bad == 0)
        bad = shard_classes(&h, e);
    struct data_indexed indexed;
    if (bad == 0 && out->shards > 0)
        bad = data_index(dir, NULL, NULL, &indexed, e);
    if (bad && h.path)
        shard_abort(&h);
    out->bad = h.scan.store->bad.count;
    jpeg_close(h.jpeg);
    arena_fini(&h.arena);
    data_scan_close(&h.scan);
    return bad;
}

int data_pack_pixels(const struct dataset_config *c, const char *path, struct data_packed *out,
                     struct err *e) {
    struct dataset d;
    uint32_t *list = heap_alloc(DATASET_BAD_MAX * sizeof *list);
    *out = (struct data_packed){0};
    int bad = 0;
    if (!file_is_absent(path))
        bad = err_set(e, ERR_EXISTS, "'%s' exists (try: another name)", path);
    if (bad == 0)
        bad = dataset_open_at(&d, c, path, e);
    if (bad == 0) {
        struct stat st = {0};
        stat(path, &st);
        uint32_t left_out = dataset_bad_list(&d, list);
        *out = (struct data_packed){.samples = d.samples - left_out,
                                    .shards = 1,
                                    .bad = left_out,
                                    .bytes = (uint64_t)st.st_size};
        dataset_close(&d);
    }
    free(list);
    return bad;
}
