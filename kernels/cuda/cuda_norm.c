// SPDX-License-Identifier: Apache-2.0
// Launches normalisations and sums over rows.
#include "kernels/cuda/cuda_impl.h"

enum {
    CHUNK_ROWS_MIN = 32, // fewer are not worth a block
    ROW_COLUMNS = 32,    // of a block; rows.cuh
    ROW_WARPS = CUDA_THREADS / 32,
    APPLY_ROWS = 64, // of a block that changes each element
};

// partial sums of every chunk, and the totals behind them
static size_t norm_bytes(int columns) {
    return (size_t)(CUDA_ROWS_OF_SUM + 1) * 2 * (size_t)columns * sizeof(double);
}

size_t cuda_batchnorm_workspace(int64_t rows, int channels) {
    (void)rows;
    return norm_bytes(channels);
}
size_t cuda_bias_workspace(int64_t rows, int cols) {
    (void)rows;
    return norm_bytes(cols);
}
size_t cuda_layernorm_workspace(int64_t rows, int cols) {
    (void)rows;
    return norm_bytes(cols);
}

// Fewer columns would leave some threads without pairs.
#define NORM_PAIRS(store, columns, ...)                                                            \
    ((columns) > ROW_COLUMNS && CUDA_PAIRS(store, columns, __VA_ARGS__))

// Blocks for all columns of tensors.
static unsigned norm_across(int columns, int pairs) {
    return cuda_blocks(columns, pairs ? 2 * ROW_COLUMNS : ROW_COLUMNS);
}

static int norm_chunks(int64_t rows) {
    int64_t chunks = cuda_blocks(rows, CHUNK_ROWS_MIN);
    return chunks > CUDA_ROWS_OF_SUM ? CUDA_ROWS_OF_SUM : (int)chunks;
}

static double *norm_totals(const struct cuda_queue *q, int columns) {
    return (double *)q->workspace + (size_t)CUDA_ROWS_OF_SUM * 2 * (size_t)columns;
}

// The totals of the chunks, in first and second and, for a further kernel, in the workspace.
static void norm_total(struct cuda_queue *q, int64_t rows, int columns, void *first, void *second,
                       int accumulate) {
    struct column_params p = {.columns = columns,
                              .chunks = norm_chunks(rows),
                              .partial = q->workspace,
                              .total = norm_totals(q, columns),
                              .first = first,
                              .second = second,
                              .accumulate = accumulate};
    cuda_enqueue(q, CUDA_KERNEL_column_totals, cuda_blocks(columns, ROW_COLUMNS), 1, &p);
}

void cuda_bias_backward(struct cuda_queue *q, enum kernel_type store, int64_t rows, int cols,
                        const void *dy, void *db, int accumulate) {
    int chunks = norm_chunks(rows);
    struct column_params p = {.rows = rows,
                              .columns = cols,
                              .chunks = chunks,
                              .chunk_rows = cuda_blocks(rows, chunks ? chunks : 1),
                              .x = dy,
                              .bf16 = cuda_is_bf16(store),
                              .pairs = NORM_PAIRS(store, cols, dy),
                              .partial = q->workspace};
    cuda_enqueue(q, CUDA_KERNEL_column_sums, norm_across(cols, p.pairs), (unsigned)chunks, &p);
    norm_total(q, rows, cols, db, NULL, accumulate);
}

static struct batchnorm_params norm_forward(const struct batchnorm_args *a) {
    return (struct batchnorm_params){
        .rows = a->rows,
        .channels = a->channels,
        .eps = a->eps,
        .momentum = a->momentum,
        .x = a->x,
        .residual = a->residual,
        .gamma = a->gamma,
        .beta = a->beta,
        .running_mean = a->running_mean,
        .running_var = a->running_var,
        .save_mean = a->save_mean,
        .save_invstd = a->save_invstd,
        .y = a->y,
        .relu = a->relu,
        .bf16 = cuda_is_bf16(a->store),
        .pairs = NORM_PAIRS(a->store, a->channels, a->x, a->residual, a->y, a->gamma, a->beta,
                            a->running_mean, a->running_var, a->save_mean, a->save_invstd),
    };
}

// Rows of a block so that the grid keeps to its limit.
static int64_t norm_rows_of_block(int64_t rows) {
    int64_t each = cuda_blocks(rows, CUDA_GRID_MAX);
    return each > APPLY_ROWS ? each : APPLY_ROWS;
}

static void norm_apply(struct cuda_queue *q, enum cuda_kernel kernel, int64_t rows, unsigned across,
                       int64_t *chunk_rows, void *params) {
    *chunk_rows = norm_rows_of_block(rows);
    cuda_enqueue(q, kernel, across, cuda_blocks(rows, *chunk_rows), params);
}

