// SPDX-License-Identifier: Apache-2.0
// Decodes a whole source once: first the contents of compressed archives, front to back in batches
// that all threads decode, then all other samples.
#include "data/dataset_store.h"
#include "data/decode_threads.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES_MAX = 32 << 20, BATCH_IMAGES_MAX = 8192 };

struct batch_image {
    size_t at, size;
    uint32_t item;
};

struct fill {
    struct dataset_store *store;
    uint8_t *pixels;
    size_t image_bytes;
    struct dataset_reader *reader; // threads entries
    int threads, opened;
    uint8_t *came; // samples entries, of sequential ones; NULL: none is
    uint64_t done;
    struct batch_image *batch;
    uint8_t *bytes;
    size_t batch_count, bytes_used, bytes_room;
};

static int fill_sample(struct fill *f, uint32_t i, int thread, const struct sample *sample,
                       struct err *e) {
    const struct transform_draw draw = {0, 0, i}; // nothing is drawn
    if (dataset_decode(&f->reader[thread], sample, &draw, f->pixels + i * f->image_bytes, e) == 0)
        return 0;
    return dataset_note_bad(f->store, i, false, e);
}

static int fill_item(void *ctx, uint64_t i, int thread, struct err *e) {
    struct fill *f = ctx;
    const struct source *s = &f->store->source;
    struct sample sample = {0};
    if (f->came && f->came[i])
        return 0;
    if (s->kind->read(s, (uint32_t)i, &f->reader[thread].source, &sample, e) < 0)
        return dataset_note_bad(f->store, (uint32_t)i, false, e);
    return fill_sample(f, (uint32_t)i, thread, &sample, e);
}

static int fill_run(struct fill *f, int (*item)(void *, uint64_t, int, struct err *),
                    uint64_t count, uint64_t done, struct err *e) {
    const struct dataset_config *c = &f->store->config;
    const struct decode_threads p = {.threads = f->threads,
                                     .count = count,
                                     .item = item,
                                     .ctx = f,
                                     .progress = c->progress,
                                     .progress_ctx = c->progress_ctx,
                                     .progress_base = done,
                                     .progress_total = f->store->source.samples};
    return decode_threads_run(&p, e);
}

static int fill_batch_item(void *ctx, uint64_t i, int thread, struct err *e) {
    struct fill *f = ctx;
    const struct batch_image *b = &f->batch[i];
    const struct sample sample = {.bytes = f->bytes + b->at, .len = b->size};
    return fill_sample(f, b->item, thread, &sample, e);
}

static int fill_batch(struct fill *f, struct err *e) {
    int bad = fill_run(f, fill_batch_item, f->batch_count, f->done, e);
    f->done += f->batch_count;
    f->batch_count = f->bytes_used = 0;
    return bad;
}

static int fill_in_order(void *ctx, uint32_t i, const struct sample *sample, struct err *e) {
    struct fill *f = ctx;
    if (f->bytes_used + sample->len > f->bytes_room) {
        f->bytes_room = f->bytes_used + sample->len + BATCH_BYTES_MAX;
        f->bytes = heap_realloc(f->bytes, f->bytes_room);
    }
    memcpy(f->bytes + f->bytes_used, sample->bytes, sample->len);
    f->batch[f->batch_count++] = (struct batch_image){f->bytes_used, sample->len, i};
    f->bytes_used += sample->len;
    f->came[i] = 1;
    bool full = f->batch_count == BATCH_IMAGES_MAX || f->bytes_used >= BATCH_BYTES_MAX;
    return full ? fill_batch(f, e) : 0;
}

static int fill_sequential(struct fill *f, struct err *e) {
    struct source *s = &f->store->source;
    if (!s->kind->is_sequential || !s->kind->is_sequential(s))
        return 0;
    f->came = heap_alloc(s->samples);
    f->batch = heap_alloc(BATCH_IMAGES_MAX * sizeof *f->batch);
    if (s->kind->sequential(s, fill_in_order, f, e) < 0)
        return -1;
    return fill_batch(f, e);
}

// A bad sample becomes the next good one, as dataset_read does.
static int fill_repair(struct fill *f, int32_t *labels, struct err *e) {
    const struct bad_samples *b = &f->store->bad;
    uint32_t samples = f->store->source.samples;
    if (samples == 0 || b->count == samples)
        return err_set(e, ERR_FORMAT, "no sample of the data can be read");
    for (uint32_t k = b->count; k-- > 0;) { // from the last: its successor is good by then
        uint32_t i = b->index[k], j = (i + 1) % samples;
        for (uint32_t at = 0; i + 1 == samples && at < b->count && b->index[at] == j; at++)
            j++;
        memcpy(f->pixels + i * f->image_bytes, f->pixels + j * f->image_bytes, f->image_bytes);
        labels[i] = labels[j];
    }
    return 0;
}

int dataset_fill(struct dataset_store *store, uint8_t *pixels, int32_t *labels, struct err *e) {
    const struct source *s = &store->source;
    struct fill f = {.store = store,
                     .pixels = pixels,
                     .image_bytes = (size_t)store->plan.width * (size_t)store->plan.height *
                                    (size_t)s->channels,
                     .threads = decode_threads_count(store->config.threads)};
    f.reader = heap_alloc((size_t)f.threads * sizeof *f.reader);
    int bad = 0;
    for (; f.opened < f.threads && bad == 0; f.opened++)
        bad = dataset_reader_init(&f.reader[f.opened], store, e);
    memcpy(labels, s->labels, s->samples * sizeof *labels);
    if (bad == 0)
        bad = fill_sequential(&f, e);
    if (bad == 0 && f.done < s->samples)
        bad = fill_run(&f, fill_item, s->samples, 0, e);
    if (bad == 0)
        bad = fill_repair(&f, labels, e);
    for (int i = 0; i < f.opened; i++)
        dataset_reader_fini(&f.reader[i]);
    free(f.reader);
    free(f.came);
    free(f.batch);
    free(f.bytes);
    return bad;
}
