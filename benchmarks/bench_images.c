// SPDX-License-Identifier: Apache-2.0
// How fast one core makes 224 x 224 images out of JPEG files of 500 x 375: random parts as training
// cuts them, decoded at a reduced scale and in full, and evaluation's middle; beside the floor,
// decoding the same files with libjpeg and doing nothing else. Counted in processor time, in turns.
//
//     bench_images FOLDER [write]     write: makes the files first, for other programs, too
//
// One JSON line per way: images_per_s, floor_images_per_s, ratio.
#include "base/philox.h"
#include "benchmarks/median.h"
#include "data/dataset_store.h"
#include "data/jpeg_write.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILES = 64, WIDTH = 500, HEIGHT = 375, SIZE = 224, RESIZE = 256, ROUNDS = 5, WAYS = 3 };

struct file {
    char *bytes;
    size_t len;
};

static void die(const struct err *e) {
    fprintf(stderr, "bench_images: %s\n", e->text);
    exit(1);
}

// Slopes, soft spots and fine noise: about as many bytes as a photograph of this size.
static void paint(uint8_t *rgb, uint32_t number) {
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            uint64_t pixel = (uint64_t)y * WIDTH + x, spot = (uint64_t)y / 25 * 32 + x / 25;
            struct philox fine = philox(1, number, pixel), soft = philox(2, number, spot);
            for (int k = 0; k < 3; k++) {
                uint32_t v = soft.word[k] % 160 + fine.word[k] % 32 + (uint32_t)(x + y) / 16;
                rgb[(y * WIDTH + x) * 3 + k] = (uint8_t)(v > 255 ? 255 : v);
            }
        }
}

static void write_files(const char *dir) {
    uint8_t *rgb = heap_alloc((size_t)WIDTH * HEIGHT * 3);
    struct err e;
    char path[4096];
    for (uint32_t i = 0; i < FILES; i++) {
        unsigned char *jpeg;
        size_t len;
        paint(rgb, i);
        snprintf(path, sizeof path, "%s/%03u.jpg", dir, i);
        if (jpeg_write(rgb, WIDTH, HEIGHT, &jpeg, &len, &e) < 0 ||
            file_write_atomic(path, jpeg, len, 0644, &e) < 0)
            die(&e);
        free(jpeg);
    }
    free(rgb);
}

static void read_files(struct file *f, struct arena *a, const char *dir) {
    char path[4096];
    struct err e;
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%03d.jpg", dir, i);
        if (file_read(a, path, 1 << 20, &f[i].bytes, &f[i].len, &e) < 0)
            die(&e);
    }
}

static double floor_rate(struct decoder *d, const struct file *f) {
    const uint8_t *rgb;
    int w, h;
    struct err e;
    double start = cpu_s();
    for (int i = 0; i < FILES; i++)
        if (jpeg_decode(d->jpeg, f[i].bytes, f[i].len, &rgb, &w, &h, &e) < 0)
            die(&e);
    return FILES / (cpu_s() - start);
}

static double way_rate(struct decoder *d, const struct file *f, const struct decode_plan *plan,
                       uint64_t epoch) {
    static uint8_t out[SIZE * SIZE * 3];
    struct err e;
    double start = cpu_s();
    for (uint32_t i = 0; i < FILES; i++) {
        const struct transform_draw draw = {1, epoch, i};
        if (decoder_image(d, plan, &draw, f[i].bytes, f[i].len, out, &e) < 0)
            die(&e);
    }
    return FILES / (cpu_s() - start);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        struct decode_plan plan;
    } ways[WAYS] = {
        {"random part, reduced", {{{TRANSFORM_RESIZED_CROP, SIZE}}, SIZE, SIZE, true}},
        {"random part, in full", {{{TRANSFORM_RESIZED_CROP, SIZE}}, SIZE, SIZE, false}},
        {"evaluation",
         {{{TRANSFORM_RESIZE, RESIZE}, {TRANSFORM_CENTER_CROP, SIZE}}, SIZE, SIZE, false}}};
    struct file files[FILES];
    struct arena a = {0};
    struct decoder d;
    struct err e;
    double rate[WAYS][ROUNDS], base[ROUNDS];
    char made[] = "/tmp/bench_images.XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    if (argc != 2)
        write_files(dir);
    read_files(files, &a, dir);
    if (decoder_open(&d, &e) < 0)
        die(&e);
    for (int r = 0; r < ROUNDS; r++) {
        base[r] = floor_rate(&d, files);
        for (int w = 0; w < WAYS; w++)
            rate[w][r] = way_rate(&d, files, &ways[w].plan, (uint64_t)r);
    }
    double least = median(base, ROUNDS);
    for (int w = 0; w < WAYS; w++) {
        double now = median(rate[w], ROUNDS);
        printf("{\"bench\":\"images\",\"what\":\"%s\",\"threads\":1,\"images_per_s\":%.0f,"
               "\"floor_images_per_s\":%.0f,\"ratio\":%.3f}\n",
               ways[w].name, now, least, now / least);
    }
    if (argc == 1 && file_remove_tree(dir, &e) < 0)
        die(&e);
    decoder_close(&d);
    arena_fini(&a);
    return 0;
}