// save_mean and save_invstd: from all of x, or from sums of tiles.
static void norm_statistics(struct cuda_queue *q, const struct batchnorm_args *a,
                            struct batchnorm_params *p) {
    int64_t rows = a->x_sums ? cuda_blocks(a->rows, a->x_sums) : a->rows; // or tiles
    p->chunks = norm_chunks(rows);
    p->chunk_rows = cuda_blocks(rows, p->chunks);
    p->partial = q->workspace;
    p->sums = cuda_sums(q, a->channels), p->tile_rows = a->x_sums;
    unsigned single = norm_across(a->channels, 0);
    if (a->x_sums)
        cuda_enqueue(q, CUDA_KERNEL_batchnorm_tiles, single, (unsigned)p->chunks, p);
    else
        cuda_enqueue(q, CUDA_KERNEL_batchnorm_sums, norm_across(a->channels, p->pairs),
                     (unsigned)p->chunks, p);
    cuda_enqueue(q, CUDA_KERNEL_batchnorm_moments, single, 1, p);
}

void cuda_batchnorm_forward_train(struct cuda_queue *q, const struct batchnorm_args *a) {
    struct batchnorm_params p = norm_forward(a);
    if (!a->rows)
        return;
    if (!a->stats_kept)
        norm_statistics(q, a, &p);
    norm_apply(q, CUDA_KERNEL_batchnorm_apply, a->rows, norm_across(a->channels, p.pairs),
               &p.chunk_rows, &p);
}

void cuda_batchnorm_forward_eval(struct cuda_queue *q, const struct batchnorm_args *a) {
    struct batchnorm_params p = norm_forward(a);
    norm_apply(q, CUDA_KERNEL_batchnorm_eval, a->rows, norm_across(a->channels, p.pairs),
               &p.chunk_rows, &p);
}

void cuda_batchnorm_backward(struct cuda_queue *q, const struct batchnorm_grad_args *a) {
    struct batchnorm_grad_params p = {
        .rows = a->rows,
        .channels = a->channels,
        .chunks = norm_chunks(a->rows),
        .x = a->x,
        .y = a->y,
        .dy = a->dy,
        .gamma = a->gamma,
        .save_mean = a->save_mean,
        .save_invstd = a->save_invstd,
        .dx = a->dx,
        .dresidual = a->dresidual,
        .partial = q->workspace,
        .total = norm_totals(q, a->channels),
        .relu = a->relu,
        .bf16 = cuda_is_bf16(a->store),
        .pairs = NORM_PAIRS(a->store, a->channels, a->x, a->y, a->dy, a->dx, a->dresidual, a->gamma,
                            a->save_mean, a->save_invstd),
    };
    unsigned across = norm_across(a->channels, p.pairs);
    p.chunk_rows = cuda_blocks(a->rows, p.chunks ? p.chunks : 1);
    cuda_enqueue(q, CUDA_KERNEL_batchnorm_grad_sums, across, (unsigned)p.chunks, &p);
    norm_total(q, a->rows, a->channels, a->dbeta, a->dgamma, a->accumulate);
    norm_apply(q, CUDA_KERNEL_batchnorm_grad_apply, a->rows, across, &p.chunk_rows, &p);
}

void cuda_layernorm_forward(struct cuda_queue *q, const struct layernorm_args *a) {
    struct layernorm_params p = {
        .rows = a->rows,
        .cols = a->cols,
        .eps = a->eps,
        .x = a->x,
        .residual = a->residual,
        .gamma = a->gamma,
        .beta = a->beta,
        .sum = a->sum,
        .save_mean = a->save_mean,
        .save_invstd = a->save_invstd,
        .y = a->y,
        .bf16 = cuda_is_bf16(a->store),
        .pairs = NORM_PAIRS(a->store, a->cols, a->x, a->residual, a->sum, a->y, a->gamma, a->beta),
    };
    cuda_enqueue(q, CUDA_KERNEL_layernorm_forward, cuda_blocks(a->rows, ROW_WARPS), 1, &p);
}

// The sums first: dx may be dy.
void cuda_layernorm_backward(struct cuda_queue *q, const struct layernorm_grad_args *a) {
    struct layernorm_grad_params p = {
        .rows = a->rows,
        .cols = a->cols,
        .chunks = norm_chunks(a->rows),
        .x = a->x,
        .dy = a->dy,
        .dsum = a->dsum,
        .gamma = a->gamma,
        .save_mean = a->save_mean,
        .save_invstd = a->save_invstd,
        .dx = a->dx,
        .partial = q->workspace,
        .bf16 = cuda_is_bf16(a->store),
        .pairs = NORM_PAIRS(a->store, a->cols, a->x, a->dy, a->dsum, a->dx, a->gamma),
    };
    p.chunk_rows = cuda_blocks(a->rows, p.chunks ? p.chunks : 1);
    cuda_enqueue(q, CUDA_KERNEL_layernorm_grad_sums, norm_across(a->cols, p.pairs),
                 (unsigned)p.chunks, &p);
    norm_total(q, a->rows, a->cols, a->dgamma, a->dbeta, a->accumulate);
    cuda_enqueue(q, CUDA_KERNEL_layernorm_grad_rows, cuda_blocks(a->rows, ROW_WARPS), 1, &p);
}
