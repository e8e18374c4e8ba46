// SPDX-License-Identifier: Apache-2.0
// The built-in data set: the same bits everywhere, balanced, train and test apart, and out of reach
// of a linear model.
#include "data/dataset.h"

#include "base/hash.h"
#include "tests/tap.h"

static struct err e;

static void digest_of(const struct dataset *d, char hex[HASH_HEX_BYTES]) {
    unsigned char digest[HASH_BYTES];
    hash_of(digest, d->pixels, d->samples * d->image_bytes);
    hash_hex(hex, digest);
}

static void test_content(void) {
    struct dataset d, again, other;
    struct dataset_config c = {.source = "shapes", .threads = 1, .samples_max = 500};
    char hex[HASH_HEX_BYTES], hex2[HASH_HEX_BYTES];
    is_int(dataset_open(&d, &c, &e), 0, "shapes opens");
    is_str(d.kind, "shapes", "the data set is of kind shapes");
    is_uint(d.samples, 500, "500 samples");
    ok(d.height == 32 && d.width == 32 && d.channels == 3 && d.classes == 10,
       "32x32x3, 10 classes");
    is_str(d.class_names[3], "disc", "the classes have names");
    int count[10] = {0};
    for (uint32_t i = 0; i < d.samples; i++)
        count[d.labels[i]]++;
    ok(count[0] == 50 && count[9] == 50, "classes are balanced");
    digest_of(&d, hex);
    is_str(hex, "d515949d800bb40aa725e75103d1c66e80fd119867b2ad2bd128889338905b85",
           "the bits are those of every other machine");
    c.threads = 3;
    is_int(dataset_open(&again, &c, &e), 0, "the data set opens with three threads");
    ok(memcmp(d.pixels, again.pixels, 500 * d.image_bytes) == 0,
       "any number of threads gives the same images");
    c.split = DATASET_TEST;
    is_int(dataset_open(&other, &c, &e), 0, "the test split");
    digest_of(&other, hex2);
    ok(strcmp(hex, hex2) != 0, "the test split differs from the training split");
    dataset_close(&other);
    c.split = DATASET_TRAIN;
    c.seed = 1;
    is_int(dataset_open(&other, &c, &e), 0, "the data set opens with another seed");
    digest_of(&other, hex2);
    ok(strcmp(hex, hex2) != 0, "another seed gives other images");
    dataset_close(&other);
    dataset_close(&again);
    dataset_close(&d);
}

// Softmax regression on raw pixels by plain gradient descent.
static double linear_accuracy(const struct dataset *train, const struct dataset *test) {
    enum { D = 3072, K = 10, EPOCHS = 3 };
    static float w[K][D + 1];
    memset(w, 0, sizeof w);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t n = 0; n < train->samples; n++) {
            uint32_t i = (n * 7919U + (uint32_t)epoch) % train->samples;
            const uint8_t *x = dataset_image(train, i);
            float z[K], top = -1e30F, sum = 0;
            for (int k = 0; k < K; k++) {
                z[k] = w[k][D];
                for (int j = 0; j < D; j++)
                    z[k] += w[k][j] * ((float)x[j] / 128.0F - 1.0F);
                top = z[k] > top ? z[k] : top;
            }
            for (int k = 0; k < K; k++)
                sum += z[k] = expf(z[k] - top);
            for (int k = 0; k < K; k++) {
                float g = 0.001F * (z[k] / sum - (k == train->labels[i] ? 1.0F : 0.0F));
                for (int j = 0; j < D; j++)
                    w[k][j] -= g * ((float)x[j] / 128.0F - 1.0F);
                w[k][D] -= g;
            }
        }
    uint32_t right = 0;
    for (uint32_t i = 0; i < test->samples; i++) {
        const uint8_t *x = dataset_image(test, i);
        int best = 0;
        float best_z = -1e30F;
        for (int k = 0; k < K; k++) {
            float z = w[k][D];
            for (int j = 0; j < D; j++)
                z += w[k][j] * ((float)x[j] / 128.0F - 1.0F);
            if (z > best_z) {
                best_z = z;
                best = k;
            }
        }
        right += best == test->labels[i];
    }
    return (double)right / test->samples;
}

static void test_linear(void) {
    struct dataset train, test;
    struct dataset_config c = {.source = "shapes", .samples_max = 3000};
    if (dataset_open(&train, &c, &e) < 0)
        bail_out("%s", e.text);
    c.split = DATASET_TEST;
    c.samples_max = 1000;
    if (dataset_open(&test, &c, &e) < 0)
        bail_out("%s", e.text);
    double accuracy = linear_accuracy(&train, &test);
    ok(accuracy < 0.5, "a linear model gets %.1f %% right, below 50 %%", accuracy * 100);
    dataset_close(&train);
    dataset_close(&test);
}

static void test_refused(void) {
    struct dataset d;
    struct dataset_config c = {.source = "shapes", .image_size = 64};
    is_int(dataset_open(&d, &c, &e), -1, "another size is refused");
    has_str(e.text, "32 pixels, not 64", "the error has both sizes");
    c = (struct dataset_config){.source = "/does/not/exist"};
    is_int(dataset_open(&d, &c, &e), -1, "a path that is not there");
    is_int(e.code, ERR_NOT_FOUND, "a missing path is not found");
    c = (struct dataset_config){.source = "shapes", .kind = "shape"};
    is_int(dataset_open(&d, &c, &e), -1, "an unknown kind");
    has_str(e.text, "nearest is shapes", "the error suggests a kind");
    c = (struct dataset_config){.source = "/tmp"};
    is_int(dataset_open(&d, &c, &e), -1, "a folder without a data set");
    has_str(e.text, "data_batch_1.bin", "the error names the files that are missing");
}

int main(void) {
    test_content();
    if (!TAP_SANITIZED) // it judges the images by code of this test
        test_linear();
    test_refused();
    return done_testing();
}
