// SPDX-License-Identifier: Apache-2.0
// Opening a data set: which kind it is, its packed form or its index, and telling it from others.
#include "base/bytes.h"
#include "base/log.h"
#include "base/str.h"
#include "data/dataset_store.h"
#include "data/served.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Part of every key: a change of what decoding makes of the same source must change it.
#define DATASET_DECODER "dtctl data 2"

static const char packed_kind[] = "packed";

const char *const dataset_kinds[] = {"shapes", "cifar10",   "imagefolder", "webdataset",
                                     "tar",    packed_kind, NULL};

static const struct source_kind *const sources[] = {
    &source_shapes, &source_cifar10, &source_imagefolder, &source_webdataset, &source_tar};
enum { SOURCES = sizeof sources / sizeof sources[0] };

const char *const source_split_names[DATASET_SPLITS][SOURCE_SPLIT_NAMES] = {
    [DATASET_TRAIN] = {"train", "training", NULL},
    [DATASET_TEST] = {"test", "val", "valid", "validation", NULL}};

static const char *const split_words[DATASET_SPLITS] = {"train", "test"};

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
    if (file_is_absent(source)) {
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

static void dataset_publish_packed(struct dataset *d) {
    const struct packed *p = &d->store->packed;
    d->kind = p->info.kind;
    d->samples = p->info.samples;
    d->height = (int)p->info.height;
    d->width = (int)p->info.width;
    d->channels = (int)p->info.channels;
    d->classes = (int)p->info.classes;
    d->class_names = p->info.class_names;
    d->pixels = p->pixels;
    d->labels = p->labels;
}

static void dataset_publish_source(struct dataset *d) {
    const struct source *s = &d->store->source;
    d->kind = s->kind->name;
    d->samples = s->samples;
    d->height = d->store->plan.height;
    d->width = d->store->plan.width;
    d->channels = s->channels;
    d->classes = s->classes;
    d->class_names = s->class_names;
    d->labels = s->labels;
}

static int dataset_open_packed(struct dataset *d, const struct dataset_config *c, struct err *e) {
    struct packed *p = &d->store->packed;
    if (packed_open(p, c->source, e) < 0)
        return -1;
    int side = (int)p->info.height;
    if (c->random_crop)
        return err_set(e, ERR_CONFIG,
                       "'%s' holds pixels of one size; a random part is only cut from JPEG files",
                       c->source);
    if (c->image_size != 0 && (side != c->image_size || p->info.width != p->info.height))
        return err_set(e, ERR_CONFIG, "'%s' holds images of %u x %u, not %d", c->source,
                       p->info.height, p->info.width, c->image_size);
    d->from_cache = true;
    dataset_publish_packed(d);
    return 0;
}

// ---- the plan ----------------------------------------------------------------------------------

struct first {
    struct dataset_store *store;
    struct jpeg *jpeg;
    int width, height;
};

static int first_image(void *ctx, uint32_t i, const struct sample *sample, struct err *e) {
    struct first *f = ctx;
    if (jpeg_size(f->jpeg, sample->bytes, sample->len, &f->width, &f->height, e) < 0)
        return dataset_note_bad(f->store, i, false, e);
    if (f->width > DATASET_IMAGE_SIZE_MAX || f->height > DATASET_IMAGE_SIZE_MAX)
        return err_set(e, ERR_CONFIG,
                       "images of %d x %d are too large to keep as they are (at most %d): set the "
                       "image size",
                       f->width, f->height, DATASET_IMAGE_SIZE_MAX);
    return 1;
}

// The size of the first image that has one.
static int dataset_first(struct first *f, struct err *e) {
    struct source *s = &f->store->source;
    struct source_reader reader = {0};
    struct sample sample = {0};
    int r = 0;
    if (jpeg_open(&f->jpeg, e) < 0)
        return -1;
    if (s->kind->is_sequential && s->kind->is_sequential(s))
        r = s->kind->sequential(s, first_image, f, e);
    for (uint32_t i = 0; f->width == 0 && r == 0 && i < s->samples; i++)
        r = s->kind->read(s, i, &reader, &sample, e) < 0 ? dataset_note_bad(f->store, i, false, e)
                                                         : first_image(f, i, &sample, e);
    if (r >= 0 && f->width == 0)
        r = err_set(e, ERR_FORMAT, "no sample of the data can be read");
    jpeg_close(f->jpeg);
    source_reader_close(&reader);
    return r < 0 ? -1 : 0;
}

static int dataset_plan(struct dataset_store *store, struct err *e) {
    const struct dataset_config *c = &store->config;
    struct decode_plan *plan = &store->plan;
    const struct source *s = &store->source;
    plan->width = plan->height = c->image_size;
    if (s->height > 0) { // pixels
        if (c->random_crop)
            return err_set(e, ERR_CONFIG, "a random part is only cut from JPEG files, not from %s",
                           s->kind->name);
        plan->width = s->width;
        plan->height = s->height;
        return 0;
    }
    store->source.channels = RESIZE_CHANNELS;
    if (c->random_crop && c->image_size == 0)
        return err_set(e, ERR_CONFIG, "a random part needs the image size that it is brought to");
    int resize = c->resize > 0 ? c->resize : c->image_size;
    if (resize < c->image_size)
        return err_set(e, ERR_CONFIG, "images of %d pixels cannot be cut from %d", c->image_size,
                       resize);
    plan->reduce = c->random_crop;
    if (c->random_crop)
        plan->list[0] = (struct transform){TRANSFORM_RESIZED_CROP, c->image_size};
    else if (c->image_size > 0) {
        plan->list[0] = (struct transform){TRANSFORM_RESIZE, resize};
        plan->list[1] = (struct transform){TRANSFORM_CENTER_CROP, c->image_size};
    }
    if (c->image_size > 0)
        return 0;
    struct first first = {.store = store};
    if (dataset_first(&first, e) < 0)
        return -1;
    plan->width = first.width;
    plan->height = first.height;
    return 0;
}

// ---- the packed form ---------------------------------------------------------------------------

// Decodes everything into a new packed form at path (NULL: memory).
static int dataset_build(struct dataset_store *store, const char *path, const unsigned char *key,
                         struct err *e) {
    struct source *s = &store->source;
    if (s->kind->open(s, e) < 0 || dataset_plan(store, e) < 0)
        return -1;
    struct packed_info info = {.samples = s->samples,
                               .height = (uint32_t)store->plan.height,
                               .width = (uint32_t)store->plan.width,
                               .channels = (uint32_t)s->channels,
                               .classes = (uint32_t)s->classes,
                               .class_names = s->class_names};
    snprintf(info.kind, sizeof info.kind, "%s", s->kind->name);
    memcpy(info.key, key, PACKED_KEY_BYTES);
    struct packed_writer w;
    if (packed_create(&w, path, &info, e) < 0)
        return -1;
    if (dataset_fill(store, w.pixels, w.labels, e) < 0) {
        packed_abort(&w);
        return -1;
    }
    return packed_commit(&w, &store->packed, e);
}

// Uses an existing file if its key is right; a damaged file is made again.
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

// Writes a file beside the packed file with the numbers of replaced samples, one per line.
static void dataset_bad_write(struct dataset_store *store, const char *path) {
    struct strbuf text = {0};
    struct err e;
    for (uint32_t i = 0; i < store->bad.count; i++)
        strbuf_addf(&text, "%u\n", store->bad.index[i]);
    if (store->bad.count > 0 && file_write_atomic(path, strbuf_cstr(&text), text.len, 0644, &e) < 0)
        log_warn("the list of bad samples cannot be kept", "reason=\"%s\"", e.text);
    strbuf_fini(&text);
}

static void dataset_bad_read(struct dataset_store *store, const char *path) {
    enum { BYTES_MAX = DATASET_BAD_MAX * 11 };
    struct arena a = {0};
    struct err ignored;
    char *text;
    size_t len;
    if (store->config.on_bad == DATASET_BAD_SKIP &&
        file_read(&a, path, BYTES_MAX, &text, &len, &ignored) == 0)
        for (char *at = text, *end; *at; at = *end ? end + 1 : end)
            dataset_bad_add(store, (uint32_t)strtoul(at, &end, 10));
    arena_fini(&a);
    if (store->bad.count > 0)
        log_warn("bad samples were left out when this data was decoded", "bad=%u",
                 store->bad.count);
}

static int dataset_build_cached(struct dataset *d, const unsigned char *key, struct err *e) {
    struct dataset_store *store = d->store;
    struct source *s = &store->source;
    const char *dir = store->config.cache_dir;
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, key);
    if (file_make_dirs(dir, 0755, e) < 0)
        return err_wrap(e, "cache folder '%s'", dir);
    char *name = arena_printf(&s->arena, "%s-%s-%.16s.dtpack", s->kind->name,
                              split_words[s->config->split], hex);
    char *path = file_join(&s->arena, dir, name);
    char *bad = arena_printf(&s->arena, "%s.bad", path);
    // One rank of the node decodes, the others wait for it and map what it made.
    auto_close int lock = -1;
    d->from_cache = dataset_cached(path, key, &store->packed);
    if (!d->from_cache && file_lock(arena_printf(&s->arena, "%s.lock", path), "decoding a data set",
                                    DATASET_LOCK_WAIT_MS_MAX, &lock, e) < 0)
        return -1;
    d->from_cache = d->from_cache || dataset_cached(path, key, &store->packed);
    if (d->from_cache) {
        dataset_bad_read(store, bad);
        return 0;
    }
    if (dataset_build(store, path, key, e) < 0)
        return -1;
    dataset_bad_write(store, bad);
    return 0;
}

