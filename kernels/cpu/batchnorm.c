// SPDX-License-Identifier: Apache-2.0
// Batch normalisation and column sums. Rows are cut into blocks by shape alone; each block gives
// its own sums, and one place adds them up in order and in double.
#include <assert.h>
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/share.h"

// A block of 64 KB is read twice for its moments, the second time from the cache. Never more than
// blocks_max blocks, which bounds the workspace.
enum {
    block_floats = 16 * 1024,
    block_rows_min = 16,
    blocks_max = 512,
    vectors = 4,
};

struct norm_job {
    const struct norm_loops *loops;
    enum kernel_type store;
    int64_t rows, block_rows, blocks;
    int cols;
    const void *x;       // moments and column sums
    float *sum, *other;  // [blocks][cols] each
    struct bn_span span; // whole matrices; a block takes its rows
    void (*step)(const struct bn_span *s);
};

static int64_t fit_of(int cols) {
    return block_floats / cols > block_rows_min ? block_floats / cols : block_rows_min;
}

static int64_t block_rows_of(int64_t rows, int cols) {
    int64_t fit = fit_of(cols), most = div_up(rows, blocks_max);
    return fit > most ? fit : most;
}

static int64_t blocks_of(int64_t rows, int cols) {
    return div_up(rows, block_rows_of(rows, cols));
}

size_t cpu_batchnorm_workspace(const struct kernel_ctx *ctx, int64_t rows, int channels) {
    int64_t blocks = clamp64(div_up(rows, fit_of(channels)), 0, blocks_max); // of any fewer rows
    (void)ctx;
    return (size_t)(2 * blocks + vectors) * channels * sizeof(float);
}

static struct norm_job norm_job_of(struct kernel_ctx *ctx, enum kernel_type store, int64_t rows,
                                   int cols) {
    assert(rows > 0 && cols > 0 && cpu_batchnorm_workspace(ctx, rows, cols) <= ctx->work_bytes);
    struct norm_job job = {.loops = &ctx->isa->norm[store], .store = store};
    job.rows = rows, job.cols = cols;
    job.block_rows = block_rows_of(rows, cols);
    job.blocks = blocks_of(rows, cols);
    job.sum = (float *)ctx->work + (size_t)vectors * cols;
    job.other = job.sum + job.blocks * cols;
    return job;
}

// Vectors of one value per column, at the start of the workspace.
static float *column_vector(struct kernel_ctx *ctx, int cols, int i) {
    return (float *)ctx->work + (size_t)i * cols;
}

static int64_t rows_in_block(const struct norm_job *job, int64_t b) {
    return clamp64(job->rows - b * job->block_rows, 0, job->block_rows);
}

static const void *block_at(const struct norm_job *job, int64_t b) {
    return stored_at(job->store, job->x, b * job->block_rows * job->cols);
}

static void sum_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++)
        job->loops->column_sums(rows_in_block(job, b), job->cols, block_at(job, b),
                                job->sum + b * job->cols);
}

static void moment_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++)
        job->loops->column_moments(rows_in_block(job, b), job->cols, block_at(job, b),
                                   job->sum + b * job->cols, job->other + b * job->cols);
}

static void *skip(const struct norm_job *job, const void *p, int64_t from) {
    return p ? (void *)stored_at(job->store, p, from) : NULL;
}

static struct bn_span span_rows(const struct norm_job *job, int64_t from, int64_t rows) {
    const struct bn_span *all = &job->span;
    struct bn_span s = *all;
    int64_t at = from * all->cols;
    s.rows = rows;
    s.x = skip(job, all->x, at);
    s.y = skip(job, all->y, at);
    s.dy = skip(job, all->dy, at);
    s.residual = skip(job, all->residual, at);
    s.out = skip(job, all->out, at);
    s.out2 = skip(job, all->out2, at);
    return s;
}

static void grad_sum_blocks(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->blocks, worker, workers);
    for (int64_t b = mine.begin; b < mine.end; b++) {
        struct bn_span s = span_rows(job, b * job->block_rows, rows_in_block(job, b));
        s.out = job->sum + b * job->cols;
        s.out2 = job->other + b * job->cols;
        job->loops->bn_grad_sums(&s);
    }
}

// One pass over all rows with job->step.
static void apply(void *arg, int worker, int workers) {
    const struct norm_job *job = arg;
    struct share mine = share_of(job->rows, worker, workers);
    struct bn_span s = span_rows(job, mine.begin, mine.end - mine.begin);
    job->step(&s);
}

static double total_of(const struct norm_job *job, const float *blocks, int c) {
    double sum = 0;
    for (int64_t b = 0; b < job->blocks; b++)
        sum += (double)blocks[b * job->cols + c];
    return sum;
}

static void sum_columns(struct kernel_ctx *ctx, enum kernel_type store, int64_t rows, int cols,
                        const void *dy, float *db, int accumulate) {
    struct norm_job job = norm_job_of(ctx, store, rows, cols);
    job.x = dy;
    ctx_parallel(ctx, sum_blocks, &job);
    for (int c = 0; c < cols; c++)
        db[c] = (float)(total_of(&job, job.sum, c) + (accumulate ? (double)db[c] : 0));
}

// dy[rows][cols] -> db[cols]
void cpu_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy, void *db,
                       int accumulate) {
    sum_columns(ctx, KERNEL_FLOAT, rows, cols, dy, db, accumulate);
}

