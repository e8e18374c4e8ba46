// SPDX-License-Identifier: Apache-2.0
// The loader at its limits: what it refuses, how many batches are ahead, and passes that end in the
// middle. (That threads change nothing is in test_augment.c, unreadable samples in test_stream.c.)
#include "data/loader.h"

#include "tests/tap.h"

enum { SAMPLES = 40, BATCH = 16, LAST = SAMPLES % BATCH };

static struct err e;
static struct dataset d;

static struct sampler in_order(void) {
    struct sampler_config c = {.samples = SAMPLES, .world = 1, .tail = SAMPLER_EXACT};
    struct sampler s = {0};
    if (sampler_open(&s, &c, &e) < 0)
        bail_out("%s", e.text);
    sampler_start(&s, 0, 0);
    return s;
}

static struct loader *open_loader(int threads, int depth) {
    struct loader_config c = {.data = &d, .batch = BATCH, .threads = threads, .depth = depth};
    struct loader *l;
    if (loader_open(&l, &c, &e) < 0)
        bail_out("%s", e.text);
    return l;
}

static void test_refused(void) {
    static const struct {
        struct loader_config config;
        const char *why; // NULL: it is taken
    } cases[] = {
        {{.batch = 0}, "batch 0 is not in 1 to 1048576"},
        {{.batch = -1}, "batch -1 is not in 1 to 1048576"},
        {{.batch = LOADER_BATCH_MAX + 1}, "batch 1048577 is not in 1 to 1048576"},
        {{.batch = LOADER_BATCH_MAX, .raw = true, .depth = 1}, NULL},
        {{.batch = 1}, NULL},
        {{.batch = 1, .threads = -1}, "-1 loader threads are not in 0 to 64"},
        {{.batch = 1, .threads = LOADER_THREADS_MAX + 1}, "65 loader threads are not in 0 to 64"},
        {{.batch = 1, .threads = LOADER_THREADS_MAX}, NULL},
        {{.batch = 1, .depth = -1}, "-1 batches ahead are not in 0 to 256"},
        {{.batch = 1, .depth = LOADER_DEPTH_MAX + 1}, "257 batches ahead are not in 0 to 256"},
        {{.batch = 1, .depth = LOADER_DEPTH_MAX}, NULL},
        {{.batch = 1, .augment.crop_pad = -1}, "crop padding -1 is not in 0 to"},
        {{.batch = 1, .augment.crop_pad = AUGMENT_PAD_MAX + 1}, "is not in 0 to"},
        {{.batch = 1, .augment.crop_pad = AUGMENT_PAD_MAX}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loader_config c = cases[i].config;
        struct loader *l = NULL;
        c.data = &d;
        err_clear(&e);
        is_int(loader_open(&l, &c, &e), cases[i].why ? -1 : 0, "loader %zu is %s", i,
               cases[i].why ? "refused" : "opened");
        ok((l == NULL) == (cases[i].why != NULL), "loader %zu is there or not", i);
        if (cases[i].why) {
            has_str(e.text, cases[i].why, "the error has the number and its bounds");
            is_int(e.code, ERR_CONFIG, "the settings are at fault");
        }
        loader_close(l);
    }
    loader_close(NULL);
}

// Each sample of a pass in its order; the last batch is short.
static void test_batches(int threads) {
    struct sampler s = in_order();
    struct loader *l = open_loader(threads, 0);
    const struct loader_batch *b;
    int batches = 0, wrong = 0;
    ok(loader_next(l) == NULL, "%d threads: no batch comes before a pass", threads);
    is_int(loader_failed(l, &e), 0, "%d threads: nothing has failed", threads);
    loader_start(l, &s, false);
    is_uint(loader_batches(l), 3, "%d threads: a pass has three batches", threads);
    for (; (b = loader_next(l)); batches++) {
        is_int(b->n, batches < 2 ? BATCH : LAST, "%d threads: batch %d has its samples", threads,
               batches);
        is_uint(b->number, (uint64_t)batches, "%d threads: batch %d has its number", threads,
                batches);
        for (int i = 0; i < b->n; i++) {
            uint32_t at = (uint32_t)(batches * BATCH + i);
            const float *x = b->x + (size_t)i * d.image_bytes;
            const uint8_t *image = dataset_image(&d, at);
            wrong += b->index[i] != at || b->labels[i] != d.labels[at] || b->src[i] != image ||
                     b->flip[i] || b->offset_x[i] || b->offset_y[i];
            for (size_t k = 0; k < d.image_bytes; k++)
                wrong += fabs((double)x[k] * 255 - image[k]) > 1e-3;
        }
        ok(((uintptr_t)b->x & 63) == 0, "%d threads: pixels are aligned", threads);
    }
    is_int(batches, 3, "%d threads: three batches come", threads);
    is_int(wrong, 0, "%d threads: every sample is at its place", threads);
    is_int(loader_failed(l, &e), 0, "%d threads: the pass did not fail", threads);
    ok(loader_next(l) == NULL, "%d threads: a pass that is over stays over", threads);
    loader_close(l);
    sampler_close(&s);
}

// Batches use as many places in memory as are asked for.
static void test_places(void) {
    static const struct {
        int threads, depth, places;
    } cases[] = {{0, 0, 2}, {0, 1, 1}, {0, 3, 3}, {1, 0, 3}, {1, 1, 2}, {1, 2, 2}, {3, 0, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampler s = in_order();
        struct loader *l = open_loader(cases[i].threads, cases[i].depth);
        const struct loader_batch *b;
        const float *place[8] = {NULL};
        int places = 0;
        for (int pass = 0; pass < 3; pass++) {
            loader_start(l, &s, false);
            for (int n = 0; (b = loader_next(l)); n++) {
                int k = 0;
                while (k < places && place[k] != b->x)
                    k++;
                if (k == places && places < 8)
                    place[places++] = b->x;
            }
        }
        int most = cases[i].places < 3 ? cases[i].places : 3; // of a pass of three batches
        is_int(places, most, "%d threads with %d batches ahead use their places", cases[i].threads,
               cases[i].depth);
        loader_close(l);
        sampler_close(&s);
    }
}

static void test_raw(void) {
    struct sampler s = in_order();
    struct loader_config c = {.data = &d,
                              .batch = BATCH,
                              .threads = 1,
                              .raw = true,
                              .cpus = (const int[]){0},
                              .augment = {.crop_pad = 2, .flip = true, .seed = 1}};
    struct loader *l;
    if (loader_open(&l, &c, &e) < 0)
        bail_out("%s", e.text);
    for (int augment = 0; augment < 2; augment++) {
        int drawn = 0, wrong = 0;
        loader_start(l, &s, augment);
        for (const struct loader_batch *b; (b = loader_next(l));) {
            wrong += b->x || b->pixels;
            for (int i = 0; i < b->n; i++) {
                struct augment_draw want = {0};
                if (augment)
                    want = augment_draw(&c.augment, 0, b->index[i]);
                drawn += b->flip[i] || b->offset_x[i] || b->offset_y[i];
                wrong += b->flip[i] != want.flip || b->offset_x[i] != want.offset_x ||
                         b->offset_y[i] != want.offset_y;
            }
        }
        is_int(wrong, 0, "raw batches have draws and no pixels of their own");
        ok(augment ? drawn > SAMPLES / 2 : drawn == 0, "%d samples are changed", drawn);
    }
    loader_close(l);
    sampler_close(&s);
}

// A pass that is dropped leaves nothing to the next one.
static void test_dropped(void) {
    for (int threads = 0; threads < 3; threads++) {
        struct sampler s = in_order();
        struct loader *l = open_loader(threads, 2);
        for (int taken = 0; taken < 4; taken++) {
            loader_start(l, &s, false);
            const struct loader_batch *b = NULL;
            for (int i = 0; i < taken; i++)
                b = loader_next(l);
            ok(taken == 0 || b->number == (uint64_t)taken - 1,
               "%d threads: a pass of %d batches begins with the first", threads, taken);
        }
        loader_close(l);
        sampler_close(&s);
    }
}

int main(void) {
    struct dataset_config c = {.source = "shapes", .samples_max = SAMPLES};
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    test_refused();
    for (int threads = 0; threads < 3; threads++)
        test_batches(threads);
    test_places();
    test_raw();
    test_dropped();
    dataset_close(&d);
    return done_testing();
}
