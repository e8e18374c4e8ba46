// SPDX-License-Identifier: Apache-2.0
// Images to normalised numbers: the fast backend, with one thread and with several, has the bits of
// the reference, and pixels have values that were found by hand.
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

#include <math.h>
#include <string.h>

enum { BACKENDS = 3, THREADS = 3 };
static struct {
    const struct kernel_backend *k;
    struct kernel_ctx *ctx;
} backend[BACKENDS];

// The result that all backends have in common; free() it.
static float *normalized(struct image_args a, const char *what) {
    size_t total = (size_t)a.n * (size_t)(a.dst_h * a.dst_w * a.channels);
    float *out[BACKENDS];
    for (int i = 0; i < BACKENDS; i++) {
        a.out = out[i] = new_random(total);
        backend[i].k->image_normalize(backend[i].ctx, &a);
    }
    ok(memcmp(out[0], out[1], total * sizeof(float)) == 0, "%s: one thread has the bits", what);
    ok(memcmp(out[0], out[2], total * sizeof(float)) == 0, "%s: several threads have them", what);
    free(out[1]), free(out[2]);
    return out[0];
}

static void test_crops(void) {
    enum { n = 5, h = 8, w = 9, c = 3, out_h = 7, out_w = 10 };
    static const int16_t top[n] = {0, 0, -2, 3, 20}, left[n] = {0, 0, -3, 2, -20};
    static const uint8_t flip[n] = {0, 1, 0, 1, 0};
    uint8_t bytes[n][h * w * c];
    const uint8_t *src[n];
    for (int i = 0; i < n; i++) {
        src[i] = bytes[i];
        for (int j = 0; j < h * w * c; j++)
            bytes[i][j] = (uint8_t)((i * 31 + j * 7) & 255);
    }
    float *out = normalized((struct image_args){.n = n,
                                                .src_h = h,
                                                .src_w = w,
                                                .channels = c,
                                                .dst_h = out_h,
                                                .dst_w = out_w,
                                                .src = src,
                                                .offset_y = top,
                                                .offset_x = left,
                                                .flip = flip,
                                                .mean = {0.5, 0.4, 0.3},
                                                .std = {0.2, 0.3, 0.4}},
                            "images, cropped and mirrored");
    const float *second = out + out_h * out_w * c;
    near(out[4], (bytes[0][4] / 255.0 - 0.4) / 0.3, 1e-6, "a pixel has its value");
    near(second[0], (0.0 - 0.5) / 0.2, 1e-6, "a mirrored image has its border first");
    near(second[c], (bytes[1][8 * c] / 255.0 - 0.5) / 0.2, 1e-6, "the last column has its value");
    free(out);
}

// numpy.pad(…, mode="reflect") of rows 0 1 2 / 3 4 5 / 6 7 8, as far as a shift of two shows it.
static void test_reflection(void) {
    enum { n = 3, side = 3 };
    static const char want[] = "876543210678345012434767434";
    static const int16_t top[n] = {-2, 2, 1}, left[n] = {-2, 2, -1};
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, flip[n] = {0, 1, 0};
    static const uint8_t *const src[n] = {bytes, bytes, bytes};
    int wrong = 0;
    float *out = normalized((struct image_args){.n = n,
                                                .src_h = side,
                                                .src_w = side,
                                                .channels = 1,
                                                .dst_h = side,
                                                .dst_w = side,
                                                .src = src,
                                                .offset_y = top,
                                                .offset_x = left,
                                                .flip = flip,
                                                .reflect = 1,
                                                .std = {1.0 / 255}},
                            "images with their reflection around them");
    for (int i = 0; i < n * side * side; i++)
        wrong += fabsf(out[i] - (float)(want[i] - '0')) > 1e-4F;
    is_int(wrong, 0, "the reflection is that of numpy.pad");
    free(out);
}

int main(void) {
    for (int i = 0; i < BACKENDS; i++) {
        backend[i].k = i == 0 ? &kernels_reference : &kernels_cpu;
        if (backend[i].k->open(&backend[i].ctx,
                               &(struct kernel_config){.threads = i == 2 ? THREADS : 1}) != 0)
            bail_out("the kernels cannot be opened");
    }
    test_crops();
    test_reflection();
    for (int i = 0; i < BACKENDS; i++)
        backend[i].k->close(backend[i].ctx);
    return done_testing();
}
