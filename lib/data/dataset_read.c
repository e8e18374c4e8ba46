// SPDX-License-Identifier: Apache-2.0
// Reading and decoding one sample, and what is done about a bad one.
#include "base/log.h"
#include "data/dataset_store.h"
#include "data/served.h"

#include <stdlib.h>
#include <string.h>

uint8_t *source_room(struct source_reader *r, uint64_t len, size_t more, struct err *e) {
    if (len > JPEG_FILE_BYTES_MAX) {
        err_set(e, ERR_LIMIT, "%llu bytes are above the limit of %d for one image",
                (unsigned long long)len, JPEG_FILE_BYTES_MAX);
        return NULL;
    }
    if (r->room_bytes < len + more || !r->room) {
        free(r->room);
        r->room_bytes = len + more > 0 ? len + more : 1;
        r->room = heap_alloc(r->room_bytes);
    }
    return r->room;
}

void source_reader_close(struct source_reader *r) {
    free(r->room);
    served_link_close(r->link);
    *r = (struct source_reader){.room = NULL};
}

int dataset_reader_init(struct dataset_reader *r, struct dataset_store *store, struct err *e) {
    memset(r, 0, sizeof *r);
    r->store = store;
    return decoder_open(&r->decoder, e);
}

void dataset_reader_fini(struct dataset_reader *r) {
    decoder_close(&r->decoder);
    source_reader_close(&r->source);
}

int dataset_reader_open(struct dataset_reader **out, const struct dataset *d, struct err *e) {
    struct dataset_reader *r = heap_alloc(sizeof *r);
    *out = r;
    if (dataset_reader_init(r, d->store, e) == 0)
        return 0;
    free(r);
    *out = NULL;
    return -1;
}

void dataset_reader_close(struct dataset_reader *r) {
    if (!r)
        return;
    dataset_reader_fini(r);
    free(r);
}

// ---- bad samples -------------------------------------------------------------------------------

static uint32_t bad_place(const struct bad_samples *b, uint32_t i) {
    uint32_t at = 0;
    while (at < b->count && b->index[at] < i)
        at++;
    return at;
}

// Whether it is new. All above the limit are not kept: the caller stops.
static bool bad_add(struct bad_samples *b, uint32_t i) {
    uint32_t at = bad_place(b, i);
    if (at < b->count && b->index[at] == i)
        return false;
    if (b->count == DATASET_BAD_MAX)
        return true;
    memmove(b->index + at + 1, b->index + at, (b->count - at) * sizeof *b->index);
    b->index[at] = i;
    b->count++;
    return true;
}

void dataset_bad_add(struct dataset_store *store, uint32_t i) {
    pthread_mutex_lock(&store->bad.lock);
    bad_add(&store->bad, i);
    pthread_mutex_unlock(&store->bad.lock);
}

uint32_t dataset_bad_list(const struct dataset *d, uint32_t list[DATASET_BAD_MAX]) {
    struct bad_samples *b = &d->store->bad;
    pthread_mutex_lock(&b->lock);
    uint32_t count = b->count;
    memcpy(list, b->index, count * sizeof *list);
    pthread_mutex_unlock(&b->lock);
    return count;
}

int dataset_note_bad(struct dataset_store *store, uint32_t i, bool named, struct err *e) {
    const struct dataset_config *c = &store->config;
    struct strbuf where = {0};
    store->source.kind->where(&store->source, i, &where);
    if (!named)
        err_wrap(e, "%s", strbuf_cstr(&where));
    strbuf_fini(&where);
    // Errors of the machine or of the options are not faults of the sample.
    if (c->on_bad == DATASET_BAD_REFUSE || (e->code != ERR_FORMAT && e->code != ERR_LIMIT))
        return -1;
    pthread_mutex_lock(&store->bad.lock);
    bool fresh = bad_add(&store->bad, i);
    uint32_t count = store->bad.count;
    pthread_mutex_unlock(&store->bad.lock);
    if (count == store->source.samples)
        return err_wrap(e, "all %u samples are bad", count);
    if (count > (uint32_t)c->bad_max || count == DATASET_BAD_MAX)
        return err_wrap(e, "%u bad samples are above the limit of %d", count, c->bad_max);
    if (fresh)
        log_warn("a bad sample is left out; another one takes its place",
                 "bad=%u most=%d why=\"%s\"", count, c->bad_max, e->text);
    err_clear(e);
    return 0;
}

// ---- one sample --------------------------------------------------------------------------------

int dataset_decode(struct dataset_reader *r, const struct sample *sample,
                   const struct transform_draw *draw, uint8_t *out, struct err *e) {
    const struct decode_plan *plan = &r->store->plan;
    if (!sample->pixels)
        return decoder_image(&r->decoder, plan, draw, sample->bytes, sample->len, out, e);
    memcpy(out, sample->bytes, sample->len); // of the size of the source, which is the plan's
    return 0;
}

int dataset_read(struct dataset_reader *r, uint32_t i, uint64_t seed, uint64_t epoch, uint8_t *out,
                 int32_t *label, struct err *e) {
    struct dataset_store *store = r->store;
    const struct source *s = &store->source;
    // A bad sample is tried again whenever its turn comes: otherwise the result would depend on
    // which thread and rank has read it before.
    for (uint32_t k = 0;; k++) {
        uint32_t j = (uint32_t)(((uint64_t)i + k) % s->samples);
        const struct transform_draw draw = {seed, epoch, j};
        struct sample sample = {0};
        if (s->kind->read(s, j, &r->source, &sample, e) == 0 &&
            dataset_decode(r, &sample, &draw, out, e) == 0) {
            *label = s->labels[j];
            return 0;
        }
        if (dataset_note_bad(store, j, false, e) < 0)
            return -1;
        if (k == s->samples)
            return err_set(e, ERR_FORMAT, "no sample of the data can be read");
    }
}