// ---- opening -----------------------------------------------------------------------------------

static int dataset_identify(struct source *s, unsigned char key[HASH_BYTES], struct err *e) {
    const struct dataset_config *c = s->config;
    const int32_t numbers[] = {(int32_t)c->split, c->image_size, c->resize, (int32_t)c->on_bad,
                               c->like ? c->like->classes : 0};
    hash_init(&s->identity);
    hash_add(&s->identity, DATASET_DECODER, sizeof DATASET_DECODER);
    hash_add(&s->identity, s->kind->name, strlen(s->kind->name) + 1);
    hash_add(&s->identity, numbers, sizeof numbers);
    for (int i = 0; c->like && i < c->like->classes; i++)
        hash_add(&s->identity, c->like->class_names[i], strlen(c->like->class_names[i]) + 1);
    if (s->kind->identify(s, e) < 0)
        return -1;
    hash_final(&s->identity, key);
    return 0;
}

void source_close(struct source *s) {
    if (s->kind && s->kind->close)
        s->kind->close(s);
    arena_fini(&s->arena);
    memset(s, 0, sizeof *s);
}

// Where images are read when they are needed.
static int dataset_open_stream(struct dataset *d, struct err *e) {
    struct dataset_store *store = d->store;
    struct source *s = &store->source;
    if (s->kind->open(s, e) < 0 || dataset_plan(store, e) < 0)
        return -1;
    if (s->kind->is_sequential && s->kind->is_sequential(s))
        return err_set(e, ERR_CONFIG,
                       "images cannot be read one by one from a compressed archive (try: "
                       "unpack it with 'zstd -d', or train.decode=once)");
    dataset_publish_source(d);
    return 0;
}

