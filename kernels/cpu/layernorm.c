// SPDX-License-Identifier: Apache-2.0
// Layer norm: x[rows][cols] -> y[rows][cols], a row at a time. The gradients of gamma and beta are
// sums down the columns: rows are cut into blocks by shape alone, each block gives its own sums,
// and one place adds them up in order and in double.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

enum { blocks_max = 64, buffers = 4 };

struct layer_job {
    const struct kernel_ctx *ctx;
    const struct cpu_isa *isa;
    const struct layernorm_args *forward;
    const struct layernorm_grad_args *backward;
    int64_t block_rows, blocks;
    float *dgamma, *dbeta; // [blocks][cols] each
    float *rows;           // [workers][buffers][cols]: rows that are not stored as floats
};

static int64_t block_rows_of(int64_t rows) {
    return div_up(rows, blocks_max);
}

size_t cpu_layernorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    size_t sums = 2 * (size_t)clamp64(rows, 0, blocks_max);
    return (sums + (size_t)ctx->workers * buffers) * (size_t)cols * sizeof(float);
}

static void forward_row(const struct layer_job *job, int64_t r, float *row) {
    const struct layernorm_args *a = job->forward;
    size_t cols = (size_t)a->cols;
    int64_t at = r * a->cols;
    const float *x = stored_read(job->ctx, a->store, cols, a->x, at, row);
    float *second = row ? row + cols : NULL;
    float mean, m2, *y = stored_begin(a->store, a->y, at, second);
    if (a->residual) {
        float *sum = stored_begin(a->store, a->sum, at, row);
        const float *more = stored_read(job->ctx, a->store, cols, a->residual, at, second);
        job->isa->add(cols, x, more, sum);
        stored_end(job->ctx, a->store, cols, sum, a->sum, at);
        x = sum;
    }
    job->isa->ln_moments(a->cols, x, &mean, &m2);
    // An infinite variance would hide behind zeros: it shows as no number.
    double var = isfinite(m2) ? (double)m2 / a->cols : (double)NAN;
    float invstd = (float)(1 / sqrt(var + a->eps));
    if (a->save_mean) {
        ((float *)a->save_mean)[r] = mean;
        ((float *)a->save_invstd)[r] = invstd;
    }
    job->isa->ln_apply(a->cols, x, mean, invstd, a->gamma, a->beta, y);
    stored_end(job->ctx, a->store, cols, y, a->y, at);
}

// The buffers of a worker; NULL: there are none, since all tensors are floats.
static float *rows_of(const struct layer_job *job, int worker, int cols) {
    return job->rows ? job->rows + (size_t)worker * buffers * (size_t)cols : NULL;
}

static void forward_rows(void *arg, int worker, int workers) {
    const struct layer_job *job = arg;
    struct share mine = share_of(job->forward->rows, worker, workers);
    for (int64_t r = mine.begin; r < mine.end; r++)
        forward_row(job, r, rows_of(job, worker, job->forward->cols));
}

// x[rows][cols], residual[rows][cols] -> sum, y[rows][cols], save_mean[rows], save_invstd[rows]
void cpu_layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a) {
    assert(a->store == KERNEL_FLOAT ||
           cpu_layernorm_workspace(ctx, a->rows, a->cols) <= ctx->work_bytes);
    struct layer_job job = {.ctx = ctx, .isa = ctx->isa, .forward = a};
    job.rows = (float *)ctx->work;
    ctx_parallel(ctx, forward_rows, &job);
}

static void backward_row(const struct layer_job *job, int64_t r, float *dgamma, float *dbeta,
                         float *buffer) {
    const struct layernorm_grad_args *a = job->backward;
    int64_t at = r * a->cols;
    size_t cols = (size_t)a->cols;
    float sum, dot, *dx = stored_begin(a->store, a->dx, at, buffer + 2 * cols);
    struct ln_row row = {.n = a->cols};
    row.x = stored_read(job->ctx, a->store, cols, a->x, at, buffer);
    row.dy = stored_read(job->ctx, a->store, cols, a->dy, at, buffer + cols);
    row.gamma = a->gamma;
    row.mean = ((const float *)a->save_mean)[r];
    row.invstd = ((const float *)a->save_invstd)[r];
    job->isa->ln_grad_sums(&row, dgamma, dbeta, &sum, &dot);
    const float *more = NULL;
    if (a->dsum)
        more = stored_read(job->ctx, a->store, cols, a->dsum, at, buffer + 3 * cols);
    job->isa->ln_grad_apply(&row, sum / (float)a->cols, dot / (float)a->cols, more, dx);
    stored_end(job->ctx, a->store, cols, dx, a->dx, at);
}

static void backward_blocks(void *arg, int worker, int workers) {
    const struct layer_job *job = arg;
    const struct layernorm_grad_args *a = job->backward;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++) {
        float *dgamma = job->dgamma + b * a->cols, *dbeta = job->dbeta + b * a->cols;
        int64_t end = clamp64((b + 1) * job->block_rows, 0, a->rows);
        memset(dgamma, 0, (size_t)a->cols * sizeof(float));
        memset(dbeta, 0, (size_t)a->cols * sizeof(float));
        for (int64_t r = b * job->block_rows; r < end; r++)
            backward_row(job, r, dgamma, dbeta, rows_of(job, worker, a->cols));
    }
}

static void add_blocks(const struct layer_job *job, const float *blocks, int accumulate,
                       float *out) {
    int cols = job->backward->cols;
    for (int c = 0; c < cols; c++) {
        double sum = accumulate ? (double)out[c] : 0;
        for (int64_t b = 0; b < job->blocks; b++)
            sum += (double)blocks[b * cols + c];
        out[c] = (float)sum;
    }
}

// x[rows][cols], dy[rows][cols] (+ dsum) -> dx[rows][cols], dgamma[cols], dbeta[cols]
void cpu_layernorm_backward(struct kernel_ctx *ctx, const struct layernorm_grad_args *a) {
    assert(cpu_layernorm_workspace(ctx, a->rows, a->cols) <= ctx->work_bytes);
    struct layer_job job = {.ctx = ctx, .isa = ctx->isa, .backward = a};
    job.block_rows = block_rows_of(a->rows);
    job.blocks = div_up(a->rows, job.block_rows);
    job.dgamma = (float *)ctx->work;
    job.dbeta = job.dgamma + job.blocks * a->cols;
    job.rows = job.dbeta + job.blocks * a->cols;
    ctx_parallel(ctx, backward_blocks, &job);
    add_blocks(&job, job.dgamma, a->accumulate, a->dgamma);
    add_blocks(&job, job.dbeta, a->accumulate, a->dbeta);
}
