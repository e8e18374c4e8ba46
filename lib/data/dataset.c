// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include "base/log.h"
#include "base/str.h"
#include "data/packed.h"
#include "data/parallel.h"
#include "data/source.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Part of every key: a change of what decoding makes of the same source must change it.
#define DATASET_DECODER "dtctl data 1"

static const char packed_kind[] = "packed";

const char *const dataset_kinds[] = {"shapes", "cifar10", "imagefolder", "tar", packed_kind, NULL};

static const struct source_kind *const sources[] = {&source_shapes, &source_cifar10,
                                                    &source_imagefolder, &source_tar};
enum { SOURCES = sizeof sources / sizeof sources[0] };

const char *const source_split_names[DATASET_SPLITS][SOURCE_SPLIT_NAMES] = {
    [DATASET_TRAIN] = {"train", "training", NULL},
    [DATASET_TEST] = {"test", "val", "valid", "validation", NULL}};

static const char *const split_words[DATASET_SPLITS] = {"train", "test"};

struct dataset_store {
    struct packed packed;
};

static const struct source_kind *dataset_kind(const char *name) {
    for (int i = 0; i < SOURCES; i++)
        if (strcmp(sources[i]->name, name) == 0)
            return sources[i];
    return NULL;
}

static bool dataset_is_packed(const char *path) {
    static const char magic[6] = "DTPACK";
    char head[sizeof magic];
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
           memcmp(head, magic, sizeof magic) == 0;
}

const char *dataset_detect(const char *source, struct err *e) {
    if (dataset_is_packed(source))
        return packed_kind;
    for (int i = 0; i < SOURCES; i++)
        if (sources[i]->detect(source))
            return sources[i]->name;
    if (!file_exists(source)) {
        err_set(e, ERR_NOT_FOUND, "data set '%s' does not exist; the built-in one is called shapes",
                source);
        return NULL;
    }
    struct strbuf wanted = {0};
    for (int i = 0; i < SOURCES; i++)
        strbuf_addf(&wanted, "%s (%s), ", sources[i]->name, sources[i]->wanted);
    err_set(e, ERR_FORMAT, "'%s' is none of the known data sets: %s%s (a file made from one)",
            source, strbuf_cstr(&wanted), packed_kind);
    strbuf_fini(&wanted);
    return NULL;
}

static void dataset_publish(struct dataset *d, struct packed *p) {
    struct dataset_store *store = heap_alloc(sizeof *store);
    store->packed = *p; // the arena's blocks and the mapping do not move
    p = &store->packed;
    d->store = store;
    d->kind = p->info.kind;
    d->samples = p->info.samples;
    d->height = (int)p->info.height;
    d->width = (int)p->info.width;
    d->channels = (int)p->info.channels;
    d->classes = (int)p->info.classes;
    d->image_bytes = (size_t)d->height * (size_t)d->width * (size_t)d->channels;
    d->class_names = p->info.class_names;
    d->pixels = p->pixels;
    d->labels = p->labels;
}

static int dataset_open_packed(struct dataset *d, const struct dataset_config *c, struct err *e) {
    struct packed p;
    if (packed_open(&p, c->source, e) < 0)
        return -1;
    int side = (int)p.info.height;
    if (c->image_size != 0 && (side != c->image_size || p.info.width != p.info.height)) {
        err_set(e, ERR_CONFIG, "'%s' holds images of %u x %u, not %d", c->source, p.info.height,
                p.info.width, c->image_size);
        packed_close(&p);
        return -1;
    }
    d->from_cache = true;
    dataset_publish(d, &p);
    return 0;
}

// Decodes everything into a new packed form at path (NULL: memory).
static int dataset_build(struct source *s, const char *path, const unsigned char *key,
                         struct packed *p, struct err *e) {
    if (s->kind->open(s, e) < 0)
        return -1;
    struct packed_info info = {.samples = s->samples,
                               .height = (uint32_t)s->height,
                               .width = (uint32_t)s->width,
                               .channels = (uint32_t)s->channels,
                               .classes = (uint32_t)s->classes,
                               .class_names = s->class_names};
    snprintf(info.kind, sizeof info.kind, "%s", s->kind->name);
    memcpy(info.key, key, PACKED_KEY_BYTES);
    struct packed_writer w;
    if (packed_create(&w, path, &info, e) < 0)
        return -1;
    if (s->kind->fill(s, w.pixels, w.labels, e) < 0) {
        packed_abort(&w);
        return -1;
    }
    return packed_commit(&w, p, e);
}

