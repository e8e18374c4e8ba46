// SPDX-License-Identifier: Apache-2.0
// Samples of shards that the node's dtdata serves while they come.
#include "data/webdataset_served.h"

#include "base/array.h"
#include "content/tar.h"
#include "data/shard_index.h"
#include "data/webdataset.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

// Between an image and its label, which are read at once where they lie so close.
enum { GAP_BYTES_MAX = 64 << 10 };

int webdataset_served_find(struct webdataset_served *v, struct source *s, struct archives *a,
                           enum dataset_split split, struct err *e) {
    if (served_open(&v->list, s->config->source, e) < 0 ||
        archives_find_served(a, &s->arena, &v->list, split, e) < 0)
        return -1;
    if (a->count == 0)
        return err_set(e, ERR_NOT_FOUND,
                       "a streamed input of the native trainer is shards: looked for train/*.tar "
                       "and *.tar");
    for (uint32_t i = 0; i < a->count; i++) {
        const char *path = a->file[i].path;
        hash_add(&s->identity, path, strlen(path) + 1);
        hash_add(&s->identity, &served_find(&v->list, path)->bytes, sizeof(uint64_t));
    }
    return 0;
}

void webdataset_served_close(struct webdataset_served *v) {
    served_close(&v->list);
    free(v->label);
    v->label = NULL;
}

// ---- the index ----------------------------------------------------------------------------------

// The index of one folder of shards.
struct loaded {
    const char *dir; // "" or "train/"; NULL: none is loaded
    const char *path;
    unsigned char *bytes;
    struct shard_index index;
};

static void unload(struct loaded *l) {
    shard_index_close(&l->index);
    free(l->bytes);
    *l = (struct loaded){.dir = NULL};
}

static int load(struct loaded *l, const struct webdataset_served *v, struct arena *a,
                const char *dir, struct err *e) {
    struct served_link *link = NULL;
    if (l->dir && strcmp(l->dir, dir) == 0)
        return 0;
    unload(l);
    l->dir = dir;
    l->path = arena_printf(a, "%s%s", dir, SHARD_INDEX_FILE);
    const struct served_object *o = served_find(&v->list, l->path);
    if (!o)
        return err_set(e, ERR_NOT_FOUND, "the input has no '%s' " SHARD_INDEX_TRY, l->path);
    if (o->bytes > SHARD_INDEX_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "'%s' is above the limit of %d MiB", l->path,
                       SHARD_INDEX_BYTES_MAX >> 20);
    l->bytes = heap_alloc((size_t)o->bytes + 1);
    int result = served_read(&v->list, &link, o, 0, (size_t)o->bytes, l->bytes, e);
    served_link_close(link);
    if (result == 0 && shard_index_parse(&l->index, l->bytes, (size_t)o->bytes, e) < 0)
        result = err_wrap(e, "'%s'", l->path);
    return result;
}

static int refuse_shard(const char *path, const char *index, const char *why, struct err *e) {
    return err_set(e, ERR_HASH, "'%s' %s '%s' " SHARD_INDEX_TRY, path, why, index);
}

static int add_shard(struct webdataset_served *v, const struct loaded *l, const char *path,
                     uint32_t file, struct index *x, struct err *e) {
    const struct shard_index_shard *shard = shard_index_find(&l->index, file_base(path));
    if (!shard)
        return refuse_shard(path, l->path, "is not in the index", e);
    if (shard->bytes != served_find(&v->list, path)->bytes)
        return refuse_shard(path, l->path, "has another size than in the index", e);
    for (uint32_t i = shard->first; i < shard->first + shard->samples; i++) {
        struct webdataset_sample m;
        shard_index_sample(&l->index, i, &m);
        if (index_add(x, NULL, m.at, m.size, file, m.label, e) < 0)
            return -1;
        array_grow(v->label, &v->room, x->count);
        v->label[x->count - 1] = (struct webdataset_label_place){
            (uint32_t)(m.label_at / TAR_BLOCK_BYTES), (uint8_t)m.label_size};
    }
    return 0;
}

