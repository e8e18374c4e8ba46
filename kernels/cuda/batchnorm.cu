// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, and sums over rows. Statistics: sums of float within a thread, of values
// less the column's first one, so that a large mean costs no digits; sums of double beyond.
#include "kernels/cuda/rows.cuh"

template <class T, int PER> __device__ __forceinline__ void sums(const batchnorm_params &p) {
    const T *x = (const T *)p.x;
    int column = column_of_thread() * PER;
    float pivot[PER] = {};
    if (column < p.channels)
        read(pivot, x, column);
    sum_chunk<PER>(p.rows, p.channels, p.chunk_rows, p.partial,
                   [&](int64_t row, int c, float(&a)[PER], float(&b)[PER]) {
                       float v[PER];
                       read(v, x, row * p.channels + c);
                       for (int k = 0; k < PER; k++) {
                           float d = v[k] - pivot[k];
                           a[k] += d, b[k] = fmaf(d, d, b[k]);
                       }
                   });
}
// x[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_sums(const batchnorm_params p) {
    OF_STORED(p, sums, p);
}

// The same of sums of tiles, sums[tiles][2][channels], about the column's first number.
KERNEL batchnorm_tiles(const batchnorm_params p) {
    numbers<true> x(p.x, p.bf16);
    int column = column_of_thread();
    float pivot = column < p.channels ? x[column] : 0.0f;
    int64_t tiles = (p.rows + p.tile_rows - 1) / p.tile_rows;
    sum_chunk<1>(tiles, p.channels, p.chunk_rows, p.partial,
                 [&](int64_t tile, int c, float(&a)[1], float(&b)[1]) {
                     const float *sums = p.sums + tile * 2 * p.channels + c;
                     int64_t row = tile * p.tile_rows;
                     float n = min((int64_t)p.tile_rows, p.rows - row);
                     float d = x[row * p.channels + c] - pivot, sum = sums[0];
                     a[0] += fmaf(n, d, sum);
                     b[0] += fmaf(d, fmaf(n, d, 2.0f * sum), sums[p.channels]);
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
    double mean = numbers<true>(p.x, p.bf16)[c] + shift,
           unbiased = p.rows > 1 ? var * n / (n - 1) : (double)p.running_var[c];
    p.save_mean[c] = (float)mean;
    p.save_invstd[c] = (float)(1.0 / sqrt(var + p.eps));
    p.running_mean[c] = (float)((1 - p.momentum) * p.running_mean[c] + p.momentum * mean);
    p.running_var[c] = (float)((1 - p.momentum) * p.running_var[c] + p.momentum * unbiased);
}

template <class T, int PER>
__device__ __forceinline__ void normalize(const batchnorm_params &p, bool eval) {
    const T *x = (const T *)p.x, *residual = (const T *)p.residual;
    int c = column_of_thread() * PER;
    if (c >= p.channels)
        return;
    float mean[PER], scale[PER], shift[PER], gamma[PER];
    read(mean, eval ? p.running_mean : p.save_mean, c);
    read(scale, eval ? p.running_var : p.save_invstd, c);
    read(gamma, p.gamma, c);
    read(shift, p.beta, c);
    for (int k = 0; k < PER; k++)
        scale[k] = gamma[k] * (eval ? (float)(1.0 / sqrt(scale[k] + p.eps)) : scale[k]);
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
#pragma unroll 4
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        float v[PER], more[PER] = {};
        read(v, x, at);
        if (residual)
            read(more, residual, at);
        for (int k = 0; k < PER; k++) {
            v[k] = fmaf(v[k] - mean[k], scale[k], shift[k]) + more[k];
            v[k] = p.relu && v[k] < 0.0f ? 0.0f : v[k];
        }
        write((T *)p.y, at, v);
    }
}

// x, residual[rows][channels], save_mean, save_invstd[channels] -> y[rows][channels]
KERNEL batchnorm_apply(const batchnorm_params p) {
    OF_STORED(p, normalize, p, false);
}

// x, residual[rows][channels], running_mean, running_var[channels] -> y[rows][channels]
KERNEL batchnorm_eval(const batchnorm_params p) {
    OF_STORED(p, normalize, p, true);
}

// ---- gradient: sums of dz and of dz * normalised x ----------------------------------------------

// dz, and the normalised x, of a thread's columns of a row.
template <class T, int PER> struct grad_of {
    float mean[PER], invstd[PER], dz[PER], normal[PER];
    __device__ __forceinline__ grad_of(const batchnorm_grad_params &p, int c) {
        if (c < p.channels)
            read(mean, p.save_mean, c), read(invstd, p.save_invstd, c);
    }
    __device__ __forceinline__ void get(const batchnorm_grad_params &p, int64_t at) {
        float y[PER];
        read(dz, (const T *)p.dy, at);
        read(normal, (const T *)p.x, at);
        if (p.relu)
            read(y, (const T *)p.y, at);
        for (int k = 0; k < PER; k++) {
            normal[k] = (normal[k] - mean[k]) * invstd[k];
            dz[k] = p.relu && !(y[k] > 0.0f) ? 0.0f : dz[k];
        }
    }
};

template <class T, int PER>
__device__ __forceinline__ void grad_sums(const batchnorm_grad_params &p) {
    grad_of<T, PER> g(p, column_of_thread() * PER);
    sum_chunk<PER>(p.rows, p.channels, p.chunk_rows, p.partial,
                   [&](int64_t row, int c, float(&a)[PER], float(&b)[PER]) {
                       g.get(p, row * p.channels + c);
                       for (int k = 0; k < PER; k++)
                           a[k] += g.dz[k], b[k] = fmaf(g.dz[k], g.normal[k], b[k]);
                   });
}
// x, y, dy[rows][channels] -> partial[chunks][2][channels]
KERNEL batchnorm_grad_sums(const batchnorm_grad_params p) {
    OF_STORED(p, grad_sums, p);
}

template <class T, int PER>
__device__ __forceinline__ void grad_apply(const batchnorm_grad_params &p) {
    int c = column_of_thread() * PER;
    if (c >= p.channels)
        return;
    grad_of<T, PER> g(p, c);
    float scale[PER], each[PER], along[PER], v[PER];
    typedef neighbours<double, PER> totals;
    totals sum = *(const totals *)(p.total + c), dot = *(const totals *)(p.total + p.channels + c);
    read(scale, p.gamma, c);
    for (int k = 0; k < PER; k++) {
        scale[k] *= g.invstd[k];
        each[k] = (float)(sum.v[k] / p.rows), along[k] = (float)(dot.v[k] / p.rows);
    }
    int64_t to = min((blockIdx.y + 1) * p.chunk_rows, p.rows);
#pragma unroll 4
    for (int64_t r = blockIdx.y * p.chunk_rows + row_of_thread(); r < to; r += ROWS) {
        int64_t at = r * p.channels + c;
        g.get(p, at);
        for (int k = 0; k < PER; k++)
            v[k] = scale[k] * (g.dz[k] - each[k] - g.normal[k] * along[k]);
        write((T *)p.dx, at, v);
        if (p.dresidual)
            write((T *)p.dresidual, at, g.dz);
    }
}
// x, y, dy[rows][channels], total[2][channels] -> dx, dresidual[rows][channels]
KERNEL batchnorm_grad_apply(const batchnorm_grad_params p) {
    OF_STORED(p, grad_apply, p);
}

// ---- sums over rows -----------------------------------------------------------------------------

template <class T, int PER> __device__ __forceinline__ void columns(const column_params &p) {
    sum_chunk<PER>(p.rows, p.columns, p.chunk_rows, p.partial,
                   [&](int64_t row, int c, float(&a)[PER], float(&)[PER]) {
                       float v[PER];
                       read(v, (const T *)p.x, row * p.columns + c);
                       for (int k = 0; k < PER; k++)
                           a[k] += v[k];
                   });
}
// x[rows][columns] -> partial[chunks][2][columns]
KERNEL column_sums(const column_params p) {
    OF_STORED(p, columns, p);
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
