// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, and sums over rows. Statistics: sums of float within a thread, of values
// less the column's first one, so that a large mean costs no digits; sums of double beyond.
#include "kernels/cuda/rows.cuh"

// x[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_sums(const batchnorm_params p) {
    int column = column_of_thread();
    float pivot = column < p.channels ? p.x[column] : 0.0f;
    sum_chunk(p.rows, p.channels, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &b) {
                  float d = p.x[row * p.channels + c] - pivot;
                  a += d, b = fmaf(d, d, b);
              });
}

// partial[chunks][2][channels] -> save_mean, save_invstd, running_mean, running_var[channels]
KERNEL batchnorm_moments(const batchnorm_params p) {
    double sum, square;
    sum_chunks(p.channels, p.chunks, p.partial, sum, square);
    int c = column_of_thread();
    if (row_of_thread() != 0 || c >= p.channels)
        return;
    double n = (double)p.rows, shift = sum / n, var = fmax(square / n - shift * shift, 0.0);
    double mean = p.x[c] + shift,
           unbiased = p.rows > 1 ? var * n / (n - 1) : (double)p.running_var[c];
    p.save_mean[c] = (float)mean;
    p.save_invstd[c] = (float)(1.0 / sqrt(var + p.eps));
    p.running_mean[c] = (float)((1 - p.momentum) * p.running_mean[c] + p.momentum * mean);
    p.running_var[c] = (float)((1 - p.momentum) * p.running_var[c] + p.momentum * unbiased);
}

__device__ __forceinline__ void normalize(const batchnorm_params &p, int c, float mean,
                                          float invstd) {
    float scale = invstd * p.gamma[c], shift = p.beta[c];
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        float v = fmaf(p.x[at] - mean, scale, shift);
        if (p.residual)
            v += p.residual[at];
        p.y[at] = p.relu && v < 0.0f ? 0.0f : v;
    }
}

// x, residual[rows][channels], save_mean, save_invstd[channels] -> y[rows][channels]
KERNEL batchnorm_apply(const batchnorm_params p) {
    int c = column_of_thread();
    if (c < p.channels)
        normalize(p, c, p.save_mean[c], p.save_invstd[c]);
}

// x, residual[rows][channels], running_mean, running_var[channels] -> y[rows][channels]
KERNEL batchnorm_eval(const batchnorm_params p) {
    int c = column_of_thread();
    if (c < p.channels)
        normalize(p, c, p.running_mean[c], (float)(1.0 / sqrt(p.running_var[c] + p.eps)));
}

// ---- gradient: sums of dz and of dz * normalised x ----------------------------------------------

// x, y, dy[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_grad_sums(const batchnorm_grad_params p) {
    int column = column_of_thread();
    bool in = column < p.channels;
    float mean = in ? p.save_mean[column] : 0.0f, invstd = in ? p.save_invstd[column] : 0.0f;
    sum_chunk(p.rows, p.channels, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &b) {
                  int64_t at = row * p.channels + c;
                  float dz = p.relu && !(p.y[at] > 0.0f) ? 0.0f : p.dy[at];
                  a += dz, b = fmaf(dz, (p.x[at] - mean) * invstd, b);
              });
}

// x, y, dy[rows][channels], total[2][channels] -> dx, dresidual[rows][channels]
KERNEL batchnorm_grad_apply(const batchnorm_grad_params p) {
    int c = column_of_thread();
    if (c >= p.channels)
        return;
    float mean = p.save_mean[c], invstd = p.save_invstd[c], scale = p.gamma[c] * invstd;
    float each = (float)(p.total[c] / p.rows), along = (float)(p.total[p.channels + c] / p.rows);
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        float dz = p.relu && !(p.y[at] > 0.0f) ? 0.0f : p.dy[at];
        float normal = (p.x[at] - mean) * invstd;
        p.dx[at] = scale * (dz - each - normal * along);
        if (p.dresidual)
            p.dresidual[at] = dz;
    }
}

// ---- sums over rows -----------------------------------------------------------------------------

// x[rows][columns] -> partial[chunks][2][columns]
KERNEL column_sums(const column_params p) {
    sum_chunk(p.rows, p.columns, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &) { a += p.x[row * p.columns + c]; });
}

// partial[chunks][2][columns] -> total[2][columns], first[columns], second[columns]
KERNEL column_totals(const column_params p) {
    double a, b;
    sum_chunks(p.columns, p.chunks, p.partial, a, b);
    int c = column_of_thread();
    if (row_of_thread() != 0 || c >= p.columns)
        return;
    p.total[c] = a, p.total[p.columns + c] = b;
    p.first[c] = (float)(p.accumulate ? p.first[c] + a : a);
    if (p.second)
        p.second[c] = (float)(p.accumulate ? p.second[c] + b : b);
}
