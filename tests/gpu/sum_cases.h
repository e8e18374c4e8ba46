// SPDX-License-Identifier: Apache-2.0
// Convolutions of kernels/cuda that leave sums for the batch norm behind them, against the
// reference: statistics are those of the result as it is in memory.
#ifndef TESTS_GPU_SUM_CASES_H
#define TESTS_GPU_SUM_CASES_H
#include "tests/gpu/act_cases.h"

// The roundings of a sum: of a tile's rows, of the tiles that a thread adds, and of formulas.
enum { SUM_FORMULAS = 16, SUM_MEAN = 1000 };
static double sum_bound(int tile_rows, int64_t rows) {
    return roundings(tile_rows + (int)(rows / tile_rows / 8) + SUM_FORMULAS);
}

static struct batchnorm_args sum_args(const struct conv2d_shape *s, const struct conv_buffers *b) {
    size_t o = (size_t)s->o;
    struct batchnorm_args a = {
        .rows = (int64_t)(b->ny / o), .channels = s->o, .eps = 1e-5, .momentum = 0.1, .relu = 1};
    a.gamma = host_random(o), a.beta = host_random(o);
    a.running_mean = host_random(o), a.running_var = host_absolute(host_random(o), o);
    a.save_mean = host_random(o), a.save_invstd = host_random(o), a.y = host_random(b->ny);
    return a;
}

static struct batchnorm_args sum_device(const struct batchnorm_args *a, enum kernel_type store) {
    size_t o = (size_t)a->channels;
    struct batchnorm_args d = *a;
    d.gamma = device_floats(a->gamma, o), d.beta = device_floats(a->beta, o);
    d.running_mean = device_floats(a->running_mean, o);
    d.running_var = device_floats(a->running_var, o);
    d.save_mean = device_empty(o * sizeof(float)), d.save_invstd = device_empty(o * sizeof(float));
    d.y = device_room(store, (size_t)a->rows * o);
    d.store = store;
    return d;
}

// Of means, the terms that may cancel are some deviations; of y, what is subtracted.
static void sum_compare(const struct batchnorm_args *d, const struct batchnorm_args *a,
                        const float *x, double bound, const char *what) {
    size_t o = (size_t)a->channels, n = (size_t)a->rows * o;
    const float *invstd = a->save_invstd, *mean = a->save_mean, *gamma = a->gamma, *beta = a->beta;
    float *deviation = host_bytes(o * sizeof *deviation), *size = host_bytes(n * sizeof *size);
    for (size_t c = 0; c < o; c++)
        deviation[c] = 8 / invstd[c];
    for (size_t i = 0; i < n; i++)
        size[i] =
            (fabsf(x[i] - mean[i % o]) + 8 / invstd[i % o]) * invstd[i % o] * fabsf(gamma[i % o]) +
            fabsf(beta[i % o]);
    for (size_t i = 0; i < n; i++) // a mean is a float
        size[i] += (float)(fabsf(mean[i % o]) * invstd[i % o] * fabsf(gamma[i % o]) / 16);
    case_close(d->save_invstd, invstd, NULL, o, bound, what);
    case_close(d->save_mean, mean, deviation, o, bound, what);
    case_close(d->running_mean, a->running_mean, deviation, o, bound, what);
    case_close(d->running_var, a->running_var, NULL, o, bound, what);
    case_tensor(d->store, d->y, a->y, size, n, bound, what);
}

// mean: about which the convolution's results are. The tile that is expected, 0: there are no sums.
static void sum_case(const struct conv2d_shape *s, int mean, int side, const char *what) {
    struct conv_buffers b = conv_begin(s);
    struct batchnorm_args a = sum_args(s, &b), d = sum_device(&a, s->y_store);
    void *y = device_room(s->y_store, b.ny);
    for (int o = 0; o < s->o; o++)
        b.bias[o] += (float)(o % 3 ? mean : 0);
    int rows = cuda_conv2d_sums(&test.queue, s);
    is_int(rows, side, "%s: rows of a sum", what);
    cuda_conv2d_forward_sums(&test.queue, s, device_tensor(s->x_store, b.x, b.nx),
                             device_floats(b.w, b.nw), device_floats(b.bias, (size_t)s->o), y);
    d.x = y, d.x_sums = rows;
    cuda_batchnorm_forward_train(&test.queue, &d);
    float *x = device_numbers(s->y_store, y, b.ny);
    a.x = x;
    kernels_reference.batchnorm_forward_train(test.reference, &a);
    sum_compare(&d, &a, x, sum_bound(rows, a.rows), what);
    case_end();
}