// path: of the packed form; NULL: in the cache, or in memory.
static int dataset_open_source(struct dataset *d, const char *path, struct err *e) {
    struct dataset_store *store = d->store;
    unsigned char key[HASH_BYTES];
    if (dataset_identify(&store->source, key, e) < 0)
        return -1;
    if (store->config.stream)
        return dataset_open_stream(d, e);
    int bad = store->config.cache_dir && !path ? dataset_build_cached(d, key, e)
                                               : dataset_build(store, path, key, e);
    if (bad)
        return -1;
    dataset_publish_packed(d);
    return 0;
}

static int dataset_check(const struct dataset_config *c, struct err *e) {
    if (c->image_size < 0 || c->image_size > DATASET_IMAGE_SIZE_MAX)
        return err_set(e, ERR_CONFIG, "image size %d is not in 1 to %d (0: as stored)",
                       c->image_size, DATASET_IMAGE_SIZE_MAX);
    if (c->resize < 0 || c->resize > 2 * DATASET_IMAGE_SIZE_MAX)
        return err_set(e, ERR_CONFIG, "size before the crop %d is not in 0 to %d", c->resize,
                       2 * DATASET_IMAGE_SIZE_MAX);
    if (c->bad_max < 0 || c->bad_max >= DATASET_BAD_MAX)
        return err_set(e, ERR_CONFIG, "%d bad samples are not in 0 to %d", c->bad_max,
                       DATASET_BAD_MAX - 1);
    return 0;
}

static int dataset_find_kind(struct source *s, const char *kind, struct err *e) {
    s->kind = dataset_kind(kind);
    if (s->kind)
        return 0;
    const char *near = str_nearest(kind, dataset_kinds);
    return err_set(e, ERR_CONFIG, "there is no kind of data set called '%s'%s%s", kind,
                   near ? "; nearest is " : "", near ? near : "");
}

static int dataset_wrap(const struct dataset_config *c, struct err *e) {
    return err_wrap(e, "data set '%s', %s split", c->source, split_words[c->split]);
}

