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
#include "kernels/cpu/share.h"

enum { blocks_max = 64 };

struct layer_job {
    const struct cpu_isa *isa;
    const struct layernorm_args *forward;
    const struct layernorm_grad_args *backward;
    int64_t block_rows, blocks;
    float *dgamma, *dbeta; // [blocks][cols] each
};

static int64_t block_rows_of(int64_t rows) {
    return div_up(rows, blocks_max);
}

size_t cpu_layernorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    (void)ctx;
    return 2 * (size_t)clamp64(rows, 0, blocks_max) * (size_t)cols * sizeof(float);
}

static void forward_row(const struct layer_job *job, int64_t r) {
    const struct layernorm_args *a = job->forward;
    const float *x = (const float *)a->x + r * a->cols;
    float mean, m2;
    if (a->residual) {
        float *sum = (float *)a->sum + r * a->cols;
        job->isa->add((size_t)a->cols, x, (const float *)a->residual + r * a->cols, sum);
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
    job->isa->ln_apply(a->cols, x, mean, invstd, a->gamma, a->beta, (float *)a->y + r * a->cols);
}

static void forward_rows(void *arg, int worker, int workers) {
    const struct layer_job *job = arg;
    struct share mine = share_of(job->forward->rows, worker, workers);
    for (int64_t r = mine.begin; r < mine.end; r++)
        forward_row(job, r);
}

// x[rows][cols], residual[rows][cols] -> sum, y[rows][cols], save_mean[rows], save_invstd[rows]
void cpu_layernorm_forward(struct kernel_ctx *ctx, const struct layernorm_args *a) {
    struct layer_job job = {.isa = ctx->isa, .forward = a};
    ctx_parallel(ctx, forward_rows, &job);
}

static void backward_row(const struct layer_job *job, int64_t r, float *dgamma, float *dbeta) {
    const struct layernorm_grad_args *a = job->backward;
    int64_t at = r * a->cols;
    float sum, dot;
    struct ln_row row = {.n = a->cols, .x = (const float *)a->x + at};
    row.dy = (const float *)a->dy + at;
    row.gamma = a->gamma;
    row.mean = ((const float *)a->save_mean)[r];
    row.invstd = ((const float *)a->save_invstd)[r];
    job->isa->ln_grad_sums(&row, dgamma, dbeta, &sum, &dot);
    job->isa->ln_grad_apply(&row, sum / (float)a->cols, dot / (float)a->cols,
                            a->dsum ? (const float *)a->dsum + at : NULL, (float *)a->dx + at);
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
            backward_row(job, r, dgamma, dbeta);
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
    struct layer_job job = {.isa = ctx->isa, .backward = a};
    job.block_rows = block_rows_of(a->rows);
    job.blocks = div_up(a->rows, job.block_rows);
    job.dgamma = (float *)ctx->work;
    job.dbeta = job.dgamma + job.blocks * a->cols;
    ctx_parallel(ctx, backward_blocks, &job);
    add_blocks(&job, job.dgamma, a->accumulate, a->dgamma);
    add_blocks(&job, job.dbeta, a->accumulate, a->dbeta);
}
