// SPDX-License-Identifier: Apache-2.0
// How fast one core makes training batches of 32x32 images: stored bytes to mirrored (and shifted),
// normalised floats, next to its floor, copying as many bytes as are written; and how fast JPEGs of
// that size are decoded, where the real ones lie in ../shared/data.
//
// Everything runs on one thread and is counted in its processor time, so what else the machine does
// matters little. JSON lines: images_per_s, floor_images_per_s, ratio.
#include "benchmarks/median.h"
#include "data/dataset.h"
#include "data/loader.h"

#include "base/arena.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IMAGES = 20000, BATCH = 64, ROUNDS = 7 };

static void die(const struct err *e) {
    fprintf(stderr, "bench_loader: %s\n", e->text);
    exit(1);
}

// Images per second of copying what a batch writes from one place in memory to another.
static double floor_rate(const struct dataset *d) {
    size_t bytes = BATCH * d->image_bytes * sizeof(float);
    char *from = heap_alloc(bytes), *to = heap_alloc(bytes);
    double start = cpu_s();
    for (int i = 0; i < IMAGES / BATCH; i++) {
        from[i] = (char)i;
        memcpy(to, from, bytes);
        __asm__ volatile("" ::: "memory"); // all copies count
    }
    double s = cpu_s() - start;
    free(from);
    free(to);
    int images = IMAGES / BATCH * BATCH;
    return images / s;
}

static double loader_rate(const struct dataset *d, bool flip, int pad, uint64_t epoch) {
    struct loader_config c = {.data = d,
                              .augment = {.flip = flip,
                                          .crop_pad = pad,
                                          .mean = {0.485F, 0.456F, 0.406F},
                                          .std = {0.229F, 0.224F, 0.225F}},
                              .batch = BATCH};
    struct sampler_config sc = {
        .samples = d->samples, .world = 1, .shuffle = true, .tail = SAMPLER_PAD, .seed = 1};
    struct sampler s;
    struct loader *l;
    struct err e;
    if (loader_open(&l, &c, &e) < 0 || sampler_open(&s, &sc, &e) < 0)
        die(&e);
    double start = cpu_s();
    sampler_start(&s, epoch, 0);
    loader_start(l, &s, true);
    while (loader_next(l)) {}
    double seconds = cpu_s() - start;
    loader_close(l);
    sampler_close(&s);
    return d->samples / seconds;
}

static void bench_decode(void) {
    char path[512];
    const char *source = getenv("DTCTL_SRC");
    snprintf(path, sizeof path, "%s/../shared/data/cifar10-images.tar.zst", source ? source : ".");
    if (!file_exists(path)) {
        fprintf(stderr, "bench_loader: no %s, so no decoding rate\n", path);
        return;
    }
    struct dataset d;
    struct err e;
    struct dataset_config c = {.source = path, .threads = 1};
    double start = cpu_s();
    if (dataset_open(&d, &c, &e) < 0)
        die(&e);
    double seconds = cpu_s() - start;
    printf("{\"bench\":\"loader-decode\",\"source\":\"tar.zst\",\"images\":%u,\"threads\":1,"
           "\"s\":%.3f,\"images_per_s\":%.0f}\n",
           d.samples, seconds, d.samples / seconds);
    dataset_close(&d);
}

int main(void) {
    static const struct {
        const char *name;
        bool flip;
        int pad;
    } ways[] = {
        {"normalise", false, 0}, {"flip+normalise", true, 0}, {"flip+crop+normalise", true, 4}};
    struct dataset d;
    struct err e;
    struct dataset_config c = {.source = "shapes", .samples_max = IMAGES};
    if (dataset_open(&d, &c, &e) < 0)
        die(&e);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        double rate[ROUNDS], floor[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            floor[i] = floor_rate(&d);
            rate[i] = loader_rate(&d, ways[w].flip, ways[w].pad, (uint64_t)i);
        }
        double r = median(rate, ROUNDS), f = median(floor, ROUNDS);
        printf("{\"bench\":\"loader\",\"what\":\"%s\",\"batch\":%d,\"threads\":1,"
               "\"images_per_s\":%.0f,\"floor_images_per_s\":%.0f,\"ratio\":%.3f}\n",
               ways[w].name, BATCH, r, f, r / f);
    }
    dataset_close(&d);
    bench_decode();
    return 0;
}