// Uses what is there when its key is right; a damaged file is made again.
static bool dataset_cached(const char *path, const unsigned char *key, struct packed *p) {
    struct err e = {0};
    if (packed_open(p, path, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            log_warn("making a packed data set again", "reason=%s", e.text);
        return false;
    }
    if (memcmp(p->info.key, key, PACKED_KEY_BYTES) == 0)
        return true;
    packed_close(p);
    return false;
}

static int dataset_build_cached(struct dataset *d, struct source *s, const unsigned char *key,
                                struct packed *p, struct err *e) {
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, key);
    const char *dir = s->config->cache_dir;
    if (file_make_dirs(dir, 0755, e) < 0)
        return err_wrap(e, "cache folder '%s'", dir);
    char *name = arena_printf(&s->arena, "%s-%s-%.16s.dtpack", s->kind->name,
                              split_words[s->config->split], hex);
    char *path = file_join(&s->arena, dir, name);
    if ((d->from_cache = dataset_cached(path, key, p)))
        return 0;
    // One rank of the node decodes, the others wait for it and map what it made.
    auto_close int lock = -1;
    if (file_lock(arena_printf(&s->arena, "%s.lock", path), "decoding a data set",
                  DATASET_LOCK_WAIT_MS_MAX, &lock, e) < 0)
        return -1;
    if ((d->from_cache = dataset_cached(path, key, p)))
        return 0;
    return dataset_build(s, path, key, p, e);
}

static int dataset_open_source(struct dataset *d, struct source *s, struct err *e) {
    const struct dataset_config *c = s->config;
    const int32_t numbers[] = {(int32_t)c->split, c->image_size};
    hash_init(&s->identity);
    hash_add(&s->identity, DATASET_DECODER, sizeof DATASET_DECODER);
    hash_add(&s->identity, s->kind->name, strlen(s->kind->name) + 1);
    hash_add(&s->identity, numbers, sizeof numbers);
    if (s->kind->identify(s, e) < 0)
        return -1;
    unsigned char key[HASH_BYTES];
    hash_final(&s->identity, key);
    struct packed p;
    int bad =
        c->cache_dir ? dataset_build_cached(d, s, key, &p, e) : dataset_build(s, NULL, key, &p, e);
    if (bad == 0)
        dataset_publish(d, &p);
    return bad;
}

int dataset_open(struct dataset *d, const struct dataset_config *c, struct err *e) {
    memset(d, 0, sizeof *d);
    if (c->image_size < 0 || c->image_size > DATASET_IMAGE_SIZE_MAX)
        return err_set(e, ERR_CONFIG, "image size %d is not in 1 to %d (0: as stored)",
                       c->image_size, DATASET_IMAGE_SIZE_MAX);
    const char *kind = c->kind ? c->kind : dataset_detect(c->source, e);
    if (!kind)
        return -1;
    if (strcmp(kind, packed_kind) == 0)
        return dataset_open_packed(d, c, e);
    struct source s = {.kind = dataset_kind(kind), .config = c};
    if (!s.kind) {
        const char *near = str_nearest(kind, dataset_kinds);
        return err_set(e, ERR_CONFIG, "there is no kind of data set called '%s'%s%s", kind,
                       near ? "; nearest is " : "", near ? near : "");
    }
    int bad = dataset_open_source(d, &s, e);
    if (bad)
        err_wrap(e, "data set '%s', %s split", c->source, split_words[c->split]);
    if (s.kind->close)
        s.kind->close(&s);
    arena_fini(&s.arena);
    return bad;
}

void dataset_close(struct dataset *d) {
    if (d->store) {
        packed_close(&d->store->packed);
        free(d->store);
    }
    memset(d, 0, sizeof *d);
}
