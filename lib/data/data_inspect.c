// SPDX-License-Identifier: Apache-2.0
// Looking through a data set: every sample is read and decoded once.
#include "data/data_inspect.h"

#include "base/str.h"
#include "data/data_scan.h"
#include "data/decode_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct look {
    int32_t width, height; // 0: bad
};

struct inspect {
    struct data_scan scan;
    struct data_inspection *out;
    struct arena *arena;
    pthread_mutex_t lock; // of out
    struct look *look;    // samples entries
    struct jpeg **jpeg;   // one per thread
    struct source_reader *reader;
    int threads;
};

// Keeps those of the lowest numbers, sorted.
static void inspect_bad(struct inspect *n, uint32_t i, struct err *e) {
    struct data_inspection *o = n->out;
    struct strbuf where = {0};
    const struct source *s = &n->scan.store->source;
    s->kind->where(s, i, &where);
    pthread_mutex_lock(&n->lock);
    uint32_t at = o->bad < DATA_INSPECT_BAD_NAMED ? o->bad : DATA_INSPECT_BAD_NAMED;
    while (at > 0 && o->bad_named[at - 1].index > i)
        at--;
    if (at < DATA_INSPECT_BAD_NAMED) {
        uint32_t last = o->bad < DATA_INSPECT_BAD_NAMED ? o->bad : DATA_INSPECT_BAD_NAMED - 1;
        memmove(&o->bad_named[at + 1], &o->bad_named[at], (last - at) * sizeof o->bad_named[0]);
        o->bad_named[at].index = i;
        o->bad_named[at].why = arena_printf(n->arena, "%s: %s", strbuf_cstr(&where), e->text);
    }
    o->bad++;
    pthread_mutex_unlock(&n->lock);
    strbuf_fini(&where);
    err_clear(e);
}

static int inspect_sample(struct inspect *n, uint32_t i, int thread, const struct sample *sample,
                          struct err *e) {
    const struct source *s = &n->scan.store->source;
    struct look *l = &n->look[i];
    const uint8_t *rgb;
    __atomic_fetch_add(&n->out->bytes, sample->len, __ATOMIC_RELAXED);
    if (sample->pixels)
        *l = (struct look){s->width, s->height};
    else if (jpeg_decode(n->jpeg[thread], sample->bytes, sample->len, &rgb, &l->width, &l->height,
                         e) < 0) {
        *l = (struct look){0};
        inspect_bad(n, i, e);
    }
    return 0;
}

static int inspect_item(void *ctx, uint64_t i, int thread, struct err *e) {
    struct inspect *n = ctx;
    const struct source *s = &n->scan.store->source;
    struct sample sample = {0};
    if (s->kind->read(s, (uint32_t)i, &n->reader[thread], &sample, e) == 0)
        return inspect_sample(n, (uint32_t)i, thread, &sample, e);
    inspect_bad(n, (uint32_t)i, e);
    return 0;
}

static int inspect_in_order(void *ctx, uint32_t i, const struct sample *sample, struct err *e) {
    return inspect_sample(ctx, i, 0, sample, e);
}

static int inspect_run(struct inspect *n, struct err *e) {
    const struct dataset_config *c = &n->scan.store->config;
    const struct source *s = &n->scan.store->source;
    if (s->kind->is_sequential && s->kind->is_sequential(s))
        return data_scan_each(&n->scan, inspect_in_order, n, e);
    const struct decode_threads p = {.threads = n->threads,
                                     .count = s->samples,
                                     .item = inspect_item,
                                     .ctx = n,
                                     .progress = c->progress,
                                     .progress_ctx = c->progress_ctx,
                                     .progress_total = s->samples};
    return decode_threads_run(&p, e);
}

static void inspect_first(struct inspect *n, uint32_t i) {
    struct data_inspection *o = n->out;
    const struct source *s = &n->scan.store->source;
    struct strbuf where = {0};
    s->kind->where(s, i, &where);
    o->first[o->firsts++] =
        (struct data_inspect_image){i, n->look[i].width, n->look[i].height, s->labels[i],
                                    arena_strdup(n->arena, strbuf_cstr(&where))};
    strbuf_fini(&where);
}

static void inspect_sum(struct inspect *n) {
    struct data_inspection *o = n->out;
    const struct source *s = &n->scan.store->source;
    double good = 0;
    for (uint32_t i = 0; i < s->samples; i++) {
        const struct look *l = &n->look[i];
        o->class_samples[s->labels[i]]++;
        if (l->width == 0)
            continue;
        o->width_min = good == 0 || l->width < o->width_min ? l->width : o->width_min;
        o->height_min = good == 0 || l->height < o->height_min ? l->height : o->height_min;
        o->width_max = l->width > o->width_max ? l->width : o->width_max;
        o->height_max = l->height > o->height_max ? l->height : o->height_max;
        o->width_mean += l->width;
        o->height_mean += l->height;
        good++;
        if (o->firsts < DATA_INSPECT_FIRST)
            inspect_first(n, i);
    }
    o->width_mean /= good > 0 ? good : 1;
    o->height_mean /= good > 0 ? good : 1;
}

static void inspect_names(struct inspect *n) {
    struct data_inspection *o = n->out;
    const struct source *s = &n->scan.store->source;
    const char **name = arena_new(n->arena, const char *, (size_t)s->classes);
    for (int i = 0; i < s->classes; i++)
        name[i] = arena_strdup(n->arena, s->class_names[i]);
    o->kind = s->kind->name;
    o->samples = s->samples;
    o->classes = s->classes;
    o->class_names = name;
    o->class_samples = arena_new(n->arena, uint32_t, (size_t)s->classes);
}

int data_inspect(const struct dataset_config *c, struct arena *a, struct data_inspection *out,
                 struct err *e) {
    struct inspect n = {.out = out, .arena = a, .threads = decode_threads_count(c->threads)};
    memset(out, 0, sizeof *out);
    n.jpeg = heap_alloc((size_t)n.threads * sizeof *n.jpeg);
    n.reader = heap_alloc((size_t)n.threads * sizeof *n.reader);
    pthread_mutex_init(&n.lock, NULL);
    int bad = data_scan_open(&n.scan, c, e);
    for (int i = 0; i < n.threads && bad == 0; i++)
        bad = jpeg_open(&n.jpeg[i], e);
    if (bad == 0) {
        inspect_names(&n);
        n.look = heap_alloc(out->samples * sizeof *n.look);
        bad = inspect_run(&n, e);
    }
    if (bad == 0)
        inspect_sum(&n);
    for (int i = 0; i < n.threads; i++) {
        jpeg_close(n.jpeg[i]);
        source_reader_close(&n.reader[i]);
    }
    pthread_mutex_destroy(&n.lock);
    data_scan_close(&n.scan);
    free(n.jpeg);
    free(n.reader);
    free(n.look);
    return bad;
}
