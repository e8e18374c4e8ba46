// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, and sums over rows. Statistics: sums of float within a thread, of values
// less the column's first one, so that a large mean costs no digits; sums of double beyond.
#include "kernels/cuda/rows.cuh"

template <class T> __device__ __forceinline__ void sums(const batchnorm_params &p) {
    const T *x = (const T *)p.x;
    int column = column_of_thread();
    float pivot = column < p.channels ? read(x, column) : 0.0f;
    sum_chunk(p.rows, p.channels, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &b) {
                  float d = read(x, row * p.channels + c) - pivot;
                  a += d, b = fmaf(d, d, b);
              });
}
// x[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_sums(const batchnorm_params p) {
    p.bf16 ? sums<bf16_word>(p) : sums<float>(p);
}

// partial[chunks][2][channels] -> save_mean, save_invstd, running_mean, running_var[channels]
KERNEL batchnorm_moments(const batchnorm_params p) {
    double sum, square;
    sum_chunks(p.channels, p.chunks, p.partial, sum, square);
    int c = column_of_thread();
    if (row_of_thread() != 0 || c >= p.channels)
        return;
    double n = (double)p.rows, shift = sum / n, var = fmax(square / n - shift * shift, 0.0);
    double mean = numbers<true>(p.x, p.bf16)[c] + shift,
           unbiased = p.rows > 1 ? var * n / (n - 1) : (double)p.running_var[c];
    p.save_mean[c] = (float)mean;
    p.save_invstd[c] = (float)(1.0 / sqrt(var + p.eps));
    p.running_mean[c] = (float)((1 - p.momentum) * p.running_mean[c] + p.momentum * mean);
    p.running_var[c] = (float)((1 - p.momentum) * p.running_var[c] + p.momentum * unbiased);
}

template <class T>
__device__ __forceinline__ void normalize(const batchnorm_params &p, int c, float mean,
                                          float invstd) {
    const T *x = (const T *)p.x, *residual = (const T *)p.residual;
    float scale = invstd * p.gamma[c], shift = p.beta[c];
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        float v = fmaf(read(x, at) - mean, scale, shift);
        if (residual)
            v += read(residual, at);
        write((T *)p.y, at, p.relu && v < 0.0f ? 0.0f : v);
    }
}

// x, residual[rows][channels], save_mean, save_invstd[channels] -> y[rows][channels]
KERNEL batchnorm_apply(const batchnorm_params p) {
    int c = column_of_thread();
    if (c >= p.channels)
        return;
    float mean = p.save_mean[c], invstd = p.save_invstd[c];
    p.bf16 ? normalize<bf16_word>(p, c, mean, invstd) : normalize<float>(p, c, mean, invstd);
}

// x, residual[rows][channels], running_mean, running_var[channels] -> y[rows][channels]
KERNEL batchnorm_eval(const batchnorm_params p) {
    int c = column_of_thread();
    if (c >= p.channels)
        return;
    float mean = p.running_mean[c], invstd = (float)(1.0 / sqrt(p.running_var[c] + p.eps));
    p.bf16 ? normalize<bf16_word>(p, c, mean, invstd) : normalize<float>(p, c, mean, invstd);
}

// ---- gradient: sums of dz and of dz * normalised x ----------------------------------------------

template <class T> __device__ __forceinline__ void grad_sums(const batchnorm_grad_params &p) {
    const T *x = (const T *)p.x, *y = (const T *)p.y, *dy = (const T *)p.dy;
    int column = column_of_thread();
    bool in = column < p.channels;
    float mean = in ? p.save_mean[column] : 0.0f, invstd = in ? p.save_invstd[column] : 0.0f;
    sum_chunk(p.rows, p.channels, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &b) {
                  int64_t at = row * p.channels + c;
                  float dz = p.relu && !(read(y, at) > 0.0f) ? 0.0f : read(dy, at);
                  a += dz, b = fmaf(dz, (read(x, at) - mean) * invstd, b);
              });
}
// x, y, dy[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_grad_sums(const batchnorm_grad_params p) {
    p.bf16 ? grad_sums<bf16_word>(p) : grad_sums<float>(p);
}

template <class T>
__device__ __forceinline__ void grad_apply(const batchnorm_grad_params &p, int c) {
    const T *x = (const T *)p.x, *y = (const T *)p.y, *dy = (const T *)p.dy;
    float mean = p.save_mean[c], invstd = p.save_invstd[c], scale = p.gamma[c] * invstd;
    float each = (float)(p.total[c] / p.rows), along = (float)(p.total[p.channels + c] / p.rows);
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        float dz = p.relu && !(read(y, at) > 0.0f) ? 0.0f : read(dy, at);
        float normal = (read(x, at) - mean) * invstd;
        write((T *)p.dx, at, scale * (dz - each - normal * along));
        if (p.dresidual)
            write((T *)p.dresidual, at, dz);
    }
}
// x, y, dy[rows][channels], total[2][channels] -> dx, dresidual[rows][channels]
KERNEL batchnorm_grad_apply(const batchnorm_grad_params p) {
    int c = column_of_thread();
    if (c < p.channels)
        p.bf16 ? grad_apply<bf16_word>(p, c) : grad_apply<float>(p, c);
}

// ---- sums over rows -----------------------------------------------------------------------------

template <class T> __device__ __forceinline__ void columns(const column_params &p) {
    const T *x = (const T *)p.x;
    sum_chunk(p.rows, p.columns, p.chunk_rows, p.partial,
              [&](int64_t row, int c, float &a, float &) { a += read(x, row * p.columns + c); });
}
// x[rows][columns] -> partial[chunks][2][columns]
KERNEL column_sums(const column_params p) {
    p.bf16 ? columns<bf16_word>(p) : columns<float>(p);
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