int dataset_open_kind(struct dataset_store *store, struct err *e) {
    const struct dataset_config *c = &store->config;
    struct source *s = &store->source;
    unsigned char key[HASH_BYTES];
    const char *kind = c->kind ? c->kind : dataset_detect(c->source, e);
    s->config = c;
    if (!kind)
        return -1;
    if (strcmp(kind, packed_kind) == 0)
        return err_set(e, ERR_CONFIG, "'%s' is packed already", c->source);
    if (dataset_find_kind(s, kind, e) < 0)
        return -1;
    return dataset_identify(s, key, e) < 0 || s->kind->open(s, e) < 0 ? dataset_wrap(c, e) : 0;
}

static int dataset_open_any(struct dataset *d, const char *kind, const char *path, struct err *e) {
    struct dataset_store *store = d->store;
    struct source *s = &store->source;
    const struct dataset_config *c = s->config = &store->config;
    if (strcmp(kind, packed_kind) == 0)
        return dataset_open_packed(d, c, e);
    if (dataset_find_kind(s, kind, e) < 0)
        return -1;
    if (dataset_open_source(d, path, e) < 0)
        return dataset_wrap(c, e);
    if (d->pixels)
        source_close(s); // everything is in the packed form
    return 0;
}

int dataset_open_at(struct dataset *d, const struct dataset_config *c, const char *path,
                    struct err *e) {
    memset(d, 0, sizeof *d);
    if (dataset_check(c, e) < 0)
        return -1;
    const char *kind = c->kind ? c->kind : dataset_detect(c->source, e);
    if (!kind)
        return -1;
    struct dataset_store *store = d->store = heap_alloc(sizeof *store);
    pthread_mutex_init(&store->bad.lock, NULL);
    store->config = *c;
    store->config.source = arena_strdup(&store->source.arena, c->source);
    if (dataset_open_any(d, kind, path, e) < 0) {
        dataset_close(d);
        return -1;
    }
    d->image_bytes = (size_t)d->height * (size_t)d->width * (size_t)d->channels;
    return 0;
}

int dataset_open(struct dataset *d, const struct dataset_config *c, struct err *e) {
    return dataset_open_at(d, c, NULL, e);
}

void dataset_close(struct dataset *d) {
    struct dataset_store *store = d->store;
    if (store) {
        packed_close(&store->packed);
        source_close(&store->source);
        pthread_mutex_destroy(&store->bad.lock);
        free(store);
    }
    memset(d, 0, sizeof *d);
}

uint64_t dataset_memory_bytes(const struct dataset *d) {
    return d->pixels ? d->samples * d->image_bytes : d->store->source.memory_bytes;
}

// Labels, and images from all over the set: enough to know another set. A bad image is part of it.
int dataset_digest(const struct dataset *d, int64_t *digest, struct err *e) {
    enum { IMAGES = 64 };
    const struct source *s = &d->store->source;
    const int32_t shape[] = {(int32_t)d->samples, d->height, d->width, d->channels, d->classes};
    unsigned char bytes[HASH_BYTES];
    struct source_reader reader = {0};
    struct hash h;
    int bad = 0;
    hash_init(&h);
    hash_add(&h, shape, sizeof shape);
    hash_add(&h, d->labels, d->samples * sizeof *d->labels);
    for (uint64_t k = 0; k < IMAGES && !bad; k++) {
        uint32_t i = (uint32_t)(k * d->samples / IMAGES);
        struct sample sample = {0};
        if (d->pixels)
            sample = (struct sample){dataset_image(d, i), d->image_bytes, true};
        else if (s->kind->read(s, i, &reader, &sample, e) < 0) {
            bad = e->code != ERR_FORMAT && e->code != ERR_LIMIT;
            sample.len = 0;
        }
        hash_add(&h, sample.bytes, sample.len);
    }
    source_reader_close(&reader);
    hash_final(&h, bytes);
    *digest = (int64_t)(bytes_load(bytes, 7) | 1); // never 0, never negative
    return bad ? err_wrap(e, "telling the data apart") : 0;
}

bool dataset_is_served(const char *source) {
    return served_is(source);
}

bool dataset_waits(const struct dataset *d) {
    const struct source *s = &d->store->source;
    return s->kind && s->kind->waits && s->kind->waits(s);
}

void dataset_cancel(const struct dataset *d) {
    if (dataset_waits(d))
        d->store->source.kind->cancel(&d->store->source);
}
