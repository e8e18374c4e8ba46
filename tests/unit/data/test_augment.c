// SPDX-License-Identifier: Apache-2.0
// Augmentation against a plain formula, and the loader: the same batches whatever the threads.
#include "data/augment.h"
#include "data/loader.h"

#include "tests/tap.h"

static struct err e;

enum { H = 5, W = 7, C = 3 };

// One pixel at a time, straight from the definition.
static float plain(const struct augment_config *c, const struct augment_draw *d, const uint8_t *src,
                   int y, int x, int k) {
    int from_x = d->flip ? W - 1 - x : x;
    int sy = y + d->offset_y, sx = from_x + d->offset_x;
    uint8_t b = sy < 0 || sy >= H || sx < 0 || sx >= W ? 0 : src[(sy * W + sx) * C + k];
    float unit = (float)b / 255.0F, centred = unit - c->mean[k];
    return centred / c->std[k];
}

static bool same_bits(float a, float b) {
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static bool same_draw(const struct augment_draw *a, const struct augment_draw *b) {
    return a->flip == b->flip && a->offset_y == b->offset_y && a->offset_x == b->offset_x;
}

static void test_apply(void) {
    struct augment_config c = {.mean = {0.485F, 0.456F, 0.406F}, .std = {0.229F, 0.224F, 0.225F}};
    struct augment_table t;
    uint8_t src[H * W * C];
    float out[H * W * C];
    bool same = true;
    augment_table_init(&t, &c);
    for (int i = 0; i < H * W * C; i++)
        src[i] = (uint8_t)(i * 37 + 11);
    for (int oy = -H - 1; oy <= H + 1; oy++)
        for (int ox = -W - 1; ox <= W + 1; ox++)
            for (int flip = 0; flip < 2; flip++) {
                struct augment_draw d = {(int16_t)oy, (int16_t)ox, (uint8_t)flip};
                augment_apply(&t, &d, src, H, W, C, out);
                for (int i = 0; i < H * W * C; i++) {
                    float want = plain(&c, &d, src, i / C / W, i / C % W, i % C);
                    same &= same_bits(want, out[i]);
                }
            }
    ok(same, "every shift and mirror of an image, to the bit");
    uint8_t grey[6] = {0, 255, 51, 102, 1, 2};
    float unit[6];
    struct augment_config none = {0};
    augment_table_init(&t, &none);
    augment_apply(&t, &(struct augment_draw){0}, grey, 2, 3, 1, unit);
    ok(unit[0] <= 0 && unit[1] >= 1 && fabsf(unit[2] - 0.2F) < 1e-6F,
       "an image of one channel is only scaled");
}

static void test_draw(void) {
    struct augment_config c = {.flip = true, .crop_pad = 4, .seed = 9};
    int flips = 0, seen_y[9] = {0}, seen_x[9] = {0};
    for (uint32_t i = 0; i < 9000; i++) {
        struct augment_draw d = augment_draw(&c, 3, i);
        flips += d.flip;
        if (d.offset_y < -4 || d.offset_y > 4 || d.offset_x < -4 || d.offset_x > 4)
            bail_out("shift of %d, %d", d.offset_y, d.offset_x);
        seen_y[d.offset_y + 4]++;
        seen_x[d.offset_x + 4]++;
    }
    ok(flips > 4200 && flips < 4800, "%d of 9000 are mirrored", flips);
    bool even = true;
    for (int i = 0; i < 9; i++)
        even &= seen_y[i] > 850 && seen_y[i] < 1150 && seen_x[i] > 850 && seen_x[i] < 1150;
    ok(even, "all nine shifts are equally frequent");
    struct augment_draw a = augment_draw(&c, 3, 17), b = augment_draw(&c, 3, 17);
    ok(same_draw(&a, &b), "a draw repeats");
    int differ = 0;
    for (uint32_t i = 0; i < 100; i++) {
        struct augment_draw x = augment_draw(&c, 3, i), y = augment_draw(&c, 4, i);
        differ += !same_draw(&x, &y);
    }
    ok(differ > 80, "another epoch has other draws");
    c.flip = false;
    c.crop_pad = 0;
    a = augment_draw(&c, 3, 17);
    ok(a.flip == 0 && a.offset_y == 0 && a.offset_x == 0, "nothing asked, nothing drawn");
}

static uint64_t fold(uint64_t h, const void *p, size_t n) {
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * UINT64_C(1099511628211);
    return h;
}

// Digest over everything a pass gives.
static uint64_t epochs(const struct dataset *d, int batch, int threads, int depth, bool raw,
                       uint64_t *images, uint64_t *batches) {
    struct loader_config c = {.data = d,
                              .augment = {.flip = true, .crop_pad = 4, .seed = 5},
                              .batch = batch,
                              .threads = threads,
                              .depth = depth,
                              .raw = raw};
    struct sampler_config sc = {.samples = d->samples,
                                .rank = 1,
                                .world = 3,
                                .shuffle = true,
                                .tail = SAMPLER_PAD,
                                .seed = 2};
    struct loader *l;
    struct sampler s;
    uint64_t h = 1469598103934665603U;
    if (loader_open(&l, &c, &e) < 0 || sampler_open(&s, &sc, &e) < 0)
        bail_out("%s", e.text);
    *images = *batches = 0;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        sampler_start(&s, epoch, 0);
        loader_start(l, &s, true);
        const struct loader_batch *b;
        while ((b = loader_next(l))) {
            if (b->number != *batches % loader_batches(l))
                bail_out("batch %d out of order", (int)b->number);
            ++*batches;
            *images += (uint64_t)b->n;
            h = fold(h, b->labels, (size_t)b->n * sizeof *b->labels);
            h = fold(h, b->index, (size_t)b->n * sizeof *b->index);
            h = fold(h, b->flip, (size_t)b->n);
            h = fold(h, b->offset_x, (size_t)b->n * sizeof *b->offset_x);
            if (!raw)
                h = fold(h, b->x, (size_t)b->n * d->image_bytes * sizeof *b->x);
            for (int i = 0; i < b->n; i++)
                if (b->src[i] != dataset_image(d, b->index[i]) ||
                    b->labels[i] != d->labels[b->index[i]])
                    bail_out("wrong image");
        }
    }
    loader_close(l);
    sampler_close(&s);
    return h;
}

