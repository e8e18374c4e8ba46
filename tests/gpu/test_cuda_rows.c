// SPDX-License-Identifier: Apache-2.0
// Batch norm, layer norm and sums over rows of kernels/cuda against the reference. The bound of
// each element: the roundings of a thread's sum and of the formula, times the magnitude of its
// terms.
#include "tests/gpu/cuda_case.h"

enum { FORMULA_ROUNDINGS = 12 };

// Roundings in float that a sum over so many terms and its use may make: a thread adds at most
// `each` terms before a wider sum.
static double sum_roundings(int64_t each) {
    return (double)(each + FORMULA_ROUNDINGS) * CASE_UNIT;
}
static int64_t rows_of_thread(int64_t rows) {
    return rows / (64 * 8) + 32 / 8;
}

// ---- batch norm
// -----------------------------------------------------------------------------------
struct batch {
    int64_t rows;
    int channels, relu, residual, accumulate;
    size_t n, c;
    float *x, *other, *gamma, *beta, *mean, *var, *save_mean, *save_invstd, *y, *size;
};

static struct batch batch_begin(int64_t rows, int channels, int variant) {
    struct batch b = {.rows = rows,
                      .channels = channels,
                      .relu = variant & 1,
                      .residual = variant >> 1 & 1,
                      .accumulate = variant >> 2 & 1};
    b.n = (size_t)rows * (size_t)channels, b.c = (size_t)channels;
    case_begin(cuda_batchnorm_workspace(rows, channels));
    b.x = host_random(b.n), b.other = host_tensor(test.store, b.n), b.gamma = host_random(b.c);
    b.beta = host_random(b.c), b.mean = host_random(b.c);
    b.var = host_absolute(host_random(b.c), b.c);
    b.save_mean = host_random(b.c), b.save_invstd = host_random(b.c);
    b.y = host_random(b.n), b.size = host_random(b.n);
    for (size_t i = 0; i < b.n; i++)
        b.x[i] += (float)(i % b.c) * 3; // means far from zero
    host_rounded(test.store, b.x, b.n);
    return b;
}

static struct batchnorm_args batch_args(const struct batch *b) {
    return (struct batchnorm_args){
        .rows = b->rows,
        .channels = b->channels,
        .eps = 1e-5,
        .momentum = 0.1,
        .x = b->x,
        .residual = b->residual ? b->other : NULL,
        .gamma = b->gamma,
        .beta = b->beta,
        .running_mean = b->mean,
        .running_var = b->var,
        .save_mean = b->save_mean,
        .save_invstd = b->save_invstd,
        .y = b->y,
        .relu = b->relu,
    };
}

static struct batchnorm_args batch_device(const struct batch *b, int train) {
    struct batchnorm_args a = batch_args(b);
    a.store = test.store;
    a.x = device_tensor(a.store, b->x, b->n), a.gamma = device_floats(b->gamma, b->c);
    a.beta = device_floats(b->beta, b->c), a.running_mean = device_floats(b->mean, b->c);
    a.running_var = device_floats(b->var, b->c);
    a.save_mean = device_empty(b->c * sizeof(float));
    a.save_invstd = device_empty(b->c * sizeof(float));
    if (a.residual)
        a.residual = device_tensor(a.store, b->other, b->n);
    a.y = a.residual ? (void *)(uintptr_t)a.residual // in place, as kernels.h allows
          : train    ? device_room(a.store, b->n)
                     : (void *)(uintptr_t)a.x;
    return a;
}

static void batch_sizes(const struct batch *b, const float *mean, const float *invstd) {
    for (size_t i = 0, c = 0; i < b->n; i++, c = c + 1 < b->c ? c + 1 : 0)
        b->size[i] = (fabsf(b->x[i]) + fabsf(mean[c])) * invstd[c] * fabsf(b->gamma[c]) +
                     fabsf(b->beta[c]) + fabsf(b->other[i]);
}