void cpu_bf16_bias_backward(struct kernel_ctx *ctx, int64_t rows, int cols, const void *dy,
                            void *db, int accumulate) {
    sum_columns(ctx, KERNEL_BF16, rows, cols, dy, db, accumulate);
}

// Mean and biased variance from the blocks' moments (Chan, Golub, LeVeque 1979).
static void combine_moments(const struct norm_job *job, int c, double *mean, double *var) {
    double sum = 0, square = 0;
    for (int64_t b = 0; b < job->blocks; b++)
        sum += (double)job->sum[b * job->cols + c] * (double)rows_in_block(job, b);
    *mean = sum / (double)job->rows;
    for (int64_t b = 0; b < job->blocks; b++) {
        double d = (double)job->sum[b * job->cols + c] - *mean;
        square += (double)job->other[b * job->cols + c] + d * d * (double)rows_in_block(job, b);
    }
    // An infinite variance would normalise everything to 0 and hide the overflow.
    *var = isfinite(square) ? square / (double)job->rows : (double)NAN;
}

static struct bn_span forward_span(const struct batchnorm_args *a, const float *mean,
                                   const float *scale) {
    struct bn_span s = {.rows = a->rows, .cols = a->channels, .x = a->x, .residual = a->residual};
    s.mean = mean;
    s.scale = scale;
    s.shift = a->beta;
    s.out = a->y;
    s.relu = a->relu;
    return s;
}

// x[rows][c], residual[rows][c] -> y[rows][c], save_mean[c], save_invstd[c], running_*[c]
void cpu_batchnorm_forward_train(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    float *scale = column_vector(ctx, a->channels, 0), *save_mean = a->save_mean;
    float *save_invstd = a->save_invstd, *running_mean = a->running_mean;
    float *running_var = a->running_var;
    double keep = 1 - a->momentum, rows = (double)a->rows;
    job.x = a->x;
    ctx_parallel(ctx, moment_blocks, &job);
    for (int c = 0; c < a->channels; c++) {
        double mean, var;
        combine_moments(&job, c, &mean, &var);
        // Of one value there is no variance to learn from.
        double unbiased = a->rows > 1 ? var * rows / (rows - 1) : (double)running_var[c];
        double invstd = 1 / sqrt(var + a->eps);
        save_mean[c] = (float)mean;
        save_invstd[c] = (float)invstd;
        scale[c] = (float)(invstd * (double)((const float *)a->gamma)[c]);
        running_mean[c] = (float)(keep * (double)running_mean[c] + a->momentum * mean);
        running_var[c] = (float)(keep * (double)running_var[c] + a->momentum * unbiased);
    }
    job.span = forward_span(a, save_mean, scale);
    job.step = job.loops->bn_apply;
    ctx_parallel(ctx, apply, &job);
}

// x[rows][c], running_*[c] -> y[rows][c]
void cpu_batchnorm_forward_eval(struct kernel_ctx *ctx, const struct batchnorm_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    float *scale = column_vector(ctx, a->channels, 0);
    const float *var = a->running_var, *gamma = a->gamma;
    for (int c = 0; c < a->channels; c++)
        scale[c] = (float)((double)gamma[c] / sqrt((double)var[c] + a->eps));
    job.span = forward_span(a, a->running_mean, scale);
    job.step = job.loops->bn_apply;
    ctx_parallel(ctx, apply, &job);
}

// x[rows][c], y[rows][c], dy[rows][c] -> dx[rows][c], dresidual[rows][c], dgamma[c], dbeta[c]
// dx = gamma * invstd * (dz - mean(dz) - xhat * mean(dz * xhat)) [Ioffe and Szegedy 2015], with
// xhat = (x - mean) * invstd taken apart into the vectors scale, shift and slope.
void cpu_batchnorm_backward(struct kernel_ctx *ctx, const struct batchnorm_grad_args *a) {
    struct norm_job job = norm_job_of(ctx, a->store, a->rows, a->channels);
    float *scale = column_vector(ctx, a->channels, 0), *shift = column_vector(ctx, a->channels, 1);
    float *slope = column_vector(ctx, a->channels, 2), *dgamma = a->dgamma, *dbeta = a->dbeta;
    const float *invstd = a->save_invstd, *gamma = a->gamma;
    job.span = (struct bn_span){.rows = a->rows, .cols = a->channels, .x = a->x, .y = a->y};
    job.span.dy = a->dy;
    job.span.mean = a->save_mean;
    job.span.relu = a->relu;
    ctx_parallel(ctx, grad_sum_blocks, &job);
    for (int c = 0; c < a->channels; c++) {
        double sum = total_of(&job, job.sum, c), dot = total_of(&job, job.other, c);
        double inv = (double)invstd[c], rows = (double)a->rows;
        scale[c] = (float)((double)gamma[c] * inv);
        shift[c] = (float)(sum / rows);
        slope[c] = (float)(dot * inv * inv / rows);
        dgamma[c] = (float)(dot * inv + (a->accumulate ? (double)dgamma[c] : 0));
        dbeta[c] = (float)(sum + (a->accumulate ? (double)dbeta[c] : 0));
    }
    job.span.scale = scale;
    job.span.shift = shift;
    job.span.slope = slope;
    job.span.out = a->dx;
    job.span.out2 = a->dresidual;
    job.step = job.loops->bn_grad_apply;
    ctx_parallel(ctx, apply, &job);
}