static void test_loader(void) {
    struct dataset d;
    struct dataset_config c = {.source = "shapes", .samples_max = 1000};
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    uint64_t images, batches, want = epochs(&d, 32, 0, 0, false, &images, &batches);
    is_uint(images, 2 * 334, "two epochs of a third of 1000 images, padded");
    is_uint(batches, 2 * 11, "the images come in batches of 32, the last one short");
    const int ways[][2] = {{1, 0}, {1, 2}, {2, 3}, {4, 2}, {8, 20}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        ok(epochs(&d, 32, ways[i][0], ways[i][1], false, &images, &batches) == want,
           "%d threads, %d batches ahead: the same", ways[i][0], ways[i][1]);
    uint64_t raw = epochs(&d, 32, 0, 0, true, &images, &batches);
    ok(epochs(&d, 32, 3, 0, true, &images, &batches) == raw, "raw batches, on three threads");
    dataset_close(&d);
}

static void test_restart(void) {
    struct dataset d;
    struct dataset_config c = {.source = "shapes", .samples_max = 640};
    struct loader_config lc = {.data = &d, .batch = 64, .threads = 2};
    struct sampler_config sc = {
        .samples = 640, .rank = 0, .world = 1, .shuffle = true, .tail = SAMPLER_PAD, .seed = 2};
    struct loader *l;
    struct sampler s;
    if (dataset_open(&d, &c, &e) < 0 || loader_open(&l, &lc, &e) < 0 ||
        sampler_open(&s, &sc, &e) < 0)
        bail_out("%s", e.text);
    loader_start(l, &s, true);
    loader_next(l);
    loader_next(l); // then the pass is dropped, in mid-epoch
    loader_start(l, &s, false);
    sampler_start(&s, 1, 256);
    loader_start(l, &s, false);
    is_uint(loader_batches(l), 6, "a resume after 256 of 640 has 6 batches of 64");
    const struct loader_batch *b = loader_next(l);
    is_uint(b->index[0], s.order[256], "a resumed epoch begins where it stopped");
    ok(b->flip[0] == 0 && b->x[0] >= 0 && b->x[0] <= 1,
       "without augmentation images are only scaled");
    int n = 1;
    while (loader_next(l))
        n++;
    is_int(n, 6, "all batches arrive");
    ok(loader_next(l) == NULL, "no batch follows the last");
    loader_close(l);
    sampler_close(&s);
    lc.batch = 0;
    is_int(loader_open(&l, &lc, &e), -1, "a batch of nothing is refused");
    dataset_close(&d);
}

// Mirrored in every other epoch, half of the images beginning with the first.
static void test_alternate(void) {
    struct augment_config c = {.flip = true, .alternate = true, .seed = 3};
    int wrong = 0, first = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        first += augment_draw(&c, 0, i).flip;
        for (uint64_t epoch = 0; epoch < 5; epoch++)
            wrong += augment_draw(&c, epoch, i).flip == augment_draw(&c, epoch + 1, i).flip;
    }
    is_int(wrong, 0, "every image is mirrored in every other epoch");
    ok(first > 440 && first < 560, "%d of 1000 in the first", first);
    c.crop_pad = 4;
    struct augment_draw a = augment_draw(&c, 7, 11);
    c.alternate = false;
    struct augment_draw b = augment_draw(&c, 7, 11);
    ok(a.offset_x == b.offset_x && a.offset_y == b.offset_y, "crops are drawn as without");
}

int main(void) {
    test_alternate();
    test_apply();
    test_draw();
    test_loader();
    test_restart();
    return done_testing();
}