static void batch_forward(int64_t rows, int channels, int variant) {
    char what[96];
    struct batch b = batch_begin(rows, channels, variant);
    struct batchnorm_args d = batch_device(&b, 1), a = batch_args(&b);
    double relative = sum_roundings(rows_of_thread(rows));
    cuda_batchnorm_forward_train(&test.queue, &d);
    kernels_reference.batchnorm_forward_train(test.reference, &a);
    batch_sizes(&b, b.save_mean, b.save_invstd);
    int at = snprintf(what, sizeof what, "batch norm %d x %d, %d: ", (int)rows, channels, variant);
    snprintf(what + at, sizeof what - (size_t)at, "y");
    case_tensor(test.store, d.y, b.y, b.size, b.n, relative, what);
    snprintf(what + at, sizeof what - (size_t)at, "1 / deviation");
    case_close(d.save_invstd, b.save_invstd, NULL, b.c, relative, what);
    snprintf(what + at, sizeof what - (size_t)at, "mean, running mean and variance");
    for (size_t c = 0; c < b.c; c++) // the terms of a mean, which may cancel
        b.size[c] = 1 + fabsf(b.save_mean[c]);
    case_close(d.save_mean, b.save_mean, b.size, b.c, relative, what);
    case_close(d.running_mean, b.mean, b.size, b.c, relative, what);
    case_close(d.running_var, b.var, NULL, b.c, relative, what);
    case_end();
}

static void batch_eval(int64_t rows, int channels, int variant) {
    struct batch b = batch_begin(rows, channels, variant);
    struct batchnorm_args d = batch_device(&b, 0), a = batch_args(&b);
    float *invstd = host_random(b.c);
    cuda_batchnorm_forward_eval(&test.queue, &d);
    kernels_reference.batchnorm_forward_eval(test.reference, &a);
    for (size_t c = 0; c < b.c; c++)
        invstd[c] = 1 / sqrtf(b.var[c] + 1e-5f);
    batch_sizes(&b, b.mean, invstd);
    case_tensor(test.store, d.y, b.y, b.size, b.n, sum_roundings(0), "batch norm in evaluation");
    case_end();
}

// The magnitude of dx: each of its three terms by absolute values.
static void batch_grad_sizes(const struct batch *b, const float *dy) {
    for (size_t c = 0; c < b->c; c++) {
        double sum = 0, dot = 0;
        for (size_t i = c; i < b->n; i += b->c) {
            sum += fabs((double)dy[i]);
            dot += fabs((double)dy[i] * (double)(b->x[i] - b->save_mean[c]) *
                        (double)b->save_invstd[c]);
        }
        for (size_t i = c; i < b->n; i += b->c) {
            double normal = fabs((double)(b->x[i] - b->save_mean[c]) * (double)b->save_invstd[c]);
            double scale = fabs((double)b->gamma[c] * (double)b->save_invstd[c]);
            b->size[i] =
                (float)(scale * (fabs((double)dy[i]) + (sum + normal * dot) / (double)b->rows));
        }
        b->mean[c] = (float)sum, b->var[c] = (float)dot; // the magnitudes of dbeta and dgamma
    }
}

static void batch_backward(int64_t rows, int channels, int variant) {
    struct batch b = batch_begin(rows, channels, variant);
    struct batchnorm_args forward = batch_args(&b);
    kernels_reference.batchnorm_forward_train(test.reference, &forward);
    enum kernel_type s = test.store;
    host_rounded(s, b.y, b.n);
    float *dy = host_tensor(s, b.n), *dx = host_random(b.n), *dgamma = host_random(b.c);
    float *dbeta = host_random(b.c), *dresidual = host_random(b.n);
    struct batchnorm_grad_args a = {.rows = rows,
                                    .channels = channels,
                                    .x = b.x,
                                    .y = b.relu ? b.y : NULL,
                                    .dy = dy,
                                    .gamma = b.gamma,
                                    .save_mean = b.save_mean,
                                    .save_invstd = b.save_invstd,
                                    .dx = dx,
                                    .dresidual = b.residual ? dresidual : NULL,
                                    .dgamma = dgamma,
                                    .dbeta = dbeta,
                                    .accumulate = b.accumulate,
                                    .relu = b.relu},
                               d = a;
    d.store = s;
    d.x = device_tensor(s, b.x, b.n), d.y = b.relu ? device_tensor(s, b.y, b.n) : NULL;
    void *gradient = device_tensor(s, dy, b.n);
    d.dy = gradient, d.gamma = device_floats(b.gamma, b.c);
    d.save_mean = device_floats(b.save_mean, b.c);
    d.save_invstd = device_floats(b.save_invstd, b.c);
    int apart = b.accumulate; // dx takes the place of dy, else dresidual does
    d.dx = b.residual && !apart ? device_room(s, b.n) : gradient;
    d.dresidual = !b.residual ? NULL : apart ? device_room(s, b.n) : gradient;
    d.dgamma = b.accumulate ? device_floats(dgamma, b.c) : device_empty(b.c * sizeof *dx);
    d.dbeta = b.accumulate ? device_floats(dbeta, b.c) : device_empty(b.c * sizeof *dx);
    cuda_batchnorm_backward(&test.queue, &d);
    kernels_reference.batchnorm_backward(test.reference, &a);
    batch_grad_sizes(&b, dy);
    double relative = sum_roundings(rows_of_thread(rows));
    case_tensor(s, d.dx, dx, b.size, b.n, relative, "batch norm: dx");
    if (b.residual)
        case_tensor(s, d.dresidual, dresidual, NULL, b.n, 0, "batch norm: dresidual");
    case_close(d.dgamma, dgamma, b.var, b.c, relative, "batch norm: dgamma");
    case_close(d.dbeta, dbeta, b.mean, b.c, relative, "batch norm: dbeta");
    case_end();
}