int webdataset_served_open(struct webdataset_served *v, const struct source *s,
                           const struct archives *a, struct index *x, struct err *e) {
    struct loaded l = {.dir = NULL};
    struct arena scratch = {0};
    int result = 0;
    for (uint32_t i = 0; i < a->count && result == 0; i++) {
        const char *path = a->file[i].path;
        if (a->file[i].split != s->config->split)
            continue;
        const char *dir = arena_strndup(&scratch, path, (size_t)(file_base(path) - path));
        result = load(&l, v, &scratch, dir, e);
        if (result == 0)
            result = add_shard(v, &l, path, i, x, e);
    }
    unload(&l);
    arena_fini(&scratch);
    return result;
}

int webdataset_served_text(const struct webdataset_served *v, struct arena *a, const char *path,
                           size_t bytes_max, char **text, struct err *e) {
    struct served_link *link = NULL;
    const struct served_object *o = served_find(&v->list, path);
    if (!o)
        return 0;
    if (o->bytes > bytes_max)
        return err_set(e, ERR_LIMIT, "'%s' is above the limit of %zu bytes", path, bytes_max);
    *text = arena_new(a, char, (size_t)o->bytes + 1);
    int result = served_read(&v->list, &link, o, 0, (size_t)o->bytes, *text, e);
    (*text)[o->bytes] = '\0';
    served_link_close(link);
    return result < 0 ? -1 : 1;
}

// ---- a sample -----------------------------------------------------------------------------------

// Whether a header says that a file of this size follows.
static bool is_header(const uint8_t *block, uint64_t size) {
    struct tar t;
    struct tar_entry m;
    struct err ignored;
    tar_open_input(&t, tar_input_memory(block, TAR_BLOCK_BYTES));
    bool is = tar_next(&t, &m, &ignored) > 0 && m.type == TAR_FILE && m.size == size &&
              m.offset == TAR_BLOCK_BYTES;
    tar_close(&t);
    return is;
}

static bool is_label(const uint8_t *block, size_t size, int32_t label) {
    struct err ignored;
    int32_t found;
    return is_header(block, size) &&
           webdataset_label((const char *)block + TAR_BLOCK_BYTES, size, &found, &ignored) == 0 &&
           found == label;
}

int webdataset_served_read(const struct webdataset_served *v, const struct index *x, uint32_t i,
                           struct source_reader *r, struct sample *out, struct err *e) {
    const struct index_entry *it = &x->entry[i];
    const char *path = x->file[it->file].path;
    const struct served_object *o = served_find(&v->list, path);
    uint64_t image = it->at - TAR_BLOCK_BYTES, image_end = it->at + it->size;
    uint64_t label = ((uint64_t)v->label[i].block - 1) * TAR_BLOCK_BYTES;
    uint64_t label_end = label + TAR_BLOCK_BYTES + v->label[i].bytes;
    uint64_t begin = image < label ? image : label;
    uint64_t end = image_end > label_end ? image_end : label_end;
    size_t image_len = TAR_BLOCK_BYTES + (size_t)it->size, label_len = (size_t)(label_end - label);
    bool close = end - begin <= image_len + label_len + GAP_BYTES_MAX;
    uint8_t *room = source_room(r, it->size, GAP_BYTES_MAX + 4 * TAR_BLOCK_BYTES, e);
    if (!room)
        return -1;
    const uint8_t *image_at = close ? room + (image - begin) : room;
    const uint8_t *label_at = close ? room + (label - begin) : room + image_len;
    int bad = close ? served_read(&v->list, &r->link, o, begin, (size_t)(end - begin), room, e)
                    : served_read(&v->list, &r->link, o, image, image_len, room, e);
    if (bad == 0 && !close)
        bad = served_read(&v->list, &r->link, o, label, label_len, room + image_len, e);
    if (bad)
        return -1;
    if (!is_header(image_at, it->size) || !is_label(label_at, v->label[i].bytes, x->label[i]))
        return err_set(e, ERR_HASH,
                       "the shard is not the one that its index describes " SHARD_INDEX_TRY);
    *out = (struct sample){.bytes = image_at + TAR_BLOCK_BYTES, .len = it->size};
    return 0;
}