static const struct {
    struct conv2d_shape shape;
    int large;
} sum_convs[] = {
    {{2, 5, 7, 3, 5, 3, 3, 1, 1, 0, 0, 0}, 0},      // a part of a tile
    {{1, 1, 1, 20, 9, 1, 1, 1, 0, 0, 0, 0}, 0},     // one row
    {{1, 6, 5, 4, 70, 1, 1, 2, 0, 0, 0, 0}, 0},     // two tiles of columns
    {{1, 8, 8, 14, 64, 3, 3, 1, 1, 0, 0, 0}, 0},    // a whole tile
    {{1, 48, 47, 1, 3, 1, 1, 1, 0, 0, 0, 0}, 0},    // two chunks of tiles
    {{1, 12, 11, 96, 160, 1, 1, 1, 0, 0, 0, 0}, 1}, // large tiles with parts of them
    {{2, 9, 8, 32, 136, 1, 3, 1, 1, 0, 0, 0}, 1},
};

// All types, and y in memory as bfloat16; means of zero, and far from it. Without sums, too.
static void sums(void) {
    char what[WHAT_BYTES];
    for (size_t i = 0; i < sizeof sum_convs / sizeof *sum_convs; i++)
        for (int type = 0; type <= types(); type++) {
            struct conv2d_shape s = sum_convs[i].shape;
            if (type < types())
                s.type = (enum kernel_type)type;
            else
                conv_keeps(&s, i % 2 ? 3 : 2);
            int at = conv_name(what, "sums of conv", &s);
            bool large = sum_convs[i].large && s.type != KERNEL_FLOAT &&
                         device_capability() >= CUDA_LARGE_CAPABILITY;
            int mean = ((int)i + type) % 2 || type == types() ? SUM_MEAN : 0;
            snprintf(what + at, sizeof what - (size_t)at, "about %d", mean);
            sum_case(&s, mean, large ? CUDA_LARGE_TILE : CUDA_TILE, what);
            for (int relu = 0; sum_convs[i].large && relu < 2; relu++)
                conv_forward(&s, relu, what); // of one split, as none of the other large ones
        }
    struct conv2d_shape split = {2, 8, 8, 32, 64, 3, 3, 1, 1, KERNEL_BF16, 0, 0};
    case_begin(0);
    is_int(cuda_conv2d_sums(&test.queue, &split), 0, "a convolution with splits leaves no sums");
    case_end();
}

// Statistics read the first row of each tile of x, and the norm reads all of it once.
static void sum_counts(void) {
    enum { ROWS = 256, IN = 64, OUT = 128, CHUNKS = 1, GROUPS = 8, APPLY = ROWS / 64 };
    for (int kept = 0; kept < 4; kept += 3) {
        struct conv2d_shape s = {1, 16, 16, IN, OUT, 1, 1, 1, 0, KERNEL_BF16, 0, 0};
        int large = device_capability() >= CUDA_LARGE_CAPABILITY;
        int side = large ? 128 : 64, tiles = ROWS / side, word = kept ? 2 : 4;
        conv_keeps(&s, kept);
        sum_case(&s, 0, side, "sums of conv of whole tiles");
        case_counts("sums of conv of whole tiles");
        int product = large
                          ? (kept ? 2 * ROWS * IN : 8 * ROWS * IN) + 8 * OUT * IN * (tiles + 3) / 4
                          : 4 * ROWS * IN * 2 + 4 * OUT * IN * tiles;
        int sum = 2 * 8 * tiles * OUT + tiles * OUT * word + GROUPS * CHUNKS * OUT * word;
        int moments = 2 * 16 * CHUNKS * OUT + OUT * word + 24 * OUT;
        int apply = 2 * ROWS * OUT * word + 16 * OUT * GROUPS * APPLY;
        case_moved(product + ROWS * OUT * word + 4 * OUT * ROWS + sum + moments + apply,
                   "statistics read no number of a tile but its first row");
    }
}

#endif