static void batchnorms(void) {
    static const int shapes[][2] = {{1, 3},    {7, 1},   {65, 32}, {70, 33},
                                    {2500, 5}, {64, 70}, {190, 4}, {17000, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = (int)i % 2; variant < 8; variant += 3) {
            batch_forward(shapes[i][0], shapes[i][1], variant);
            batch_eval(shapes[i][0], shapes[i][1], variant);
            batch_backward(shapes[i][0], shapes[i][1], variant);
        }
    batch_forward(128, 64, 3);
    case_counts("batch norm of whole blocks");
    batch_backward(128, 64, 2); // with ReLU dy is not read where y is 0, but the sector is
    case_counts("gradient of batch norm of whole blocks");
}
static void batchnorm(void) {
    case_stores(batchnorms);
}

// ---- layer norm
// -----------------------------------------------------------------------------------
static void layer_case(int64_t rows, int cols, int residual, int train) {
    size_t n = (size_t)rows * (size_t)cols, w = (size_t)cols, r = (size_t)rows;
    case_begin(cuda_layernorm_workspace(rows, cols));
    enum kernel_type s = test.store;
    float *x = host_tensor(s, n), *other = host_tensor(s, n), *sum = host_random(n);
    float *y = host_random(n), *gamma = host_random(w), *beta = host_random(w),
          *mean = host_random(r);
    float *invstd = host_random(r), *size = host_random(n), *one = host_random(r);
    struct layernorm_args a = {.rows = rows,
                               .cols = cols,
                               .eps = 1e-5,
                               .x = x,
                               .residual = residual ? other : NULL,
                               .sum = sum,
                               .gamma = gamma,
                               .beta = beta,
                               .save_mean = mean,
                               .save_invstd = invstd,
                               .y = y},
                          d = a;
    d.store = s;
    d.x = device_tensor(s, x, n), d.residual = residual ? device_tensor(s, other, n) : NULL;
    d.sum = (void *)(uintptr_t)d.residual, d.gamma = device_floats(gamma, w);
    d.beta = device_floats(beta, w), d.save_mean = device_empty(r * sizeof *x);
    d.save_invstd = device_empty(r * sizeof *x);
    d.y = residual ? device_room(s, n) : (void *)(uintptr_t)d.x;
    if (!train)
        d.save_mean = d.save_invstd = NULL;
    cuda_layernorm_forward(&test.queue, &d);
    kernels_reference.layernorm_forward(test.reference, &a);
    for (size_t i = 0; i < n; i++) {
        float v = residual ? sum[i] : x[i];
        size[i] = (fabsf(v) + fabsf(mean[i / w]) + 1) * invstd[i / w] * fabsf(gamma[i % w]) +
                  fabsf(beta[i % w]);
    }
    for (size_t i = 0; i < r; i++)
        one[i] = 2;
    double relative = sum_roundings(cols / 32 + 1);
    case_tensor(s, d.y, y, size, n, relative, "layer norm: y");
    if (train) {
        case_close(d.save_mean, mean, one, r, relative, "layer norm: mean");
        case_close(d.save_invstd, invstd, NULL, r, relative, "layer norm: 1 / deviation");
    }
    if (residual)
        case_tensor(s, d.sum, sum, NULL, n, 0, "layer norm: sum");
    case_end();
}

static void layer_backward(int64_t rows, int cols, int variant) {
    size_t n = (size_t)rows * (size_t)cols, w = (size_t)cols, r = (size_t)rows;
    int accumulate = variant & 1, more = variant >> 1;
    case_begin(cuda_layernorm_workspace(rows, cols));
    enum kernel_type s = test.store;
    float *x = host_tensor(s, n), *dy = host_tensor(s, n), *dsum = host_tensor(s, n);
    float *dx = host_random(n);
    float *gamma = host_random(w), *dgamma = host_random(w), *dbeta = host_random(w);
    float *mean = host_random(r), *invstd = host_absolute(host_random(r), r);
    float *size = host_bytes(n * sizeof *x), *of_gamma = host_absolute(dgamma, w);
    float *of_beta = host_absolute(dbeta, w);
    struct layernorm_grad_args a = {rows,   cols, x,      dy,    more ? dsum : NULL, gamma, mean,
                                    invstd, dx,   dgamma, dbeta, accumulate,         0},
                               d = a;
    void *gradient = device_tensor(s, dy, n);
    d.store = s, d.x = device_tensor(s, x, n), d.dy = gradient;
    d.dsum = more ? device_tensor(s, dsum, n) : NULL;
    d.gamma = device_floats(gamma, w), d.save_mean = device_floats(mean, r);
    d.save_invstd = device_floats(invstd, r), d.dx = gradient;
    d.dgamma = accumulate ? device_floats(dgamma, w) : device_empty(w * sizeof *x);
    d.dbeta = accumulate ? device_floats(dbeta, w) : device_empty(w * sizeof *x);
    cuda_layernorm_backward(&test.queue, &d);
    kernels_reference.layernorm_backward(test.reference, &a);
    for (size_t row = 0; row < r; row++) {
        double sum = 0, dot = 0;
        for (size_t c = 0; c < w; c++) {
            double g = fabs((double)dy[row * w + c] * (double)gamma[c]);
            double normal =
                (fabs((double)x[row * w + c]) + fabs((double)mean[row])) * (double)invstd[row];
            sum += g, dot += g * normal;
            of_gamma[c] += (float)(fabs((double)dy[row * w + c]) * normal);
            of_beta[c] += fabsf(dy[row * w + c]);
        }
        for (size_t c = 0; c < w; c++)
            size[row * w + c] = (float)(((sum + 2 * (double)invstd[row] * dot) / (double)cols + 1) *
                                        (double)invstd[row]) +
                                fabsf(dsum[row * w + c]);
    }
    case_tensor(s, d.dx, dx, size, n, sum_roundings(cols / 32 + 1), "layer norm: dx");
    case_close(d.dgamma, dgamma, of_gamma, w, sum_roundings(rows_of_thread(rows)),
               "layer norm: dgamma");
    case_close(d.dbeta, dbeta, of_beta, w, sum_roundings(rows_of_thread(rows)),
               "layer norm: dbeta");
    case_end();
}

static void layernorms(void) {
    static const int shapes[][2] = {{1, 1},   {9, 31},  {8, 64},   {70, 33},
                                    {3, 200}, {5, 128}, {3, 1100}, {17000, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int v = 0; v<4; v += shapes[i][0]> 1000 ? 3 : 1) {
            layer_case(shapes[i][0], shapes[i][1], v & 1, v < 2);
            layer_backward(shapes[i][0], shapes[i][1], v);
        }
}
static void layernorm(void) {
    case_stores(layernorms);
}

// ---- bias
// -----------------------------------------------------------------------------------------
// The rows begin behind `before` numbers: one more, and none of them is whole pairs.
static void bias_case(int64_t rows, int cols, int accumulate, size_t before) {
    size_t n = (size_t)rows * (size_t)cols, w = (size_t)cols;
    case_begin(cuda_bias_workspace(rows, cols));
    float *all = host_tensor(test.store, before + n), *dy = all + before;
    const char *at = device_tensor(test.store, all, before + n);
    float *db = host_random(w), *size = host_absolute(db, w);
    void *d = accumulate ? device_floats(db, w) : device_empty(w * sizeof *db);
    cuda_bias_backward(&test.queue, test.store, rows, cols, at + tensor_bytes(test.store, before),
                       d, accumulate);
    kernels_reference.bias_backward(test.reference, rows, cols, dy, db, accumulate);
    kernels_reference.bias_backward(test.reference, rows, cols, host_absolute(dy, n), size, 1);
    case_close(d, db, size, w, sum_roundings(rows_of_thread(rows)), "bias");
    case_end();
}

static void biases(void) {
    bias_case(1, 1, 0, 0), bias_case(33, 10, 1, 0), bias_case(3000, 40, 0, 0);
    bias_case(64, 32, 1, 0), bias_case(80000, 2, 0, 0), bias_case(40, 66, 0, 1);
}
static void bias(void) {
    case_stores(biases);
}

int main(int argc, char **argv) {
    static const struct case_family families[] = {
        {"batchnorm", batchnorm}, {"layernorm", layernorm}, {"bias", bias}};
    return case_main(argc, argv, families, 3);
}
